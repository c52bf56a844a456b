"""Settings from all their places: flag, then environment, then file, then built-in."""

from __future__ import annotations

import os
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from buildtool.core.console import screen
from buildtool.core.errors import ConfigError, did_you_mean, unknown
from buildtool.settings import reader
from buildtool.settings.model import BuildSettings, DeviceSettings, Settings, SettingsFile
from buildtool.settings.problems import raise_all

PREFIX = "BUILDTOOL_"
# Variables of buildtool that are no settings.
OTHER_VARIABLES = ("BUILDTOOL_CACHE_DIR", "BUILDTOOL_DEBUG")
OTHER_PREFIXES = ("BUILDTOOL_TEST_",)
SHORT_NAMES = {"BUILDTOOL_SOURCE": "source.spec"}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SPEC_SCHEME = re.compile(r"[a-z][a-z0-9+]+:")
_NO_FLAGS: Mapping[str, object] = types.MappingProxyType({})


def load(
    path: Path | None = None,
    *,
    cwd: Path | None = None,
    flags: Mapping[str, object] = _NO_FLAGS,
    env: Mapping[str, str] | None = None,
) -> Settings:
    """The settings that hold in ``cwd`` (default: the process's own).

    ``path`` names the file; without it buildtool.toml is looked for upwards.
    ``flags`` are keyed by dotted name (``"source.spec"``), None means not given.
    ``env`` is the environment (default: the process's own); an empty variable
    counts as unset. Raises ConfigError that lists every problem at once; an
    unknown BUILDTOOL_* variable is only warned of.
    """
    here = (cwd or Path.cwd()).absolute()
    variables = dict(os.environ if env is None else env)
    file = here / path if path else reader.find_file(here)
    loader = _Loader()
    tree: dict[str, Any] = {}
    if file is not None:
        loader.document = reader.read(file)
        tree = loader.check_table(SettingsFile, loader.document.data, ())
    for dotted, value, origin in (*_from_environment(variables, loader), *_from_flags(flags)):
        loader.overlay(tree, dotted, value, origin)
    loader.drop_foreign_digest(tree)
    loader.make_absolute(tree, cwd=here, env=variables)
    raise_all(loader.problems, "problems in the settings")
    plain = msgspec.convert(tree, SettingsFile)
    return Settings(
        source=plain.source,
        profiles=plain.profiles,
        toolchains=plain.toolchains,
        build=plain.build,
        devices=plain.devices,
        file=file,
        origins=loader.origins,
    )


def scalar_keys() -> dict[str, Any]:
    """Dotted name → type of every setting with a fixed name (all but profiles and devices)."""
    hints = typing.get_type_hints(SettingsFile, include_extras=True)
    keys = {}
    for section in SettingsFile.__struct_fields__:
        inner = plain_type(hints[section])
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            for key, hint in typing.get_type_hints(inner, include_extras=True).items():
                keys[f"{section}.{key}"] = hint
    return keys


def flatten(settings: Settings) -> dict[str, object]:
    """Every value that is set, by dotted key, in the file's order."""
    flat: dict[str, object] = {}

    def add(prefix: str, value: object) -> None:
        if isinstance(value, msgspec.Struct):
            value = msgspec.structs.asdict(value)
        if isinstance(value, dict):
            for key, inner in value.items():
                add(f"{prefix}.{key}", inner)
        elif value is not None:
            flat[prefix] = value

    for section in SettingsFile.__struct_fields__:
        add(section, getattr(settings, section))
    return flat


def plain_type(hint: Any) -> Any:
    """The type inside ``Annotated``."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def path_kind(hint: Any) -> str | None:
    """``path``, ``program`` or ``spec`` (see model.py) for a value that names a file."""
    for meta in typing.get_args(hint)[1:]:
        if isinstance(meta, msgspec.Meta) and meta.extra:
            return str(meta.extra["path"])
    return None


def _expand(value: str, env: Mapping[str, str]) -> Path:
    """``value`` with ``~`` and ``${NAME}`` expanded; LookupError says which is unknown."""

    def lookup(match: re.Match[str]) -> str:
        if match.group(1) not in env:
            raise LookupError(f"the variable {match.group(1)} is not set")
        return env[match.group(1)]

    path = Path(_VARIABLE.sub(lookup, value))
    if not value.startswith("~"):
        return path
    if value == "~" or value.startswith("~/"):
        home = env.get("HOME") or str(Path.home())
        return Path(home, *path.parts[1:])
    try:
        return path.expanduser()
    except RuntimeError:
        raise LookupError(f"there is no home folder for {path.parts[0]}") from None


def environment_name(dotted: str) -> str:
    return PREFIX + dotted.replace(".", "_").upper()


def _from_environment(env: Mapping[str, str], loader: _Loader) -> Iterator[tuple[str, object, str]]:
    known = {environment_name(dotted): dotted for dotted in scalar_keys()}
    known.update(SHORT_NAMES)
    seen: dict[str, str] = {}
    for name in sorted(env):
        value = env[name]
        if not name.startswith(PREFIX) or not value:
            continue
        if name in known:
            dotted = known[name]
            if dotted in seen and env[seen[dotted]] != value:
                loader.problems.append(
                    ConfigError(f"{seen[dotted]} and {name} both set {dotted}", fix="unset one of them")
                )
            seen[dotted] = name
            yield dotted, value, f"environment {name}"
        elif name not in OTHER_VARIABLES and not name.startswith(OTHER_PREFIXES):
            near = did_you_mean(name, [*known, *OTHER_VARIABLES])
            screen.warn(
                f"the environment variable {name} means nothing to buildtool"
                + (f"; did you mean {near}?" if near else "")
            )


def _from_flags(flags: Mapping[str, object]) -> Iterator[tuple[str, object, str]]:
    for dotted, value in flags.items():
        if value is not None:
            yield dotted, str(value) if isinstance(value, Path) else value, "flag"


def _from_outside(origin: str) -> bool:
    """Whether a flag or the environment gave the value, and not the file."""
    return origin.startswith(("environment ", "flag"))


class _Loader:
    """Gathers values, their origins and every problem on the way."""

    def __init__(self) -> None:
        self.origins: dict[str, str] = {}
        self.problems: list[ConfigError] = []
        self.document: reader.Document | None = None

    def check_table(self, struct: type[msgspec.Struct], data: Any, key: tuple[str, ...]) -> dict[str, Any]:
        """The valid values of one table of the file; problems and origins are noted."""
        if not isinstance(data, dict):
            self._bad_value(key, data, "a table")
            return {}
        hints = typing.get_type_hints(struct, include_extras=True)
        good: dict[str, Any] = {}
        for name, value in data.items():
            if name in hints:
                self._check_value(hints[name], value, (*key, name), good)
            else:
                kind = f"key in [{'.'.join(key)}]" if key else "table or key"
                self.problems.append(unknown(kind, name, hints, where=self._where((*key, name))))
        required = {f.name for f in msgspec.structs.fields(struct) if f.required}
        for name in sorted(required - data.keys()):
            self.problems.append(
                ConfigError(
                    f"[{'.'.join(key)}] has no {name!r}", where=self._where(key), fix=f"add: {name} = …"
                )
            )
        if struct is DeviceSettings and good.get("kind") == "ssh" and "host" not in data:
            self.problems.append(
                ConfigError(
                    f"the ssh device {key[-1]!r} has no host", where=self._where(key), fix='add: host = "…"'
                )
            )
        return good

    def _check_value(self, hint: Any, value: Any, key: tuple[str, ...], good: dict[str, Any]) -> None:
        inner = plain_type(hint)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            good[key[-1]] = self.check_table(inner, value, key)
            return
        if typing.get_origin(inner) is dict:
            good[key[-1]] = self._check_map(typing.get_args(inner)[1], value, key)
            return
        try:
            good[key[-1]] = msgspec.convert(value, hint)
        except msgspec.ValidationError as exc:
            self._bad_value(key, value, _expectation(hint, str(exc)))
            return
        self.origins[".".join(key)] = f"{self._where(key)} [{'.'.join(key[:-1])}] {key[-1]}"

    def _check_map(self, hint: Any, value: Any, key: tuple[str, ...]) -> dict[str, Any]:
        """A table whose keys the user chooses: profiles, devices, options."""
        if not isinstance(value, dict):
            self._bad_value(key, value, "a table")
            return {}
        good: dict[str, Any] = {}
        for name, inner in value.items():
            if _NAME.fullmatch(name):
                self._check_value(hint, inner, (*key, name), good)
            else:
                self.problems.append(
                    ConfigError(
                        f"{name!r} cannot be a name in [{'.'.join(key)}]",
                        where=self._where((*key, name)),
                        expected="letters, digits, '-' and '_', a letter or digit first",
                    )
                )
        return good

    def overlay(self, tree: dict[str, Any], dotted: str, value: object, origin: str) -> None:
        """Put a flag's or variable's value over the file's; texts are read as the key's type."""
        keys = scalar_keys()
        if dotted not in keys:
            raise ValueError(f"no such setting: {dotted}")
        section, _, key = dotted.partition(".")
        try:
            good = msgspec.convert(value, keys[dotted], strict=False)
        except msgspec.ValidationError as exc:
            self.problems.append(
                ConfigError(
                    f"{dotted} cannot be {value!r}",
                    where=origin,
                    expected=_expectation(keys[dotted], str(exc)),
                )
            )
            return
        tree.setdefault(section, {})[key] = good
        self.origins[dotted] = origin

    def drop_foreign_digest(self, tree: dict[str, Any]) -> None:
        """The file's sha256 is that of the file's source, not of one that a flag or variable names."""
        spec, digest = (self.origins.get(f"source.{key}", "") for key in ("spec", "sha256"))
        if _from_outside(spec) and digest and not _from_outside(digest):
            del tree["source"]["sha256"]
            del self.origins["source.sha256"]

    def make_absolute(self, tree: dict[str, Any], *, cwd: Path, env: Mapping[str, str]) -> None:
        """Expand ``~`` and ``${NAME}`` in every value that names a file, and make it absolute.

        A relative one is relative to the settings file's folder, or to ``cwd`` when a
        flag or the environment gave it or there is no file.
        """
        folder = self.document.path.parent if self.document else cwd
        tree.setdefault("build", {}).setdefault("dir", BuildSettings().dir)
        for dotted, hint in scalar_keys().items():
            section, _, key = dotted.partition(".")
            value = tree.get(section, {}).get(key)
            kind = path_kind(hint)
            if value is None or kind is None:
                continue
            if (kind == "program" and value and "/" not in value) or (
                kind == "spec" and _SPEC_SCHEME.match(value)
            ):
                continue
            origin = self.origins.get(dotted, "")
            if not value:
                self.problems.append(ConfigError(f"{dotted} is empty", where=origin, fix="remove the key"))
                continue
            base = cwd if _from_outside(origin) else folder
            try:
                tree[section][key] = os.path.normpath(base / _expand(value, env))
            except LookupError as exc:
                self.problems.append(ConfigError(f"{dotted}: {exc.args[0]}", where=origin, found=value))

    def _where(self, key: tuple[str, ...]) -> str:
        assert self.document
        return self.document.where(key)

    def _bad_value(self, key: tuple[str, ...], value: Any, expected: str) -> None:
        self.problems.append(
            ConfigError(f"{'.'.join(key)} cannot be {value!r}", where=self._where(key), expected=expected)
        )


_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def _expectation(hint: Any, message: str) -> str:
    """What a key takes, in the words of a TOML file, from its type and msgspec's reason."""
    inner = plain_type(hint)
    for part in (inner, *typing.get_args(inner)):
        if typing.get_origin(part) is typing.Literal:
            return f"one of {', '.join(typing.get_args(part))}"
    match = re.match(r"Expected `([^`]*)`(.*?)(?:, got `[^`]*`)?(?: - at `\$(.*)`)?$", message)
    if not match:
        return re.sub(r" - at `\$(.*)`$", "", message)
    names = [_WORDS.get(word.strip(), word.strip()) for word in match.group(1).split("|")]
    text = " or ".join(name for name in names if name != "null") + match.group(2)
    return f"{text} at {match.group(3)}" if match.group(3) else text
