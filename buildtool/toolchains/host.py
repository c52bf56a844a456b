"""This machine's own compilers."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from buildtool.core.errors import ToolMissing
from buildtool.core.process import run, which
from buildtool.core.types import Abi, Option
from buildtool.toolchains.model import Toolchain

_ABI_OF_MACHINE = {
    "x86_64": Abi.X86_64,
    "AMD64": Abi.X86_64,
    "aarch64": Abi.ARM64,
    "arm64": Abi.ARM64,
    "armv7l": Abi.ARM32,
    "i686": Abi.X86,
    "riscv64": Abi.RISCV64,
}


def host_abi() -> Abi:
    """The ABI that this machine runs. Raises ToolMissing for one that TVM is not built for."""
    machine = platform.machine()
    try:
        return _ABI_OF_MACHINE[machine]
    except KeyError:
        raise ToolMissing(f"machine type {machine!r} is not supported as a build host") from None


def compiler_version(cxx: Path, *, env: dict[str, str] | None = None) -> str:
    """The first line of ``cxx --version``. Raises ToolMissing when the program does not run."""
    done = run([cxx, "--version"], timeout=60, check=False, env=env)
    lines = done.stdout.splitlines()
    if not done.ok or not lines:
        raise ToolMissing(f"the compiler {cxx} does not run", found="; ".join(done.tail(3)) or "no output")
    return lines[0].strip()


def find_host() -> Toolchain:
    """The compilers named by CC/CXX, else cc/c++, gcc/g++ or clang/clang++ on PATH."""
    cc, cxx = _pick("CC", ("cc", "gcc", "clang")), _pick("CXX", ("c++", "g++", "clang++"))
    triple = run([cc, "-dumpmachine"], timeout=60).stdout.strip()
    return Toolchain(
        name="host",
        abi=host_abi(),
        triple=triple,
        system="Linux" if platform.system() == "Linux" else platform.system(),
        cc=cc,
        cxx=cxx,
        version=compiler_version(cxx),
        cmake_args=(
            Option("CMAKE_C_COMPILER", str(cc), "host toolchain"),
            Option("CMAKE_CXX_COMPILER", str(cxx), "host toolchain"),
        ),
        strip=which("strip"),
        objcopy=which("objcopy"),
    )


def _pick(variable: str, names: tuple[str, ...]) -> Path:
    named = os.environ.get(variable)
    if named:
        found = which(named)
        if found is None:
            raise ToolMissing(
                f"the compiler {named!r} does not exist",
                where=f"environment variable {variable}",
                fix=f"unset {variable}, or set it to a compiler",
            )
        return found
    for name in names:
        found = which(name)
        if found is not None:
            return found
    raise ToolMissing(
        f"no {'C++' if variable == 'CXX' else 'C'} compiler on PATH",
        expected=" or ".join(names),
        fix="install one (Debian/Ubuntu: apt-get install g++), or run: buildtool doctor --install",
    )
