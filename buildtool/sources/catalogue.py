"""Reading a tree's option catalogue from its CMake files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from buildtool.core.errors import ConfigError
from buildtool.sources.cmake_lexer import Command, parse
from buildtool.sources.model import Catalogue, CatalogueOption

CONFIG_FILE = "cmake/config.cmake"
FFI_DIR = "3rdparty/tvm-ffi"

# Names that can be a user's option though nothing declares them ...
_OPTION_LIKE = re.compile(r"(USE|BUILD|TVM)_[A-Z0-9_]+")
# ... and what a cross build gives besides.
_TARGET_VARIABLES = frozenset({"MACHINE_NAME", "ANDROID_ABI", "ANDROID_PLATFORM"})
_CONDITIONS = frozenset({"if", "elseif", "while"})


@dataclass(frozen=True)
class CMakeFile:
    """One parsed file; ``name`` is its path relative to the tree, with forward slashes."""

    name: str
    commands: tuple[Command, ...]


def cmake_files(root: Path) -> tuple[list[CMakeFile], list[str]]:
    """The tree's CMake files that can declare or read options, and notes on unreadable ones.

    Raises ConfigError when the top CMakeLists.txt itself can't be read as CMake.
    """
    paths = [
        root / "CMakeLists.txt",
        *sorted((root / "cmake").rglob("*.cmake")),
        *sorted(root.glob("apps/*/CMakeLists.txt")),
        root / FFI_DIR / "CMakeLists.txt",
        *sorted((root / FFI_DIR / "cmake").rglob("*.cmake")),
    ]
    files: list[CMakeFile] = []
    notes: list[str] = []
    for path in paths:
        if not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        try:
            commands = parse(path.read_text(encoding="utf-8", errors="replace"), where=str(path))
        except ConfigError as exc:
            if name == "CMakeLists.txt":
                raise
            notes.append(f"{name} could not be read as CMake: {exc.what}")
            continue
        files.append(CMakeFile(name, tuple(commands)))
    return files, notes


def read_catalogue(files: Iterable[CMakeFile]) -> Catalogue:
    """Every option that the files declare, give a default in config.cmake, or only read."""
    options: dict[str, CatalogueOption] = {}
    readers: dict[str, set[str]] = {}
    assigned: set[str] = set()
    for file in files:
        for command in file.commands:
            if file.name == CONFIG_FILE:
                _take_config(options, command)
                continue
            if (found := _declaration(command)) is not None:
                old = options.get(found.name, found)
                options[found.name] = replace(found, config_default=old.config_default)
            elif command.name in ("set", "list", "foreach", "unset", "string", "file", "option"):
                assigned.update(command.texts()[:2])
            for name in _reads(command):
                readers.setdefault(name, set()).add(file.name)
    for name, where in readers.items():
        known = options.get(name)
        if known is None and not _is_user_variable(name, assigned):
            continue
        options[name] = replace(known or CatalogueOption(name), consumed_in=tuple(sorted(where)))
    return Catalogue(dict(sorted(options.items())))


def _is_user_variable(name: str, assigned: set[str]) -> bool:
    return name in _TARGET_VARIABLES or (name not in assigned and bool(_OPTION_LIKE.fullmatch(name)))


def _take_config(options: dict[str, CatalogueOption], command: Command) -> None:
    words = command.texts()
    if command.name != "set" or not words:
        return
    known = options.get(words[0], CatalogueOption(words[0]))
    options[words[0]] = replace(known, config_default=";".join(words[1:]), doc=known.doc or command.comment)


def _declaration(command: Command) -> CatalogueOption | None:
    """The option that a ``tvm_option``, ``option`` or ``set(... CACHE ...)`` command declares."""
    words = command.texts()
    if command.name == "tvm_option" and len(words) >= 3:
        ends = [i for i, word in enumerate(words) if i > 2 and word.upper() == "IF"]
        end = ends[0] if ends else len(words)
        condition = " ".join(words[end + 1 :])
        default = ";".join(words[2:end])
        return CatalogueOption(words[0], words[1], True, default, condition=condition)
    if command.name == "option" and len(words) >= 2:
        return CatalogueOption(words[0], words[1], True, words[2] if len(words) > 2 else "OFF")
    if command.name == "set" and "CACHE" in words[2:] and _OPTION_LIKE.fullmatch(words[0]):
        at = words.index("CACHE", 2)
        if words[at + 1 : at + 2] == ["INTERNAL"]:
            return None
        return CatalogueOption(words[0], " ".join(words[at + 2 : at + 3]), True, ";".join(words[1:at]))
    return None


def _reads(command: Command) -> Iterator[str]:
    """Names whose value the command reads."""
    if command.name.startswith("end") or command.name == "else":
        return  # endif(X) repeats the condition; it reads nothing
    for argument in command.arguments:
        yield from argument.references
        if command.name in _CONDITIONS and argument.kind != "paren" and not argument.references:
            yield argument.text
