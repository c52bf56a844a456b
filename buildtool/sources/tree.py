"""Reading a TVM tree on disk: is it one, is it whole, its version, options and capabilities."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from buildtool.core.errors import ConfigError, UsageError
from buildtool.sources.catalogue import FFI_DIR, CMakeFile, cmake_files, read_catalogue
from buildtool.sources.cmake_lexer import parse
from buildtool.sources.model import Capabilities, Catalogue

NOT_FOR_RUNTIMES = ("3rdparty/cutlass*", "3rdparty/libflash_attn")
"""Folders left out of a fetched tree: CUDA kernels of more than 100 MB that no Adreno build reads."""

# Submodules that only CUDA builds or the VTA simulator read: empty ones are no fault.
_UNNEEDED = (*NOT_FOR_RUNTIMES, "3rdparty/flashinfer", "3rdparty/vta-hw")

_VERSION_PY = re.compile(r"""^__version__\s*=\s*["']([^"']+)["']""", re.MULTILINE)
_VERSION_TOML = re.compile(r"""^version\s*=\s*["']([^"']+)["']""", re.MULTILINE)
_VERSION_H = re.compile(r"""^#define\s+TVM_VERSION\s+"([^"]+)\"""", re.MULTILINE)
_SUBMODULE_PATH = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)
_MINIMUM = re.compile(r"(\d+)\.(\d+)")


def read_tree(root: Path) -> tuple[str, Catalogue, Capabilities]:
    """The tree's version, option catalogue and capabilities, all from its own files.

    Raises UsageError when ``root`` is no TVM tree or a submodule that builds need is empty.
    """
    version, catalogue, capabilities, _ = examine(root)
    return version, catalogue, capabilities


def examine(root: Path) -> tuple[str, Catalogue, Capabilities, tuple[str, ...]]:
    """:func:`read_tree` with remarks (a stray config.cmake, submodules that CMake 4 refuses)."""
    _refuse_other_trees(root)
    files, notes = cmake_files(root)
    _refuse_non_tvm(root, files[0])
    _refuse_empty_submodules(root, files)
    catalogue = read_catalogue(files)
    if (root / "config.cmake").is_file():
        notes.append(
            f"{root / 'config.cmake'} lies in the source folder: CMake uses it for every build folder "
            "that has no config.cmake of its own; remove it"
        )
    notes.extend(_cmake4_notes(root, files))
    return read_version(root), catalogue, read_capabilities(root, files, catalogue), tuple(notes)


def is_tvm_tree(folder: Path) -> bool:
    """Whether ``folder`` looks like the top of a TVM tree (nothing is raised)."""
    try:
        _refuse_other_trees(folder)
        text = (folder / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
        _refuse_non_tvm(folder, CMakeFile("CMakeLists.txt", tuple(parse(text))))
    except (UsageError, OSError):
        return False
    return True


def read_version(root: Path) -> str:
    """From version.py, else pyproject.toml, else the runtime's header; ``unknown`` without any."""
    headers = [root / "include/tvm/runtime" / name for name in ("base.h", "c_runtime_api.h")]
    places = [(root / "version.py", _VERSION_PY), (root / "pyproject.toml", _VERSION_TOML)]
    for path, pattern in [*places, *((header, _VERSION_H) for header in headers)]:
        if path.is_file() and (hit := pattern.search(path.read_text(encoding="utf-8", errors="replace"))):
            return hit[1]
    return "unknown"


def read_capabilities(root: Path, files: Iterable[CMakeFile], catalogue: Catalogue) -> Capabilities:
    """What the files can build: targets by their add_library/add_executable, the rest by what exists."""
    made: set[str] = set()
    entered: set[str] = set()
    for file in files:
        for command in file.commands:
            words = command.texts()
            if command.name in ("add_library", "add_executable") and words:
                made.add(words[0])
            elif command.name == "add_subdirectory" and words and file.name == "CMakeLists.txt":
                entered.add(words[0].rstrip("/"))
    targets = made & {"tvm", "tvm_compiler", "tvm_runtime"}
    for name, folder in (("tvm_rpc", "apps/cpp_rpc"), ("rtvm", "apps/cpp_rtvm")):
        # CMake may still name a folder that the tree no longer has.
        if name in made and folder in entered and (root / folder / "CMakeLists.txt").is_file():
            targets.add(name)
    return Capabilities(
        targets=frozenset(targets),
        tvm_ffi=FFI_DIR in entered,
        graph_executor="USE_GRAPH_EXECUTOR" in catalogue,
        relax=(root / "src/relax").is_dir(),
        tvmc=(root / "python/tvm/driver/tvmc").is_dir(),
        clml="USE_CLML" in catalogue,
        split_opencl="tvm_runtime_opencl" in made,
    )


def _refuse_other_trees(root: Path) -> None:
    if not root.is_dir():
        raise UsageError("the TVM source is not a folder", where=str(root))
    if not (root / "CMakeLists.txt").is_file():
        inside = sorted(p.parent.name for p in root.glob("*/CMakeLists.txt"))[:3]
        found = f"CMakeLists.txt in {', '.join(inside)}" if inside else None
        if (root / "__init__.py").is_file():
            found = "a Python package: an installed TVM has no sources"
        raise UsageError(
            "no CMakeLists.txt in the source folder",
            where=str(root),
            expected="the top folder of a TVM tree",
            found=found,
            fix="give TVM's top folder, or git+URL@TAG to fetch one",
        )


def _refuse_non_tvm(root: Path, top: CMakeFile) -> None:
    projects = [c.texts()[0] for c in top.commands if c.name == "project" and c.arguments]
    options = any(command.name == "tvm_option" for command in top.commands)
    if "tvm" in projects and options:
        return
    raise UsageError(
        "this is not a TVM tree",
        where=str(root / "CMakeLists.txt"),
        expected="project(tvm …) with tvm_option(…) declarations",
        found=f"project({projects[0]})" if projects else "no project(…)",
        fix="give TVM's top folder (of a project that bundles TVM, its 3rdparty/tvm)",
    )


def _submodules(root: Path, files: Iterable[CMakeFile]) -> Iterator[str]:
    """Paths of the submodules, also of tvm-ffi's own, that the tree's CMake files mention."""
    for base in ("", f"{FFI_DIR}/"):
        listing = root / base / ".gitmodules"
        if not listing.is_file():
            continue
        words = [
            word
            for file in files
            if file.name.startswith(FFI_DIR) == bool(base)
            for command in file.commands
            for word in command.texts()
        ]
        for path in _SUBMODULE_PATH.findall(listing.read_text(encoding="utf-8", errors="replace")):
            if any(path in word for word in words):
                yield base + path


def _refuse_empty_submodules(root: Path, files: Iterable[CMakeFile]) -> None:
    empty = [
        name
        for name in _submodules(root, files)
        if not any(fnmatch.fnmatch(name, pattern) for pattern in _UNNEEDED) and not _has_files(root / name)
    ]
    if not empty:
        return
    if (root / ".git").exists():
        # tvm-ffi's own are filled by --recursive on tvm-ffi.
        top = dict.fromkeys(FFI_DIR if name.startswith(f"{FFI_DIR}/") else name for name in empty)
        words = ["git", "-C", str(root), "submodule", "update", "--init", "--recursive", "--depth", "1"]
        fix = "run: " + shlex.join([*words, "--", *top])
    else:
        fix = "this copy was made without its submodules: fetch it with --source git+URL@TAG"
    raise UsageError(
        "submodules that the build needs are empty", where=str(root), found=", ".join(empty), fix=fix
    )


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(entry.name != ".git" for entry in folder.iterdir())


def _cmake4_notes(root: Path, files: Iterable[CMakeFile]) -> Iterator[str]:
    """A note for each added sub-project whose CMake minimum is below 3.5, which CMake 4 refuses."""
    # Included *.cmake files run in the top folder.
    waiting = [
        (file.name, root, file.commands)
        for file in files
        if file.name == "CMakeLists.txt" or file.name.startswith("cmake/")
    ]
    seen = {"CMakeLists.txt"}
    while waiting:
        name, folder, commands = waiting.pop(0)
        for command in commands:
            words = command.texts()
            if command.name == "cmake_minimum_required" and (minimum := _highest(words)) < (3, 5):
                yield (
                    f"{name} asks for CMake {minimum[0]}.{minimum[1]}, which CMake 4 refuses: "
                    "-DCMAKE_POLICY_VERSION_MINIMUM=3.5 lets it pass"
                )
            if command.name != "add_subdirectory" or not words:
                continue
            child = _subproject(words[0], folder, root)
            key = os.path.relpath(child, root)
            if key in seen or not child.is_file():
                continue
            seen.add(key)
            try:
                text = child.read_text(encoding="utf-8", errors="replace")
                waiting.append((key, child.parent, tuple(parse(text, where=str(child)))))
            except ConfigError as exc:
                yield f"{key} could not be read as CMake: {exc.what}"


def _subproject(place: str, folder: Path, root: Path) -> Path:
    """The CMakeLists.txt that add_subdirectory(place) in ``folder`` reads.

    A place that depends on other variables stays as written, and so names no file.
    """
    for variable in ("CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR"):
        place = place.replace(f"${{{variable}}}", str(folder))
    for variable in ("CMAKE_SOURCE_DIR", "PROJECT_SOURCE_DIR"):
        place = place.replace(f"${{{variable}}}", str(root))
    return folder / place / "CMakeLists.txt"


def _highest(words: list[str]) -> tuple[int, int]:
    """The policy version of cmake_minimum_required: the upper end of ``3.2...3.20``."""
    found = [(int(a), int(b)) for a, b in _MINIMUM.findall(" ".join(words))]
    return max(found, default=(3, 5))
