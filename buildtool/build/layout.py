"""Where builds lie: one folder a profile and ABI, the finished files in ``dist`` beside them.

::

    build/                       [build] dir, relative to buildtool.toml
      android-arm64-v8a/         CMake's binary folder; buildtool.json and the logs are in it
      dist/android-arm64-v8a/    what a device needs, and manifest.json
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.types import Abi

if TYPE_CHECKING:
    from buildtool.settings import Settings


def build_root(settings: Settings) -> Path:
    """The folder that holds every build of these settings."""
    root = settings.path("build.dir")
    assert root is not None  # it has a built-in value
    return root


def build_dir(settings: Settings, profile: str, abi: Abi) -> Path:
    """CMake's binary folder for one profile and ABI."""
    return build_root(settings) / f"{profile}-{abi.value}"


def dist_dir(settings: Settings, profile: str, abi: Abi) -> Path:
    """The folder that the finished files of one profile and ABI are collected in."""
    return build_root(settings) / "dist" / f"{profile}-{abi.value}"
