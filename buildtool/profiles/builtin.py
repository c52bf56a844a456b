"""The profiles that come with buildtool, and how a user's profiles build on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from buildtool.core.errors import ConfigError, unknown
from buildtool.core.types import Abi
from buildtool.settings.model import ProfileSettings, Settings


@dataclass(frozen=True)
class Builtin:
    """A profile whose options are in ``cmake_templates/NAME.cmake.j2``."""

    name: str
    doc: str
    toolchain: str
    abi: Abi | None
    targets: tuple[str, ...]
    parent: str | None = None
    """The built-in whose ``[profiles.PARENT]`` settings hold here too."""

    @property
    def cross(self) -> bool:
        return self.abi is not None


_RUNTIME = ("tvm_runtime", "tvm_rpc", "rtvm")

BUILTINS = {
    builtin.name: builtin
    for builtin in (
        Builtin("host", "TVM's compiler for this machine.", "host", None, ("tvm", "tvm_runtime", "tvm_rpc")),
        Builtin(
            "host-runtime", "The runtime for this machine, without the compiler.", "host", None, _RUNTIME
        ),
        Builtin("android", "The runtime for Android phones, with OpenCL.", "ndk", Abi.ARM64, _RUNTIME),
        Builtin(
            "android-clml", "android with Qualcomm's OpenCLML.", "ndk", Abi.ARM64, _RUNTIME, parent="android"
        ),
        Builtin("linux-aarch64", "The runtime for aarch64 Linux boards.", "auto", Abi.ARM64, _RUNTIME),
    )
}


@dataclass(frozen=True)
class Definition:
    """A profile by name, resolved down to its built-in base.

    ``layers`` are the user's settings that hold for it, the base's own first.
    """

    name: str
    base: Builtin
    layers: tuple[tuple[str, ProfileSettings], ...]

    @property
    def toolchain(self) -> str:
        return next((s.toolchain for _, s in reversed(self.layers) if s.toolchain), self.base.toolchain)

    @property
    def abi(self) -> Abi | None:
        named = next((s.abi for _, s in reversed(self.layers) if s.abi), None)
        return Abi(named) if named else self.base.abi

    @property
    def cross(self) -> bool:
        return self.base.cross or self.toolchain not in ("host", "auto")

    @property
    def asked_targets(self) -> tuple[str, Sequence[str]] | None:
        """(whose settings, targets) when the user names build targets."""
        return next(((n, s.targets) for n, s in reversed(self.layers) if s.targets is not None), None)


def names(settings: Settings) -> list[str]:
    """Every profile there is: built-in ones first, then the user's in the file's order."""
    return [*BUILTINS, *(name for name in settings.profiles if name not in BUILTINS)]


def define(name: str, settings: Settings) -> Definition:
    """Follow ``extends`` down to a built-in profile; ConfigError when that does not end in one."""
    if name not in names(settings):
        raise unknown("profile", name, names(settings))
    chain: list[str] = []
    current: str | None = name
    base: Builtin | None = None
    while current is not None:
        where = settings.origin(f"profiles.{chain[-1]}.extends") if chain else None
        if current in chain:
            raise ConfigError(f"profiles extend each other: {' → '.join([*chain, current])}", where=where)
        if current not in names(settings):
            raise unknown("profile", current, names(settings), where=where)
        chain.append(current)
        own = settings.profiles.get(current)
        if current in BUILTINS:
            _check_extends(current, own, settings)
            base = base or BUILTINS[current]
            current = BUILTINS[current].parent
        else:
            assert own is not None
            if own.extends is None:
                raise ConfigError(
                    f"profile {current!r} does not say what it extends",
                    where=f"[profiles.{current}]",
                    fix=f'add: extends = "android" (or another of {", ".join(BUILTINS)})',
                )
            current = own.extends
    assert base is not None
    layers = tuple((n, settings.profiles[n]) for n in reversed(chain) if n in settings.profiles)
    return Definition(name, base, layers)


def _check_extends(name: str, own: ProfileSettings | None, settings: Settings) -> None:
    if own is not None and own.extends not in (None, name, BUILTINS[name].parent):
        raise ConfigError(
            f"the built-in profile {name!r} cannot extend {own.extends!r}",
            where=settings.origin(f"profiles.{name}.extends"),
            fix="remove extends, or choose another name for this profile",
        )
