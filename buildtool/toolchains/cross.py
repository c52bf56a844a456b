"""Cross compilers for glibc Linux boards: Debian's gcc, clang with its sysroot, zig from PyPI."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.files import atomic_write
from buildtool.core.paths import cache_dir, data_dir
from buildtool.core.process import run, which
from buildtool.core.types import Abi, Option
from buildtool.toolchains.host import compiler_version
from buildtool.toolchains.model import Toolchain

if TYPE_CHECKING:
    from buildtool.settings import Settings

GLIBC_FLOOR = "2.28"
"""The oldest glibc that zig builds are linked for: Debian 10, Ubuntu 18.10, Qualcomm Linux 1.0."""

_TRIPLES = {
    Abi.ARM64: "aarch64-linux-gnu",
    Abi.ARM32: "arm-linux-gnueabihf",
    Abi.RISCV64: "riscv64-linux-gnu",
}
_PROCESSORS = {Abi.ARM64: "aarch64", Abi.ARM32: "armv7l", Abi.RISCV64: "riscv64"}


def triple_of(abi: Abi) -> str:
    """The GNU triple of a Linux board with ``abi``. Raises ConfigError for one without cross tools."""
    try:
        return _TRIPLES[abi]
    except KeyError:
        raise ConfigError(
            f"no Linux cross toolchain for {abi.value}",
            fix=f"known: {', '.join(a.value for a in _TRIPLES)}",
        ) from None


def private_debian_root() -> Path:
    """Where ``buildtool doctor --install`` unpacks Debian packages when it may not install them."""
    return cache_dir() / "debian"


def find_sysroot(triple: str, *, explicit: str | None = None) -> Path | None:
    """A folder with the target's libc (``lib/ld-linux-*``): settings, the cross package's, or our own."""
    if explicit is not None:
        root = Path(explicit).expanduser()
        if not has_libc(root, triple):
            raise ConfigError(
                "the sysroot has no dynamic loader for the target",
                where=f"toolchains.sysroot = {explicit}",
                expected=f"lib/ld-linux-*.so.* or lib/{triple}/ below it",
            )
        return root
    for root in (Path("/usr") / triple, private_debian_root() / "usr" / triple):
        if has_libc(root, triple):
            return root
    return None


def has_libc(root: Path, triple: str) -> bool:
    return any(
        any(folder.glob("ld-linux-*.so.*"))
        for folder in (root / "lib", root / "lib" / triple, root / "lib64", root / "usr" / "lib" / triple)
    )


def _arguments(abi: Abi, cc: Path, cxx: Path, origin: str, **more: str) -> tuple[Option, ...]:
    values = {"BUILDTOOL_CC": str(cc), "BUILDTOOL_CXX": str(cxx), "BUILDTOOL_PROCESSOR": _PROCESSORS[abi]}
    values.update(more)
    return tuple(Option(name, value, origin) for name, value in sorted(values.items()))


def find_gcc(settings: Settings, abi: Abi) -> Toolchain:
    """Debian's cross gcc (package g++-aarch64-linux-gnu), or the one named by ``toolchains.prefix``."""
    triple = triple_of(abi)
    prefix = settings.toolchains.prefix or f"{triple}-"
    cc, cxx = which(f"{prefix}gcc"), which(f"{prefix}g++")
    if cc is None or cxx is None:
        missing = f"{prefix}gcc" if cc is None else f"{prefix}g++"
        raise ToolMissing(
            f"no cross compiler {missing}",
            fix=f"Debian/Ubuntu: apt-get install g++-{triple}; anywhere: pip install 'buildtool[zig]'",
        )
    sysroot = find_sysroot(triple, explicit=settings.toolchains.sysroot)
    return Toolchain(
        name="gcc",
        abi=abi,
        triple=run([cc, "-dumpmachine"], timeout=60).stdout.strip(),
        system="Linux",
        cc=cc,
        cxx=cxx,
        version=compiler_version(cxx),
        toolchain_file=data_dir("toolchains") / "linux-cross.cmake",
        cmake_args=_arguments(abi, cc, cxx, "gcc toolchain", **_find_root(sysroot)),
        sysroot=sysroot,
        strip=which(f"{prefix}strip"),
        objcopy=which(f"{prefix}objcopy"),
    )


def _find_root(sysroot: Path | None) -> dict[str, str]:
    return {} if sysroot is None else {"BUILDTOOL_FIND_ROOT": str(sysroot)}


def find_clang(settings: Settings, abi: Abi) -> Toolchain:
    """The newest clang on PATH, with Debian's cross gcc libraries and sysroot."""
    triple = triple_of(abi)
    cc = _newest_clang()
    sysroot = find_sysroot(triple, explicit=settings.toolchains.sysroot)
    if sysroot is None:
        raise ToolMissing(
            f"clang has no {triple} C library to build against",
            fix=f"Debian/Ubuntu: apt-get install g++-{triple}, or set toolchains.sysroot",
        )
    cxx = cc.with_name(cc.name.replace("clang", "clang++", 1))
    if not cxx.exists():
        raise ToolMissing(f"clang has no C++ driver beside it: {cxx}")
    return Toolchain(
        name="clang",
        abi=abi,
        triple=triple,
        system="Linux",
        cc=cc,
        cxx=cxx,
        version=compiler_version(cxx),
        toolchain_file=data_dir("toolchains") / "linux-cross.cmake",
        cmake_args=_arguments(
            abi, cc, cxx, "clang toolchain", BUILDTOOL_TARGET=triple, **_find_root(sysroot)
        ),
        sysroot=sysroot,
        strip=_beside(cc, "llvm-strip") or which(f"{triple}-strip"),
        objcopy=_beside(cc, "llvm-objcopy") or which(f"{triple}-objcopy"),
        cc_flags=(f"--target={triple}",),
    )


def _newest_clang() -> Path:
    for name in ("clang", *(f"clang-{major}" for major in range(30, 10, -1))):
        found = which(name)
        if found is not None:
            return found
    raise ToolMissing("no clang on PATH", fix="Debian/Ubuntu: apt-get install clang")


def _beside(program: Path, name: str) -> Path | None:
    sibling = program.resolve().with_name(name)
    return sibling if sibling.exists() else which(name)


def find_zig(settings: Settings, abi: Abi) -> Toolchain:
    """zig's bundled clang and libc (``pip install 'buildtool[zig]'``): no root, no Debian packages.

    CMake and autotools sub-builds want one program as CC, so small wrapper
    scripts that hold the target are written to the cache.
    """
    triple = triple_of(abi)
    spec = find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolMissing("zig is not installed", fix="pip install 'buildtool[zig]'")
    zig = Path(spec.origin).with_name("zig.exe" if sys.platform == "win32" else "zig")
    version = run([zig, "version"], timeout=60).stdout.strip()
    folder = cache_dir() / "zig" / version / f"{triple}.{GLIBC_FLOOR}"
    target = f"{triple}.{GLIBC_FLOOR}"
    tools = {
        "cc": ["cc", "-target", target],
        "c++": ["c++", "-target", target],
        "ar": ["ar"],
        "ranlib": ["ranlib"],
        "objcopy": ["objcopy"],
    }
    for name, words in tools.items():
        _wrapper(folder / name, [str(zig), *words])
    cc, cxx = folder / "cc", folder / "c++"
    return Toolchain(
        name="zig",
        abi=abi,
        triple=triple,
        system="Linux",
        cc=cc,
        cxx=cxx,
        version=f"zig {version} ({target})",
        toolchain_file=data_dir("toolchains") / "linux-cross.cmake",
        cmake_args=_arguments(
            abi,
            cc,
            cxx,
            "zig toolchain",
            BUILDTOOL_AR=str(folder / "ar"),
            BUILDTOOL_RANLIB=str(folder / "ranlib"),
        ),
        # zig brings stubs to link with, not a libc to run with.
        sysroot=find_sysroot(triple, explicit=settings.toolchains.sysroot),
        strip=which("llvm-strip") or which(f"{triple}-strip"),
        objcopy=which("llvm-objcopy") or which(f"{triple}-objcopy"),
    )


def _wrapper(path: Path, words: list[str]) -> None:
    # zig's linker front end refuses this word of TVM's; without it symbols of static
    # archives (libbacktrace) stay exported, which changes nothing else.
    drop = 'for a do shift; case "$a" in -Wl,--exclude-libs,*) ;; *) set -- "$@" "$a" ;; esac; done\n'
    text = f'#!/bin/sh\n{drop}exec {" ".join(shlex.quote(w) for w in words)} "$@"\n'
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        atomic_write(path, text, mode=0o755)
