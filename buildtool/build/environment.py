"""The environment that a build sees: named variables only, so that a record can list them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from buildtool.toolchains.model import Toolchain

PASSED = (
    "HOME",
    "PATH",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "SYSTEMROOT",
    "ANDROID_HOME",
    "ANDROID_NDK",
    "ANDROID_NDK_HOME",
    "ANDROID_NDK_ROOT",
    "SOURCE_DATE_EPOCH",
    "LD_LIBRARY_PATH",
    "DISTCC_HOSTS",
    "XDG_CACHE_HOME",
)
PASSED_PREFIXES = ("CCACHE_", "SCCACHE_")
# Set by other tools' CMake runs or shells; each would change the compile lines behind the profile's back.
IGNORED_LOUDLY = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_TOOLCHAIN_FILE", "CMAKE_GENERATOR")


def build_environment(toolchain: Toolchain, *, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables for cmake and ninja: PASSED ones, the toolchain's, and a fixed locale."""
    here = os.environ if env is None else env
    kept = {k: v for k, v in here.items() if k in PASSED or k.startswith(PASSED_PREFIXES)}
    kept.update(dict(toolchain.env))
    kept["LC_ALL"] = "C.UTF-8"
    kept["TZ"] = "UTC"
    # The compile lines map the build folder away, so objects don't depend on it.
    kept.setdefault("CCACHE_NOHASHDIR", "1")
    return kept


def ignored(env: Mapping[str, str] | None = None) -> list[str]:
    """Names of set variables that people expect to matter but that a build here does not get."""
    here = os.environ if env is None else env
    return [name for name in IGNORED_LOUDLY if here.get(name)]
