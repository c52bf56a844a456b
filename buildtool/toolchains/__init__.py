"""Finding and checking compilers: the host's, Debian's cross gcc, clang, zig, the Android NDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildtool.core.errors import ConfigError, ToolMissing, unknown
from buildtool.core.types import Abi
from buildtool.toolchains.model import Toolchain

if TYPE_CHECKING:
    from buildtool.settings import Settings

NAMES = ("host", "gcc", "clang", "zig", "ndk")

__all__ = ["NAMES", "Toolchain", "find"]


def find(
    name: str,
    *,
    settings: Settings,
    abi: Abi | None = None,
    api_level: int | None = None,
    stl: str | None = None,
) -> Toolchain:
    """The toolchain called ``name`` for ``abi`` (None: the name's own default).

    ``auto`` takes the first of gcc, clang and zig that can build for a glibc
    Linux of ``abi``. Raises ToolMissing when there is none, saying what to
    install, and ConfigError for a name or ABI that no toolchain here has.
    """
    if name == "auto":
        return _first_cross(settings, abi)
    if name == "ndk":
        from buildtool.toolchains.ndk import find_ndk_toolchain

        return find_ndk_toolchain(settings=settings, abi=abi or Abi.ARM64, api_level=api_level, stl=stl)
    if name == "host":
        from buildtool.toolchains.host import find_host

        toolchain = find_host()
        if abi is not None and abi is not toolchain.abi:
            raise ConfigError(
                f"the host's compiler builds for {toolchain.abi.value}, not for {abi.value}",
                fix="choose the toolchain gcc, clang, zig or ndk",
            )
        return toolchain
    from buildtool.toolchains import cross

    finders = {"gcc": cross.find_gcc, "clang": cross.find_clang, "zig": cross.find_zig}
    if name not in finders:
        raise unknown("toolchain", name, (*NAMES, "auto"))
    return finders[name](settings, abi or Abi.ARM64)


def _first_cross(settings: Settings, abi: Abi | None) -> Toolchain:
    misses: list[str] = []
    for name in ("gcc", "clang", "zig"):
        try:
            return find(name, settings=settings, abi=abi)
        except ToolMissing as exc:
            misses.append(f"{name}: {exc.what}" + (f"; {exc.fix}" if exc.fix else ""))
    raise ToolMissing(
        f"no cross compiler for {(abi or Abi.ARM64).value} Linux",
        fix="run: buildtool doctor --install",
        details=misses,
    )
