"""Configure with CMake, build with Ninja, prove that the options took effect."""

from __future__ import annotations

from pathlib import Path

from buildtool.build.model import BuildPlan, BuildResult, Effect, Launcher
from buildtool.profiles.model import Profile
from buildtool.sources.model import TvmSource
from buildtool.toolchains.model import Toolchain

__all__ = ["BuildPlan", "BuildResult", "Effect", "Launcher", "build", "plan"]


def plan(
    source: TvmSource,
    toolchain: Toolchain,
    profile: Profile,
    build_dir: Path,
    *,
    build_type: str = "Release",
    jobs: int | None = None,
    cache: str = "auto",
) -> BuildPlan:
    """Put the inputs of one build folder together with the tools found on this machine.

    Raises ToolMissing when cmake, ninja or a compiler cache asked for by name is not there.
    """
    from buildtool.build import tools

    return BuildPlan(
        source=source,
        toolchain=toolchain,
        profile=profile,
        build_dir=build_dir.absolute(),
        build_type=build_type,
        launcher=tools.find_launcher(cache),
        jobs=jobs or tools.default_jobs(),
        cmake=tools.find_cmake(),
        ninja=tools.find_ninja(),
    )


def build(what: BuildPlan) -> BuildResult:
    """Bring the build folder up to date; see :func:`buildtool.build.runner.build`."""
    from buildtool.build.runner import build as run_build

    return run_build(what)
