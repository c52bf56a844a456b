"""Named profiles, rendered to a config.cmake that fits the tree at hand."""

from buildtool.profiles.builtin import BUILTINS, names
from buildtool.profiles.model import Profile
from buildtool.profiles.resolving import resolve

__all__ = ["BUILTINS", "Profile", "names", "resolve"]
