"""A build's finished files in one flat folder with ``manifest.json``, written and read back.

The folder is flat because that is how the files lie on a device: each library
beside the programs that need it. Separate debug files are in ``.debug/``, where
gdb, addr2line, llvm-symbolizer and ``ndk-stack -sym FOLDER`` look by themselves.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from buildtool.artifacts.elf import read_elf
from buildtool.artifacts.facts import ElfFacts
from buildtool.artifacts.model import Artifact, ArtifactSet
from buildtool.build.model import BuildResult
from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, UsageError
from buildtool.core.files import atomic_dir, read_json, sha256_file, write_json
from buildtool.core.process import run
from buildtool.core.types import Abi
from buildtool.toolchains.model import Toolchain

MANIFEST = "manifest.json"
DEBUG = ".debug"
FORMAT = 1
_AR_MAGIC = b"!<arch>\n"


def collect(result: BuildResult, dest: Path, *, strip: bool = True) -> ArtifactSet:
    """Copy what ``result`` linked, and the toolchain's runtime libraries, to ``dest``.

    ``dest`` is replaced as a whole, or left as it was on an error. A library
    goes by its SONAME, the name that the loader looks for. Static archives are
    no use on a device and are left out, said aloud. With ``strip`` the copies
    are stripped; debug information goes to ``dest/.debug/NAME.debug`` first.
    Raises BuildFailed when a file is missing, damaged, for another machine than
    the toolchain's, or when two want the same name.
    """
    plan = result.plan
    head = _head(result, strip)
    unchanged = _load_unchanged(dest, head)
    if unchanged is not None:
        return unchanged
    with atomic_dir(dest) as work:
        taken: dict[str, Path] = {}
        entries: list[tuple[str, str]] = []
        for role, paths in (("runtime", plan.toolchain.runtime_libs), (None, result.outputs)):
            for path in paths:
                entry = _take(path, role, work, plan.toolchain, taken, strip=strip)
                if entry is not None:
                    entries.append(entry)
        if not any(role != "runtime" for _, role in entries):
            raise BuildFailed("the build left no program and no shared library", where=str(plan.build_dir))
        artifacts = _dependencies_first([_artifact(work, name, role) for name, role in entries])
        write_json(work / MANIFEST, {**head, "files": [_entry(a) for a in artifacts]})
    return load(dest)


def _load_unchanged(dest: Path, head: dict[str, object]) -> ArtifactSet | None:
    """What an earlier run collected from the very same files, None when anything differs."""
    try:
        data = read_json(dest / MANIFEST)
        if {name: value for name, value in data.items() if name != "files"} != head:
            return None
        return load(dest)
    except (OSError, AttributeError, BuildFailed):
        return None


def _take(
    path: Path, role: str | None, work: Path, toolchain: Toolchain, taken: dict[str, Path], *, strip: bool
) -> tuple[str, str] | None:
    """Copy one output into ``work``; its (name, role), or None for a static archive."""
    if _is_archive(path):
        screen.info(f"{path.name}: a static archive, not collected")
        return None
    elf = read_elf(path)
    if elf.machine != toolchain.abi.elf_machine or elf.elf_class != toolchain.abi.bits:
        raise BuildFailed(
            f"{path.name} is for another machine than the toolchain's",
            where=str(path),
            expected=f"{toolchain.abi.elf_machine}, {toolchain.abi.bits} bit ({toolchain.abi.value})",
            found=f"{elf.machine}, {elf.elf_class} bit",
            fix="remove the build folder and build again; look for host packages in the CMake log",
        )
    name = elf.soname or path.name
    if name in taken:
        raise BuildFailed(
            f"two built files want the name {name}", where=str(path), found=f"also {taken[name]}"
        )
    taken[name] = path
    target = work / name
    shutil.copyfile(path, target)
    target.chmod(0o755)
    if strip:
        _strip(target, elf, work / DEBUG / f"{name}.debug", toolchain)
    is_program = elf.soname is None and (elf.interpreter is not None or elf.pie or elf.type == "ET_EXEC")
    return name, role or ("executable" if is_program else "library")


def _is_archive(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_AR_MAGIC)) == _AR_MAGIC


def _strip(target: Path, elf: ElfFacts, debug: Path, toolchain: Toolchain) -> None:
    if toolchain.strip is None:
        screen.warn(f"{target.name}: not stripped, the toolchain {toolchain.name} has no strip program")
        return
    split = elf.has_debug and toolchain.objcopy is not None
    env = {**os.environ, **dict(toolchain.env)}
    if split:
        debug.parent.mkdir(exist_ok=True)
        run([str(toolchain.objcopy), "--only-keep-debug", target, debug], env=env, timeout=300)
        debug.chmod(0o644)
    elif elf.has_debug:
        screen.warn(f"{target.name}: its debug information is dropped, {toolchain.name} has no objcopy")
    run([toolchain.strip, "--strip-all", target], env=env, timeout=300)
    if split:
        run([str(toolchain.objcopy), f"--add-gnu-debuglink={debug}", target], env=env, timeout=300)


def _artifact(root: Path, name: str, role: str, digest: str | None = None) -> Artifact:
    path, debug = root / name, root / DEBUG / f"{name}.debug"
    return Artifact(
        name=name,
        path=path,
        role=role,
        size=path.stat().st_size,
        sha256=digest or sha256_file(path),
        debug=debug if debug.is_file() else None,
    )


def _dependencies_first(artifacts: list[Artifact]) -> list[Artifact]:
    """Order by NEEDED; files that need each other stay in the order given."""
    by_name = {a.name: a for a in artifacts}
    ordered: dict[str, Artifact] = {}
    visiting: set[str] = set()

    def visit(artifact: Artifact) -> None:
        if artifact.name in visiting:
            return
        visiting.add(artifact.name)
        for name in artifact.elf.needed:
            if name in by_name:
                visit(by_name[name])
        ordered[artifact.name] = artifact

    for artifact in artifacts:
        visit(artifact)
    return list(ordered.values())


def elf_summary(elf: ElfFacts) -> dict[str, object]:
    """The facts of an ELF file that a manifest tells (symbols are counted, not listed)."""
    return {
        "class": elf.elf_class,
        "machine": elf.machine,
        "type": elf.type,
        "interpreter": elf.interpreter,
        "soname": elf.soname,
        "needed": list(elf.needed),
        "runpath": elf.runpath or elf.rpath,
        "build_id": elf.build_id,
        "max_page_size": max((s.align for s in elf.segments), default=0),
        "exports": len(elf.defined),
        "imports": len(elf.undefined),
        "android_api": elf.android_api,
        "ndk": elf.ndk_version,
    }


def _head(result: BuildResult, strip: bool) -> dict[str, object]:
    """The manifest but for its list of files: what they were made from, and how."""
    plan = result.plan
    sources = (*plan.toolchain.runtime_libs, *result.outputs)
    return {
        "format": FORMAT,
        "profile": plan.profile.name,
        "abi": plan.toolchain.abi.value,
        "triple": plan.toolchain.triple,
        "build_type": plan.build_type,
        "stripped": strip,
        "collected": [_stamp(path) for path in sources],
        "source": {
            "version": plan.source.version,
            "spec": plan.source.spec,
            "pin": f"{plan.source.pin.kind}:{plan.source.pin.id}",
            "tvm_ffi": plan.source.capabilities.tvm_ffi,
        },
        "toolchain": plan.toolchain.identity(),
        "options": {option.name: option.value for option in plan.profile.options},
        "paths": {
            "source": str(plan.source.root),
            "build": str(plan.build_dir),
            "ndk": str(plan.toolchain.root) if plan.toolchain.root else None,
        },
    }


def _stamp(path: Path) -> list[object]:
    """Tells a file that was linked anew from one that was not."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise BuildFailed("a file that the build should have made is missing", where=str(path)) from None
    return [str(path), stat.st_size, stat.st_mtime_ns]


def _entry(artifact: Artifact) -> dict[str, object]:
    return {
        "name": artifact.name,
        "role": artifact.role,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "debug": f"{DEBUG}/{artifact.debug.name}" if artifact.debug else None,
        "elf": elf_summary(artifact.elf),
    }


def load(dest: Path) -> ArtifactSet:
    """Read a folder made by :func:`collect` back, each file held against the manifest.

    Raises UsageError when there is no manifest, and BuildFailed that names the
    file when one is missing, its digest differs or the manifest is damaged.
    """
    dest = dest.absolute()
    manifest = dest / MANIFEST
    if not manifest.is_file():
        raise UsageError(
            "no built files here",
            where=str(manifest),
            fix="build first (buildtool build), or name the folder that holds manifest.json",
        )
    data = read_json(manifest)
    try:
        return _from_manifest(dest, manifest, data)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise BuildFailed(
            f"damaged manifest: {type(exc).__name__}: {exc}", where=str(manifest), fix="build again"
        ) from exc


def _from_manifest(dest: Path, manifest: Path, data: Any) -> ArtifactSet:
    if data["format"] != FORMAT:
        raise BuildFailed(
            "the manifest is of another version of buildtool",
            where=str(manifest),
            expected=f"format {FORMAT}",
            found=f"format {data['format']}",
            fix="build again",
        )
    artifacts = []
    for entry in data["files"]:
        name = str(entry["name"])
        if name != Path(name).name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is not a plain file name")
        _check_file(dest / name, entry)
        artifacts.append(_artifact(dest, name, str(entry["role"]), str(entry["sha256"])))
    source = data["source"]
    return ArtifactSet(
        root=dest,
        profile=str(data["profile"]),
        abi=Abi(data["abi"]),
        triple=str(data["triple"]),
        artifacts=tuple(artifacts),
        manifest=manifest,
        version=str(source["version"]),
        pin=str(source["pin"]),
        tvm_ffi=bool(source["tvm_ffi"]),
        options={str(k): str(v) for k, v in data["options"].items()},
        toolchain=dict(data["toolchain"]),
        source_dir=str(data["paths"]["source"]),
        build_dir=str(data["paths"]["build"]),
        ndk_dir=data["paths"].get("ndk"),
    )


def _check_file(path: Path, entry: Any) -> None:
    if not path.is_file():
        raise BuildFailed(f"{path.name} is in the manifest but not in the folder", where=str(path))
    found = sha256_file(path)
    if found != entry["sha256"]:
        raise BuildFailed(
            f"{path.name} is not the file that was built",
            where=str(path),
            expected=f"sha256 {entry['sha256']}, {entry['size']} bytes",
            found=f"sha256 {found}, {path.stat().st_size} bytes",
            fix="build again, or copy the whole folder again",
        )
