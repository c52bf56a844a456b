"""What buildtool.toml may hold, told three ways: JSON Schema, commented file, Markdown tables.

All of it is made from the types and descriptions in model.py.
``python -m buildtool.settings.reference docs/settings.md`` brings the tables there up to date.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from buildtool.core.errors import ConfigError
from buildtool.core.files import atomic_write
from buildtool.settings.loading import environment_name, path_kind, plain_type, scalar_keys
from buildtool.settings.model import SettingsFile

BEGIN = "<!-- generated from buildtool/settings/model.py -->"
END = "<!-- end of the generated part -->"

# Names for the tables whose names the user chooses, in the commented file.
_EXAMPLE_NAMES = {"profiles": "my-android", "devices": "my-phone"}


@dataclass(frozen=True)
class Key:
    """One key of a table, ready to be shown."""

    name: str
    type: str
    default: object
    example: object
    doc: str


def json_schema() -> dict[str, Any]:
    """JSON Schema of buildtool.toml, for editors."""
    schema = msgspec.json.schema(SettingsFile)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "buildtool.toml",
        **schema,
    }


def tables() -> Iterator[tuple[str, str, list[Key]]]:
    """(``build`` or ``profiles.NAME``, what it is for, its keys) in the file's order."""
    for section, hint in typing.get_type_hints(SettingsFile, include_extras=True).items():
        inner = plain_type(hint)
        if typing.get_origin(inner) is dict:
            section, inner = f"{section}.NAME", typing.get_args(inner)[1]  # noqa: PLW2901
        yield section, _meta(hint).description or "", [*_keys(inner)]


def commented_file(source: str | None = None) -> str:
    """A buildtool.toml in which every key is described and commented out.

    Prose starts with ``# ``, a commented key with ``#`` alone. ``source`` is set for real.
    Raises ConfigError when it holds a control character.
    """
    lines = [
        "# Settings of buildtool. A flag wins over the environment, that over this file, and",
        "# this file over what is built in. `buildtool config show` tells what holds and why.",
        "# Relative paths are relative to this file; ~ and ${NAME} are expanded in paths only.",
    ]
    for table, doc, keys in tables():
        section = table.partition(".")[0]
        name = _EXAMPLE_NAMES.get(section)
        header = f"{section}.{name}" if name else section
        lines += ["", f"# {doc}", f"#[{header}]" if name else f"[{header}]"]
        for key in keys:
            lines.append(f"# {key.doc}")
            if (section, key.name) == ("source", "spec") and source is not None:
                lines.append(f"spec = {toml_value(source)}")
            elif isinstance(key.example, dict):
                lines.append(f"#[{header}.{key.name}]")
                lines += [f"#{k} = {toml_value(v)}" for k, v in key.example.items()]
            else:
                lines.append(f"#{key.name} = {toml_value(key.example)}")
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    """A text, number, boolean or list as TOML."""
    if isinstance(value, str) and any(ord(c) < 0x20 or c == "\x7f" for c in value):
        raise ConfigError("a control character cannot be written to buildtool.toml", found=repr(value))
    return json.dumps(value, ensure_ascii=False)


def markdown() -> str:
    """Tables of every key: name, type, default, environment variable, meaning."""
    scalars = scalar_keys()
    lines: list[str] = []
    for table, doc, keys in tables():
        lines += [f"### `[{table}]`", "", doc, ""]
        lines += ["| key | type | default | environment | meaning |", "|---|---|---|---|---|"]
        for key in keys:
            dotted = f"{table}.{key.name}"
            variable = f"`{environment_name(dotted)}`" if dotted in scalars else ""
            if dotted == "source.spec":
                variable = f"`BUILDTOOL_SOURCE` or {variable}"
            default = "" if key.default in (None, msgspec.NODEFAULT) else f"`{toml_value(key.default)}`"
            doc_cell = key.doc.replace("|", "\\|")
            lines.append(f"| `{key.name}` | {key.type} | {default} | {variable} | {doc_cell} |")
        lines.append("")
    return "\n".join(lines)


def with_tables(text: str) -> str:
    """A document with the part between the two markers made anew."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ConfigError(f"the document has no part marked {BEGIN!r} … {END!r}")
    return f"{head}{BEGIN}\n\n{markdown()}\n{END}{tail}"


def _keys(struct: type[msgspec.Struct]) -> Iterator[Key]:
    hints = typing.get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        default: object = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        examples = _meta(hint).examples
        yield Key(
            name=field.name,
            type=_type_words(hint),
            default=default,
            example=examples[0] if examples else default,
            doc=_meta(hint).description or "",
        )


def _meta(hint: Any) -> msgspec.Meta:
    return next(m for m in typing.get_args(hint)[1:] if isinstance(m, msgspec.Meta))


def _type_words(hint: Any) -> str:
    """A type as the reader of a table understands it."""
    if path_kind(hint):
        return {"path": "path", "program": "program or path", "spec": "source"}[path_kind(hint) or ""]
    inner = plain_type(hint)
    if typing.get_origin(inner) is dict:
        return "table"
    if typing.get_origin(inner) is list:
        return "list of texts"
    if typing.get_origin(inner) is typing.Literal:
        return " \\| ".join(f"`{word}`" for word in typing.get_args(inner))
    words = {str: "text", int: "number", bool: "true or false"}
    if inner in words:
        return words[inner]
    return " or ".join(_type_words(part) for part in typing.get_args(inner) if part is not type(None))


if __name__ == "__main__":
    document = Path(sys.argv[1])
    atomic_write(document, with_tables(document.read_text(encoding="utf-8")))
