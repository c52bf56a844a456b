"""Read buildtool.toml: the data, and the line that each key stands on."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildtool.core.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

FILE_NAME = "buildtool.toml"
_POSITION = re.compile(r"\(at line (\d+), column (\d+)\)$")
_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*"
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*({_DOTTED})[ \t]*=")
# What can hide a line break or a bracket inside a value.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}\n]',
    re.DOTALL,
)


@dataclass(frozen=True)
class Document:
    """One parsed file. ``lines`` maps dotted keys (as tuples) to 1-based line numbers."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[tuple[str, ...], int]

    def where(self, key: tuple[str, ...]) -> str:
        """``buildtool.toml:12``: the key's line, or its nearest table's."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.lines:
                return f"{self.path}:{self.lines[key[:length]]}"
        return str(self.path)


def find_file(cwd: Path) -> Path | None:
    """The nearest buildtool.toml in ``cwd`` or above it, not looking beyond a folder with ``.git``."""
    for folder in (cwd, *cwd.parents):
        candidate = folder / FILE_NAME
        if candidate.is_file():
            return candidate
        if (folder / ".git").exists():
            return None
    return None


def read(path: Path) -> Document:
    """Parse a settings file; ConfigError names ``file:line:column`` when it is not TOML."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(
            "there is no such settings file", where=str(path), fix="write one with `buildtool init`"
        ) from None
    except UnicodeDecodeError as exc:
        line = exc.object[: exc.start].count(b"\n") + 1
        raise ConfigError("the settings file is not UTF-8", where=f"{path}:{line}") from exc
    except OSError as exc:
        raise ConfigError(f"cannot read the settings file: {exc.strerror}", where=str(path)) from exc
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        message = str(exc)
        match = _POSITION.search(message)
        rows = text.split("\n")
        place = f"{match.group(1)}:{match.group(2)}" if match else f"{len(rows)}:{len(rows[-1]) + 1}"
        reason = message[: match.start()].strip() if match else message
        raise ConfigError(f"not valid TOML: {reason}", where=f"{path}:{place}") from exc
    return Document(path, data, _key_lines(text))


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Line of every table header and assignment in ``text``, which is known to be valid TOML."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    number = 1
    for statement in _statements(text):
        header = _HEADER.match(statement)
        if header:
            table = _split(header.group(1))
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(statement):
            lines[table + _split(assignment.group(1))] = number
        number += statement.count("\n")
    return lines


def _statements(text: str) -> list[str]:
    """``text`` cut after each line break that is outside strings, arrays and inline tables."""
    found, start, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        elif first == "\n" and depth == 0:
            found.append(text[start : token.end()])
            start = token.end()
    return [*found, text[start:]]


def _split(dotted: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, unquoted."""
    parts = []
    for part in re.findall(_KEY_PART, dotted):
        # A quoted key is a TOML string: TOML itself unquotes it.
        parts.append(tomllib.loads(f"k = {part}")["k"] if part[0] in "\"'" else part)
    return tuple(parts)
