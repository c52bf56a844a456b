"""buildtool.toml: typed, every value knows where it came from."""

from buildtool.settings.loading import flatten, load
from buildtool.settings.model import (
    BuildSettings,
    DeviceSettings,
    ProfileSettings,
    Settings,
    SourceSettings,
    ToolchainSettings,
)

__all__ = [
    "BuildSettings",
    "DeviceSettings",
    "ProfileSettings",
    "Settings",
    "SourceSettings",
    "ToolchainSettings",
    "flatten",
    "load",
]
