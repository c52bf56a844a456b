"""The pipeline as functions: what the commands call, and what programs may call.

>>> from buildtool import api                                  # doctest: +SKIP
>>> line = api.build_profile("linux-aarch64", api.Request(source="sdist:NAME==1.0#sub"))  # doctest: +SKIP
>>> line.artifacts.root                                        # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.console import screen
from buildtool.core.errors import ConfigError
from buildtool.core.types import Abi

if TYPE_CHECKING:
    from buildtool.artifacts.model import ArtifactSet
    from buildtool.build.model import BuildPlan, BuildResult
    from buildtool.settings import Settings
    from buildtool.sources.model import TvmSource
    from buildtool.toolchains.clml import ClmlSdk
    from buildtool.toolchains.model import Toolchain


@dataclass(frozen=True)
class Request:
    """What a person asked for on the command line; None and empty mean "as settings say"."""

    source: str | None = None
    settings: Path | None = None
    sets: Sequence[str] = ()
    toolchain: str | None = None
    abi: str | None = None
    api_level: int | None = None
    stl: str | None = None
    clml: str | None = None
    ndk: str | None = None
    build_dir: str | None = None
    build_type: str | None = None
    jobs: int | None = None
    cache: str | None = None
    locked: bool = False
    strip: bool = True
    link_static: bool = False
    """Host compiler: LLVM's static libraries instead of libLLVM.so."""

    def flags(self) -> dict[str, object]:
        """The settings that these flags override, by dotted key."""
        return {
            "source.spec": self.source,
            "toolchains.ndk": self.ndk,
            "toolchains.clml": self.clml,
            "toolchains.platform": self.api_level,
            "toolchains.stl": self.stl,
            "build.dir": self.build_dir,
            "build.type": self.build_type,
            "build.jobs": self.jobs,
            "build.cache": self.cache,
        }


@dataclass(frozen=True)
class Line:
    """One profile, all the way from settings to artifacts."""

    settings: Settings
    source: TvmSource
    toolchain: Toolchain
    result: BuildResult
    artifacts: ArtifactSet


@dataclass(frozen=True)
class Context:
    """Settings and source, resolved once for several builds."""

    settings: Settings
    source: TvmSource
    request: Request = field(default_factory=Request)


def load_settings(request: Request) -> Settings:
    """buildtool.toml, environment and flags, in one."""
    from buildtool.settings import load

    return load(request.settings, flags=request.flags())


def open_context(request: Request) -> Context:
    """Read the settings and get the TVM tree that they name."""
    settings = load_settings(request)
    return Context(settings, open_source(settings, locked=request.locked), request)


def open_source(settings: Settings, *, locked: bool = False) -> TvmSource:
    """The tree that the settings, TVM_HOME or the current folder name; fetched when needed."""
    from buildtool.sources import fetch_for

    return fetch_for(settings, locked=locked)


def abi_of(text: str | None) -> Abi | None:
    """An ABI by its Android name. Raises ConfigError for another word."""
    if text is None:
        return None
    from buildtool.core.errors import unknown

    try:
        return Abi(text)
    except ValueError:
        raise unknown("ABI", text, [a.value for a in Abi], where="--abi") from None


def find_toolchain(profile: str, context: Context) -> Toolchain:
    """The toolchain for a profile: the flag's, else the profile's own."""
    from buildtool.profiles.builtin import define
    from buildtool.toolchains import find

    request, settings = context.request, context.settings
    base = define(profile, settings)
    abi = abi_of(request.abi) or base.abi
    name = request.toolchain or base.toolchain
    if base.toolchain == "ndk" and name != "ndk":
        raise ConfigError(
            f"profile {profile} is built with the NDK, not with {name}",
            where="--toolchain",
            fix="use the profile linux-aarch64 for a Linux board",
        )
    return find(name, settings=settings, abi=abi, api_level=request.api_level, stl=request.stl)


def find_clml(context: Context, toolchain: Toolchain) -> ClmlSdk | None:
    """The OpenCLML SDK that settings or ``--clml`` name, checked for the toolchain's ABI."""
    named = context.settings.path("toolchains.clml")
    if named is None:
        return None
    from buildtool.toolchains.clml import read_clml

    return read_clml(named, toolchain.abi)


def find_host_llvm(profile: str, context: Context, toolchain: Toolchain) -> str | None:
    """USE_LLVM for a profile that builds the compiler; None for others, and where the user sets it.

    Raises ToolMissing when no LLVM here will do.
    """
    from buildtool.profiles.builtin import define
    from buildtool.toolchains.llvm import find_llvm

    request, settings = context.request, context.settings
    definition = define(profile, settings)
    by_set = any(word.startswith("USE_LLVM=") for word in request.sets)
    if definition.base.name != "host" or by_set:
        return None
    if any("USE_LLVM" in layer.options for _, layer in definition.layers):
        return None
    named = settings.path("toolchains.llvm_config")
    llvm, notes = find_llvm(context.source.root, toolchain.version, explicit=str(named) if named else None)
    for note in notes:
        screen.info(f"note: {note}")
    screen.info(f"LLVM {llvm.version} ({llvm.config})")
    return llvm.value(static=request.link_static)


def plan_profile(profile: str, context: Context) -> BuildPlan:
    """Everything that building one profile for one ABI needs, resolved and checked; nothing is built.

    Raises UsageError/ConfigError for wrong input.
    """
    from buildtool import build, profiles
    from buildtool.build import layout

    settings, source = context.settings, context.source
    toolchain = find_toolchain(profile, context)
    clml = find_clml(context, toolchain)
    if clml is not None:
        toolchain = replace(toolchain, cmake_args=(*toolchain.cmake_args, *clml.cmake_args()))
        profile = "android-clml" if profile == "android" else profile
    resolved = profiles.resolve(
        profile,
        source,
        settings,
        sets=context.request.sets,
        toolchain=toolchain,
        clml=clml,
        llvm=find_host_llvm(profile, context, toolchain),
    )
    return build.plan(
        source,
        toolchain,
        resolved,
        layout.build_dir(settings, profile, toolchain.abi),
        build_type=settings.build.type,
        jobs=settings.build.jobs,
        cache=settings.build.cache,
    )


def build_profile(profile: str, request: Request, *, context: Context | None = None) -> Line:
    """Resolve, configure, build and collect one profile for one ABI.

    ``context`` saves reading settings and source again for several builds; its
    own request is replaced by ``request``. Raises UsageError/ConfigError for
    wrong input before anything is built, BuildFailed with the failing step's lines.
    """
    from buildtool import artifacts, build
    from buildtool.build import layout

    context = replace(context, request=request) if context else open_context(request)
    plan = plan_profile(profile, context)
    for note in plan.profile.notes:
        screen.info(f"note: {note}")
    result = build.build(plan)
    report_effects(result)
    dist = layout.dist_dir(context.settings, plan.profile.name, plan.toolchain.abi)
    collected = artifacts.collect(result, dist, strip=request.strip)
    return Line(context.settings, context.source, plan.toolchain, result, collected)


def report_effects(result: BuildResult) -> None:
    """Say which options were without effect, and how many were proved."""
    proved = sum(1 for e in result.effects if e.status == "proved")
    if result.configured:
        screen.info(f"{proved} of {len(result.effects)} options traced into the build")
    for effect in result.effects:
        if effect.status == "no-effect":
            screen.warn(f"{effect.option}={effect.value} had no effect: {effect.evidence}")
