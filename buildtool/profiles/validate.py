"""Check what a user asks for before anything is rendered."""

from __future__ import annotations

import re

from buildtool.core.errors import ConfigError
from buildtool.core.types import Option
from buildtool.profiles.known import GENERATIONS, OWNED, OWNED_PREFIXES, RENAMED, SWITCHES
from buildtool.sources.model import Catalogue, TvmSource

_TRUE = {"on", "true", "yes", "y"}
_FALSE = {"off", "false", "no", "n"}
_PLACEHOLDER = re.compile(r"(^|[\\/])path[\\/]to([\\/]|$)|^<[^<>]*>$|(^|[\\/])<[^<>]*>", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[\ud800-\udfff]")


def is_off(value: str) -> bool:
    """What CMake's if() takes for false."""
    text = value.upper()
    return text in ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND") or text.endswith("-NOTFOUND")


def reads(source: TvmSource, name: str) -> bool:
    """Whether a CMake file of the tree reads the option.

    A name that stands only in the stock config.cmake has no effect, but for TVM_FFI_*: those are
    read in tvm-ffi's own project, wherever in the tree that lies.
    """
    entry = source.catalogue.get(name)
    if entry is None:
        return False
    consumers = [
        file for file in entry.consumed_in if not file.endswith(("LibInfo.cmake", "cmake/config.cmake"))
    ]
    return bool(consumers) or entry.declared or name.startswith("TVM_FFI_")


def name_in(source: TvmSource, name: str) -> str | None:
    """The option's name in this tree: its own, its new one, or None when it has none."""
    new = RENAMED.get(name)
    if new is not None and reads(source, new):
        return new
    return name if reads(source, name) else None


def translated(name: str, actual: str, value: str) -> str:
    """The value of option ``name`` for its name in this tree.

    The renamed options are plain switches, without AUTO and COMPILE.
    """
    return "ON" if name != actual and value in ("AUTO", "COMPILE") else value


def normal(value: str | int | bool) -> str:
    """A typed value as CMake text: words for true and false become ON and OFF."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    text = str(value)
    if text.lower() in _TRUE:
        return "ON"
    return "OFF" if text.lower() in _FALSE else text


def check_name(name: str, source: TvmSource, where: str) -> ConfigError | None:
    """Why the user may not set this option in this tree, or None."""
    hint = OWNED.get(name) or next((h for p, h in OWNED_PREFIXES.items() if name.startswith(p)), None)
    if hint:
        return ConfigError(f"{name} cannot be set as an option: buildtool sets it", where=where, fix=hint)
    if name_in(source, name) is not None:
        return None
    exact = [known for known in (*source.catalogue.options, *GENERATIONS) if known.lower() == name.lower()]
    if name in GENERATIONS:
        first, last = GENERATIONS[name]
        return ConfigError(
            f"this TVM ({source.version}) has no option {name}",
            where=where,
            expected=f"TVM {first} to {last}",
            fix="remove the option, or build a TVM that has it",
        )
    if name in source.catalogue:
        return ConfigError(
            f"this TVM ({source.version}) names {name} in its config.cmake, but no CMake file reads it",
            where=where,
            fix="remove the option: it would have no effect",
        )
    if exact:
        return ConfigError(f"unknown TVM option {name!r}", where=where, fix=f"did you mean {exact[0]!r}?")
    known = Catalogue({n: o for n, o in source.catalogue.options.items() if reads(source, n)})
    return known.refuse(name, where=where)


def check_value(option: Option, source: TvmSource, *, cross: bool, where: str) -> ConfigError | None:
    """Why the user's value cannot be meant, or None."""
    name, value = option.name, option.value
    if _CONTROL.search(value):
        return ConfigError(
            f"the value of {name} holds a line break or a control character", where=where, found=repr(value)
        )
    if _PLACEHOLDER.search(value):
        return ConfigError(
            f"the value of {name} is a placeholder",
            where=where,
            found=value,
            fix="write the real path, or remove the option",
        )
    if name in SWITCHES and value not in ("ON", "OFF", "1", "0"):
        return ConfigError(f"{name} cannot be {value!r}", where=where, expected="ON or OFF")
    if name == "USE_KALLOC_ALIGNMENT":
        number = int(value) if re.fullmatch(r"[0-9]{1,9}", value) else 0
        if number < 1 or number & (number - 1):
            return ConfigError(
                f"{name} cannot be {value!r}", where=where, expected="a power of two, in bytes, such as 32"
            )
    if name == "USE_CPP_RTVM" and not is_off(value) and "rtvm" not in source.capabilities.targets:
        return ConfigError(
            f"this TVM ({source.version}) has no apps/cpp_rtvm: {name} cannot be on",
            where=where,
            fix="remove the option, or build a TVM that has it (v0.12 to v0.19)",
        )
    if name == "USE_LLVM" and cross and not is_off(value) and not (option.origin == "--set" and "/" in value):
        return ConfigError(
            "USE_LLVM is off in cross builds: the target cannot load this host's LLVM libraries",
            where=where,
            found=value,
            fix="remove it, or name the llvm-config of an LLVM for the target: --set USE_LLVM=/…/llvm-config",
        )
    return None
