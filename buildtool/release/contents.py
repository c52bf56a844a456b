"""What a release of one profile and ABI holds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from buildtool import __version__
from buildtool.artifacts import Artifact, ArtifactSet
from buildtool.core.errors import BuildFailed, UsageError
from buildtool.core.files import sha256_bytes
from buildtool.core.process import run, which
from buildtool.profiles.rendering import environment
from buildtool.release.archive import OLDEST, Entry

RECORD = "build-record.json"
RECORD_FORMAT = 1
# (folder in the tree, what of it goes below include/): the headers that an app compiles against.
_HEADERS = (
    ("include", "tvm/runtime"),
    ("3rdparty/tvm-ffi/include", "tvm/ffi"),
    ("ffi/include", "tvm/ffi"),
    ("3rdparty/tvm-ffi/3rdparty/dlpack/include", "dlpack"),
    ("3rdparty/dlpack/include", "dlpack"),
    ("3rdparty/dmlc-core/include", "dmlc"),
)
_LICENCES = ("LICENSE", "NOTICE", "licenses", "3rdparty/tvm-ffi/LICENSE", "3rdparty/tvm-ffi/NOTICE")
_LICENCES_TOO = ("3rdparty/tvm-ffi/licenses", "3rdparty/dlpack/LICENSE", "3rdparty/dmlc-core/LICENSE")


def top_folder(artifacts: ArtifactSet) -> str:
    return f"tvm-runtime-{artifacts.version}-{artifacts.profile}-{artifacts.abi.value}"


def source_epoch(artifacts: ArtifactSet) -> int:
    """Seconds that every file of the release is dated: SOURCE_DATE_EPOCH, else the source commit's
    time, else 1980-01-01 (a registry's archive has no commit)."""
    named = os.environ.get("SOURCE_DATE_EPOCH")
    if named is not None:
        if not named.isdigit():
            raise UsageError("SOURCE_DATE_EPOCH must be seconds since 1970", found=named)
        return int(named)
    git = which("git")
    tree = Path(artifacts.source_dir)
    if git is not None and (tree / ".git").exists():
        done = run([git, "-C", tree, "log", "-1", "--format=%ct"], timeout=30, check=False)
        if done.ok and done.stdout.strip().isdigit():
            return int(done.stdout.strip())
    return OLDEST


def gather(artifacts: ArtifactSet) -> dict[str, Entry]:
    """Every file of the release but its record, SBOM and provenance, by its place in it.

    Raises BuildFailed when the source tree, whose headers and licences go in, is gone.
    """
    tree = Path(artifacts.source_dir)
    if not tree.is_dir():
        raise BuildFailed(
            "the TVM tree that was built is gone: its headers and licences belong to the release",
            where=str(tree),
            fix="build again",
        )
    entries: dict[str, Entry] = {}
    for artifact in artifacts.artifacts:
        entries[_place(artifact)] = Entry(artifact.path, executable=True)
    headers = dict(_headers(tree))
    if not headers:
        raise BuildFailed("the TVM tree has no runtime headers", where=str(tree / "include" / "tvm"))
    entries |= headers
    entries |= dict(_licences(tree))
    entries["lib/cmake/tvm_runtime/tvm_runtime-config.cmake"] = Entry(_config(artifacts).encode())
    version = f'set(PACKAGE_VERSION "{artifacts.version}")\n'
    version += "if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)\n  set(PACKAGE_VERSION_EXACT TRUE)\n"
    version += "  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nelseif(NOT PACKAGE_FIND_VERSION)\n"
    version += "  set(PACKAGE_VERSION_COMPATIBLE TRUE)\nendif()\n"
    entries["lib/cmake/tvm_runtime/tvm_runtime-config-version.cmake"] = Entry(version.encode())
    return entries


def _place(artifact: Artifact) -> str:
    return f"{'bin' if artifact.role == 'executable' else 'lib'}/{artifact.name}"


def _headers(tree: Path) -> Iterator[tuple[str, Entry]]:
    for folder, below in _HEADERS:
        for path in sorted((tree / folder / below).rglob("*")):
            if path.is_file() and path.suffix in (".h", ".hpp"):
                yield f"include/{path.relative_to(tree / folder).as_posix()}", Entry(path)


def _licences(tree: Path) -> Iterator[tuple[str, Entry]]:
    for name in (*_LICENCES, *_LICENCES_TOO):
        start = tree / name
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            if path.is_file():
                yield f"licenses/{path.relative_to(tree).as_posix().replace('/', '.')}", Entry(path)


def _config(artifacts: ArtifactSet) -> str:
    """The CMake package file. A library needs those of the others that it names."""
    libraries = [a for a in artifacts.artifacts if a.role != "executable"]
    targets = {a.name: _target(a.name) for a in libraries}
    rows = [
        {
            "target": targets[a.name],
            "file": a.name,
            "needs": [f"tvm::{targets[n]}" for n in a.elf.needed if n in targets and n != a.name],
        }
        for a in libraries
    ]
    # A target must be there before another names it.
    rows.sort(key=lambda row: (len(row["needs"]), row["target"]))
    context = {
        "version": artifacts.version,
        "abi": artifacts.abi.value,
        "bits": artifacts.abi.bits,
        "profile": artifacts.profile,
        "android": "android" in artifacts.triple,
        "libraries": rows,
    }
    return environment().get_template("tvm_runtime-config.cmake.j2").render(context)


def _target(file: str) -> str:
    """``libtvm_runtime.so`` is ``tvm::runtime``, another ``libfoo.so`` ``tvm::foo``."""
    stem = file.removeprefix("lib").split(".so")[0]
    return stem.removeprefix("tvm_").replace("+", "x")


def record(artifacts: ArtifactSet, entries: Mapping[str, Entry], epoch: int) -> dict[str, Any]:
    """How the release was made and what is in it; nothing of the machine that made it."""
    toolchain = artifacts.toolchain
    facts = {key: toolchain.get(key) for key in ("name", "version", "triple", "api_level", "revision")}
    return {
        "format": RECORD_FORMAT,
        "buildtool": __version__,
        "profile": artifacts.profile,
        "abi": artifacts.abi.value,
        "triple": artifacts.triple,
        "source": {"pin": artifacts.pin, "version": artifacts.version, "epoch": epoch},
        "options": dict(sorted(artifacts.options.items())),
        "toolchain": facts,
        "files": {name: sha256_bytes(entry.read()) for name, entry in sorted(entries.items())},
        "elf": {
            _place(a): {
                "machine": a.elf.machine,
                "needed": list(a.elf.needed),
                "build_id": a.elf.build_id,
                "android_api": a.elf.android_api,
            }
            for a in artifacts.artifacts
        },
    }


def debug_files(artifacts: ArtifactSet) -> dict[str, Entry]:
    """Separate debug files, for the archive beside the release."""
    return {f".debug/{a.debug.name}": Entry(a.debug) for a in artifacts.artifacts if a.debug is not None}
