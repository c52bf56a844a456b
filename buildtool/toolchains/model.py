"""A toolchain: the compilers and everything that follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildtool.core.types import Abi, Option


@dataclass(frozen=True)
class Toolchain:
    """Compilers for one target, found and checked.

    ``identity()`` changes whenever objects of an older build could not be kept.
    """

    name: str
    """As chosen in settings: host, gcc, clang, zig, ndk."""
    abi: Abi
    triple: str
    """GNU target triple, such as aarch64-linux-gnu or aarch64-linux-android28."""
    system: str
    """CMAKE_SYSTEM_NAME: Linux or Android."""
    cc: Path
    cxx: Path
    version: str
    """The C++ compiler's own first version line."""
    toolchain_file: Path | None = None
    """CMake toolchain file; None for the host's own compilers."""
    cmake_args: tuple[Option, ...] = ()
    """Cache variables the toolchain needs on the cmake command line."""
    sysroot: Path | None = None
    """Root with the target's libc (lib/ld-linux-*.so.1 below it), for emulation and NEEDED checks."""
    api_level: int | None = None
    """Android API level, None elsewhere."""
    runtime_libs: tuple[Path, ...] = ()
    """Shared libraries to ship beside the artifacts (libc++_shared.so)."""
    strip: Path | None = None
    objcopy: Path | None = None
    cc_flags: tuple[str, ...] = ()
    """Words that must follow ``cc``/``cxx`` when called without CMake (--target=, --sysroot=)."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment that the compilers need (zig's cache folder)."""
    root: Path | None = None
    """The NDK's folder, for NDK toolchains."""
    revision: str | None = None
    """The NDK's Pkg.Revision, for NDK toolchains."""

    @property
    def cross(self) -> bool:
        return self.name != "host"

    def identity(self) -> dict[str, object]:
        """JSON-able facts; when one changes, a build folder must be made anew."""
        return {
            "name": self.name,
            "abi": self.abi.value,
            "triple": self.triple,
            "cc": str(self.cc),
            "cxx": str(self.cxx),
            "version": self.version,
            "toolchain_file": str(self.toolchain_file) if self.toolchain_file else None,
            "sysroot": str(self.sysroot) if self.sysroot else None,
            "api_level": self.api_level,
            "revision": self.revision,
        }
