"""What is to be built and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildtool.profiles.model import Profile
from buildtool.sources.model import TvmSource
from buildtool.toolchains.model import Toolchain


@dataclass(frozen=True)
class Launcher:
    """A compiler cache: ``kind`` none, ccache or sccache; ``program`` its path."""

    kind: str
    program: Path | None = None


@dataclass(frozen=True)
class BuildPlan:
    """One build folder's whole input."""

    source: TvmSource
    toolchain: Toolchain
    profile: Profile
    build_dir: Path
    build_type: str
    """CMAKE_BUILD_TYPE: Release, RelWithDebInfo, MinSizeRel or Debug."""
    launcher: Launcher
    jobs: int
    cmake: Path
    ninja: Path


@dataclass(frozen=True)
class Effect:
    """Whether one requested option reached the build.

    ``status`` is ``proved`` (``evidence`` says where it was seen), ``unproved``
    (nothing to look at) or ``no-effect`` (the build says otherwise).
    """

    option: str
    value: str
    status: str
    evidence: str


@dataclass(frozen=True)
class BuildResult:
    """A finished build."""

    plan: BuildPlan
    configured: bool
    """False when the inputs' digest was unchanged and configure was left out."""
    compiled: int
    """Ninja steps that ran."""
    seconds: float
    outputs: tuple[Path, ...]
    """Absolute paths of the linked files of the targets, dependencies first."""
    effects: tuple[Effect, ...]
    log: Path
