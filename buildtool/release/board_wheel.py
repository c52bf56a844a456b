"""A wheel that brings the runtime's programs, libraries and headers to a Linux board by pip."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import UsageError
from buildtool.core.types import Abi
from buildtool.release import archive, contents
from buildtool.release.archive import Entry

NAME = "tvm_runtime_libs"
_MACHINES = {Abi.ARM64: "aarch64", Abi.ARM32: "armv7l", Abi.X86_64: "x86_64", Abi.RISCV64: "riscv64"}
_MODULE = '''"""TVM's runtime for this board: where its files are, and its programs as commands."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent
LIB, INCLUDE, BIN = ROOT / "lib", ROOT / "include", ROOT / "bin"


def run(program: str) -> None:
    """Become ``program`` of ``BIN`` with its libraries at hand."""
    path = BIN / program
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(
        part for part in (str(LIB), os.environ.get("LD_LIBRARY_PATH", "")) if part
    )
    os.execv(path, [str(path), *sys.argv[1:]])
'''


def write(artifacts: ArtifactSet, folder: Path, *, epoch: int) -> Path:
    """``tvm_runtime_libs-VERSION-py3-none-linux_MACHINE.whl`` in ``folder``; the same bytes each time.

    Installed programs are commands (``tvm_rpc``, ``rtvm``). Raises UsageError for an Android build.
    """
    machine = _MACHINES.get(artifacts.abi)
    if machine is None or "android" in artifacts.triple:
        raise UsageError(
            f"profile {artifacts.profile} is not built for Linux",
            where="--wheel",
            fix="use --aar for Android",
        )
    version = python_version(artifacts.version)
    info = f"{NAME}-{version}.dist-info"
    entries: dict[str, Entry] = {}
    for name, entry in contents.gather(artifacts).items():
        if name.startswith("licenses/"):
            entries[f"{info}/{name}"] = entry
        elif not name.startswith("lib/cmake/"):
            entries[f"{NAME}/{name}"] = entry
    programs = [a.name for a in artifacts.artifacts if a.role == "executable"]
    entries[f"{NAME}/__init__.py"] = Entry(_MODULE.encode())
    commands = "".join(f"def {_word(p)}() -> None:\n    run({p!r})\n\n\n" for p in programs)
    entries[f"{NAME}/commands.py"] = Entry(f"from {NAME} import run\n\n\n{commands}".encode())
    points = "".join(f"{p} = {NAME}.commands:{_word(p)}\n" for p in programs)
    entries[f"{info}/entry_points.txt"] = Entry(f"[console_scripts]\n{points}".encode())
    entries[f"{info}/METADATA"] = Entry(_metadata(version, artifacts).encode())
    tag = f"py3-none-linux_{machine}"
    entries[f"{info}/WHEEL"] = Entry(
        f"Wheel-Version: 1.0\nGenerator: buildtool\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    entries[f"{info}/RECORD"] = Entry(_record(entries, f"{info}/RECORD").encode())
    return archive.write(folder / f"{NAME}-{version}-{tag}.whl", "", entries, epoch=epoch)


def python_version(version: str) -> str:
    """TVM's version as PEP 440 spells it; what does not fit becomes a local part."""
    match = re.match(r"\d+(\.\d+)*(\.?(dev|post|rc|a|b)\d*)?", version)
    if match is None:
        return "0+" + (re.sub(r"[^A-Za-z0-9.]+", ".", version).strip(".") or "unknown")
    rest = re.sub(r"[^A-Za-z0-9.]+", ".", version[match.end() :]).strip(".")
    return match[0] + (f"+{rest}" if rest else "")


def _word(program: str) -> str:
    return re.sub(r"\W", "_", program)


def _metadata(version: str, artifacts: ArtifactSet) -> str:
    return (
        f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {version}\n"
        f"Summary: Apache TVM runtime, profile {artifacts.profile} ({artifacts.triple})\n"
        "License: Apache-2.0\nRequires-Python: >=3.8\n"
    )


def _record(entries: dict[str, Entry], own: str) -> str:
    rows = []
    for name in sorted(entries):
        data = entries[name].read()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*rows, f"{own},,\n"])
