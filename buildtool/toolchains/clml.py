"""The OpenCLML SDK: headers and libraries checked, and the version that TVM is compiled against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.errors import ConfigError
from buildtool.core.paths import data_dir
from buildtool.core.types import Abi, Option
from buildtool.toolchains.ndk import ELF_MACHINE, elf_machine

HEADER = "CL/cl_qcom_ml_ops.h"
MACRO = "CL_QCOM_ML_OPS_H_MAJOR_VERSION"

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(
    rf"^[ \t]*#[ \t]*define[ \t]+{MACRO}[ \t]+\(?[ \t]*(\d+)[uUlL]*[ \t]*\)?[ \t]*$", re.MULTILINE
)
_FIX = "download the OpenCLML SDK again, unpack it whole, and name its folder with --clml"


@dataclass(frozen=True)
class ClmlSdk:
    """An OpenCLML SDK that can be built against for one ABI.

    ``major`` is the header's CL_QCOM_ML_OPS_H_MAJOR_VERSION, which becomes
    TVM_CLML_VERSION. ``libraries`` are libOpenCL.so and, when the SDK has it,
    libOpenCL_system.so; they stand for the phone's own and are not shipped.
    """

    root: Path
    major: int
    lib_dir: Path
    has_cl_h: bool
    abi: Abi
    libraries: tuple[Path, ...] = ()

    def cmake_args(self) -> tuple[Option, ...]:
        """Cache variables that make TVM take exactly these libraries, and its OpenCLML runtime compile.

        TVM's own search looks into ``lib64`` whatever the ABI for OpenCLML,
        into ``lib`` first for OpenCL, and is led astray by the find-root modes
        of a cross build; a variable that is already set is not searched for.
        Every TVM tree's project is called ``tvm``.
        """
        origin = f"OpenCLML SDK {self.major}"
        return (
            Option("CMAKE_FIND_ROOT_PATH", str(self.root), origin),
            Option("EXTERN_CLML_COMPUTE_LIB", ";".join(str(path) for path in self.libraries), origin),
            Option("OpenCL_LIBRARIES", str(self.libraries[0]), origin),
            Option("CMAKE_PROJECT_tvm_INCLUDE", str(data_dir("toolchains") / "clml.cmake"), origin),
        )


def read_clml(root: Path, abi: Abi) -> ClmlSdk:
    """Check the SDK in ``root`` for a build for ``abi``.

    The libraries are taken from ``lib64`` for 64-bit ABIs and ``lib`` for
    32-bit ones, or from the other folder when only that one has them for the
    right machine. Raises ConfigError that says what is missing or wrong.
    """
    if not root.is_dir():
        raise ConfigError(
            "the OpenCLML SDK is not there" if not root.exists() else "the OpenCLML SDK must be a folder",
            where=f"{root}",
            fix="name the unpacked SDK with --clml or toolchains.clml",
        )
    header = root / HEADER
    if not header.is_file():
        raise ConfigError(
            f"not an OpenCLML SDK: {HEADER} is missing",
            where=str(root),
            found=", ".join(sorted(path.name for path in root.iterdir())[:10]) or "an empty folder",
            fix=_nested(root) or _FIX,
        )
    major = parse_major(header.read_text(encoding="utf-8", errors="replace"))
    if major is None:
        raise ConfigError(
            f"the OpenCLML header does not define one {MACRO}",
            where=str(header),
            expected=f"#define {MACRO} N",
            fix=_FIX,
        )
    lib_dir = _library_dir(root, abi)
    system = lib_dir / "libOpenCL_system.so"
    libraries = [lib_dir / "libOpenCL.so"]
    if system.exists():
        _check_machine(system, abi)
        libraries.append(system)
    return ClmlSdk(root, major, lib_dir, (root / "CL" / "cl.h").is_file(), abi, tuple(libraries))


def parse_major(text: str) -> int | None:
    """The major version that the header's text defines, None when it defines none.

    Comments don't count. None also for definitions that differ: TVM would take
    the first one and the compiler perhaps another.
    """
    found = {int(digits) for digits in _DEFINE.findall(_COMMENT.sub(" ", text.replace("\r\n", "\n")))}
    return found.pop() if len(found) == 1 else None


def _nested(root: Path) -> str | None:
    """Names the folder one or two levels down that does hold the header."""
    for pattern in (f"*/{HEADER}", f"*/*/{HEADER}"):
        for header in sorted(root.glob(pattern)):
            return f"use {header.parent.parent}"
    return None


def _library_dir(root: Path, abi: Abi) -> Path:
    names = ("lib64", "lib") if abi.bits == 64 else ("lib", "lib64")
    present = [root / name for name in names if (root / name / "libOpenCL.so").is_file()]
    for folder in present:
        if elf_machine(folder / "libOpenCL.so") == ELF_MACHINE[abi]:
            return folder
    if present:
        _check_machine(present[0] / "libOpenCL.so", abi)
    raise ConfigError(
        f"the OpenCLML SDK has no libOpenCL.so for {abi.value}",
        where=str(root),
        expected=f"{names[0]}/libOpenCL.so",
        found=", ".join(f"{name}/" for name in ("lib", "lib64") if (root / name).is_dir()) or "no lib folder",
        fix=_FIX,
    )


def _check_machine(path: Path, abi: Abi) -> None:
    machine = elf_machine(path)
    if machine == ELF_MACHINE[abi]:
        return
    owner = next((a.value for a, number in ELF_MACHINE.items() if number == machine), None)
    raise ConfigError(
        f"{path.name} of the OpenCLML SDK is not for {abi.value}",
        where=str(path),
        expected=abi.value,
        found=owner or ("no ELF file" if machine is None else f"ELF machine {machine}"),
        fix="take the SDK for Android on this ABI, or build for another --abi",
    )
