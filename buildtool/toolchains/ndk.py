"""The Android NDK: where it is found and the toolchain that follows from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.console import screen
from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.paths import cache_dir, data_dir
from buildtool.core.process import run
from buildtool.core.types import Abi, Option
from buildtool.toolchains.model import Toolchain
from buildtool.toolchains.ndk_layout import (
    CLANG_TRIPLE,
    FIX,
    SYSROOT_TRIPLE,
    Ndk,
    check_target,
    read_ndk,
    side_by_side,
)

if TYPE_CHECKING:
    from buildtool.settings import Settings

__all__ = [
    "Ndk",
    "NdkCandidate",
    "candidates",
    "check_target",
    "discover",
    "find_ndk_toolchain",
    "install_dir",
    "ndk_toolchain",
    "read_ndk",
]

VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK")
SDK_VARIABLES = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
STLS = ("c++_shared", "c++_static")

PAGE_SIZE_64BIT = 16384
"""LOAD segment alignment for 64-bit ABIs; devices with 16 KB pages refuse less."""

ELF_MACHINE = {Abi.ARM64: 183, Abi.ARM32: 40, Abi.X86_64: 62, Abi.X86: 3, Abi.RISCV64: 243}


@dataclass(frozen=True)
class NdkCandidate:
    """A folder that should be an NDK, and who says so (``origin`` is for people)."""

    root: Path
    origin: str


def discover(explicit: str | Path | None, settings: Settings | None, env: Mapping[str, str]) -> NdkCandidate:
    """The NDK folder to use: the first place that names one, right or wrong.

    Order: ``explicit`` (a flag), ``toolchains.ndk`` of the settings,
    ANDROID_NDK_HOME, ANDROID_NDK_ROOT, ANDROID_NDK, the newest of
    ANDROID_HOME/ndk/* (then ANDROID_SDK_ROOT), their ndk-bundle, and what
    ``buildtool ndk install`` has put into the cache. A place that is set but
    wrong is not passed over: :func:`read_ndk` says what is wrong with it.
    Raises ToolMissing when no place names one.
    """
    for candidate in candidates(explicit, settings, env):
        return candidate
    places = ["--ndk", "toolchains.ndk", *VARIABLES]
    places += [f"{name}/ndk/*" for name in SDK_VARIABLES] + ["buildtool's cache"]
    raise ToolMissing(
        "no Android NDK is known",
        expected="one of: " + ", ".join(places),
        found=", ".join(f"{name} {_state(env, name)}" for name in (*VARIABLES, *SDK_VARIABLES)),
        fix=FIX,
    )


def _state(env: Mapping[str, str], name: str) -> str:
    if name not in env:
        return "unset"
    return "empty" if not env[name] else f"= {env[name]} (no ndk folder there)"


def candidates(
    explicit: str | Path | None, settings: Settings | None, env: Mapping[str, str]
) -> Iterator[NdkCandidate]:
    """Every folder that :func:`discover` would take if those before it were not set."""
    if explicit:
        yield NdkCandidate(_absolute(explicit), "--ndk")
    if settings is not None and settings.toolchains.ndk:
        origin = settings.origin("toolchains.ndk")
        named = "--ndk" if origin == "flag" else f"toolchains.ndk ({origin})"
        yield NdkCandidate(_absolute(settings.toolchains.ndk), named)
    for name in VARIABLES:
        if env.get(name):
            yield NdkCandidate(_absolute(env[name]), f"environment variable {name}")
    for name in SDK_VARIABLES:
        if env.get(name):
            sdk = _absolute(env[name])
            for root in side_by_side(sdk / "ndk"):
                yield NdkCandidate(root, f"environment variable {name}, newest of ndk/*")
            if (sdk / "ndk-bundle" / "source.properties").is_file():
                yield NdkCandidate(sdk / "ndk-bundle", f"environment variable {name}, ndk-bundle")
    for root in side_by_side(install_dir()):
        yield NdkCandidate(root, "installed by buildtool ndk install")


def install_dir() -> Path:
    """Where ``buildtool ndk install`` puts NDKs, one folder a revision."""
    return cache_dir() / "ndk"


def _absolute(path: str | Path) -> Path:
    # Not resolved: a symlink such as .../ndk/current is a name people rely on.
    return Path(path).expanduser().absolute()


def find_ndk_toolchain(
    *,
    settings: Settings,
    abi: Abi = Abi.ARM64,
    api_level: int | None = None,
    stl: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Toolchain:
    """The NDK's compilers for one ABI and API level (default: ``toolchains.platform``).

    Raises ToolMissing for a missing or wrong NDK and ConfigError for an ABI,
    level or C++ library that it does not have.
    """
    candidate = discover(None, settings, os.environ if env is None else env)
    ndk = read_ndk(candidate.root, origin=candidate.origin)
    screen.trace(f"NDK {ndk.revision} in {ndk.root} ({candidate.origin})")
    return ndk_toolchain(
        ndk,
        abi=abi,
        api_level=settings.toolchains.platform if api_level is None else api_level,
        stl=settings.toolchains.stl if stl is None else stl,
    )


def ndk_toolchain(ndk: Ndk, *, abi: Abi, api_level: int, stl: str = "c++_shared") -> Toolchain:
    """The toolchain of one NDK; see :func:`find_ndk_toolchain`."""
    level = check_target(ndk, abi, api_level)
    if level != api_level:
        screen.info(f"API level {api_level} is the same as {level} in NDK {ndk.revision}")
    if stl not in STLS:
        raise ConfigError(
            f"unknown C++ library {stl!r}", where="toolchains.stl", expected=" or ".join(STLS), found=stl
        )
    triple = f"{CLANG_TRIPLE[abi]}{level}"
    cc, cxx, flags, version = _compilers(ndk, triple)
    values = {
        "ANDROID_NDK": str(ndk.root),
        "ANDROID_ABI": abi.value,
        "ANDROID_PLATFORM": f"android-{level}",
        "ANDROID_STL": stl,
        "CMAKE_FIND_ROOT_PATH_MODE_PROGRAM": "NEVER",
        "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY": "ONLY",
        "CMAKE_FIND_ROOT_PATH_MODE_INCLUDE": "ONLY",
        "CMAKE_FIND_ROOT_PATH_MODE_PACKAGE": "ONLY",
    }
    if abi.bits == 64:
        values["BUILDTOOL_MAX_PAGE_SIZE"] = str(PAGE_SIZE_64BIT)
    return Toolchain(
        name="ndk",
        abi=abi,
        triple=triple,
        system="Android",
        cc=cc,
        cxx=cxx,
        version=version,
        toolchain_file=data_dir("toolchains") / "android.cmake",
        cmake_args=tuple(Option(name, value, f"NDK {ndk.revision}") for name, value in values.items()),
        sysroot=ndk.sysroot,
        api_level=level,
        runtime_libs=(_shared_stl(ndk, abi),) if stl == "c++_shared" else (),
        strip=_first_tool(ndk, "llvm-strip", f"{SYSROOT_TRIPLE[abi]}-strip"),
        objcopy=_first_tool(ndk, "llvm-objcopy", f"{SYSROOT_TRIPLE[abi]}-objcopy"),
        cc_flags=flags,
        root=ndk.root,
        revision=ndk.revision,
    )


def _compilers(ndk: Ndk, triple: str) -> tuple[Path, Path, tuple[str, ...], str]:
    """The compilers to call without CMake: the per-API wrappers where they work.

    One program without flags is what ``TVM_NDK_CC`` needs. Wrappers of NDKs up
    to r22 don't quote their own path, so below a folder with a space clang
    itself is used with ``--target``. CMake always gets clang itself (see
    toolchains/android.cmake).
    """
    suffix = ".cmd" if ndk.host_tag.startswith("windows") else ""
    cc, cxx = ndk.bin / f"{triple}-clang{suffix}", ndk.bin / f"{triple}-clang++{suffix}"
    if cc.is_file() and cxx.is_file() and not re.search(r"\s", str(ndk.bin)):
        return cc, cxx, (), _version(cxx)
    cxx = ndk.tool("clang++")
    return ndk.tool("clang"), cxx, (f"--target={triple}",), _version(cxx)


def _version(cxx: Path) -> str:
    """The compiler's first version line; also proves that it runs on this host."""
    try:
        done = run([cxx, "--version"], timeout=60, check=False)
    except OSError as exc:  # "Exec format error": a program for another machine
        raise ToolMissing(f"the NDK's compiler does not run: {exc.strerror}", where=str(cxx)) from exc
    lines = done.stdout.splitlines()
    if not done.ok or not lines:
        found = "; ".join(done.tail(3)) or f"exit code {done.returncode}"
        raise ToolMissing("the NDK's compiler does not run", where=str(cxx), found=found)
    return lines[0].strip()


def _first_tool(ndk: Ndk, *names: str) -> Path | None:
    return next((path for path in map(ndk.tool, names) if path.is_file()), None)


def _shared_stl(ndk: Ndk, abi: Abi) -> Path:
    """This NDK's own libc++_shared.so for ``abi``, its machine checked."""
    path = ndk.library_dir(abi) / "libc++_shared.so"
    if not path.is_file():
        raise ToolMissing(
            f"the NDK is incomplete: no libc++_shared.so for {abi.value}",
            where=str(path),
            fix="unpack the NDK again, or choose --stl c++_static",
        )
    machine = elf_machine(path)
    if machine != ELF_MACHINE[abi]:
        raise ToolMissing(
            f"libc++_shared.so is not for {abi.value}",
            where=str(path),
            expected=f"ELF machine {ELF_MACHINE[abi]}",
            found="no ELF file" if machine is None else f"ELF machine {machine}",
        )
    return path


def elf_machine(path: Path) -> int | None:
    """e_machine of an ELF file's header, None when ``path`` is no little-endian ELF file."""
    with path.open("rb") as stream:
        head = stream.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF" or head[5] != 1:
        return None
    return int.from_bytes(head[18:20], "little")
