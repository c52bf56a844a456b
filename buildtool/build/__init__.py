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

    heavy = tools.COMPILER_MEMORY_PER_JOB if builds_compiler(profile) else tools.MEMORY_PER_JOB
    return BuildPlan(
        source=source,
        toolchain=toolchain,
        profile=profile,
        build_dir=build_dir.absolute(),
        build_type=build_type,
        launcher=tools.find_launcher(cache),
        jobs=jobs or tools.default_jobs(heavy),
        cmake=tools.find_cmake(),
        ninja=tools.find_ninja(),
    )


def builds_compiler(profile: Profile) -> bool:
    """Whether TVM's compiler is among the targets: larger compiles, and one very large link."""
    return bool({"tvm", "tvm_compiler"} & set(profile.targets))


def build(what: BuildPlan) -> BuildResult:
    """Bring the build folder up to date; see :func:`buildtool.build.runner.build`."""
    from buildtool.build.runner import build as run_build

    return run_build(what)
