"""Render a profile's template; the options that it sets are recorded on the way.

The templates say what a profile sets (``{{ set("USE_RPC", "ON") }}``) and why; the
recorder fits each wish to the tree: renamed, left out with a note, or replaced by
what the user asked for.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buildtool.core.errors import ConfigError
from buildtool.core.paths import data_dir
from buildtool.core.types import Option
from buildtool.profiles import validate
from buildtool.sources.model import TvmSource

if TYPE_CHECKING:
    import jinja2

_ESCAPE = re.compile(r'[\\"$@]')
_UNQUOTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def cmake_quote(value: str) -> str:
    """``value`` as a quoted CMake argument that CMake reads back exactly.

    Raises ConfigError for line breaks, other control characters (tab excepted) and
    what is no Unicode text: a config.cmake cannot or should not hold them.
    """
    if _UNQUOTABLE.search(value):
        raise ConfigError("a CMake value cannot hold a line break or a control character", found=repr(value))
    return '"' + _ESCAPE.sub(r"\\\g<0>", value) + '"'


def cmake_comment(text: str) -> str:
    """``text`` fit for the rest of a comment line."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff]+", " ", text)


class Recorder:
    """Fits wishes to a tree and remembers what was set, in order."""

    def __init__(self, source: TvmSource, profile: str, asked: Mapping[str, Option]) -> None:
        """``asked`` are the user's options by their name in this tree."""
        self.options: list[Option] = []
        self.notes: list[str] = []
        self._source = source
        self._origin = f"profile {profile}"
        self._asked = dict(asked)

    def set(self, name: str, value: str | int | bool | Path) -> str:
        """The line for one option of the profile, or the comment that says why there is none."""
        actual = validate.name_in(self._source, name)
        if actual in self._asked:
            option = self._asked.pop(actual)
        elif name == "USE_CPP_RTVM" and "rtvm" not in self._source.capabilities.targets:
            return self.leave_out(name, "this tree has no apps/cpp_rtvm")
        elif actual is None:
            return self.leave_out(name, "no CMake file of this tree reads it")
        else:
            text = str(value) if isinstance(value, Path) else validate.normal(value)
            option = Option(actual, validate.translated(name, actual, text), self._origin)
            if actual != name:
                self.notes.append(f"{name} is called {actual} in this tree")
        self.options.append(option)
        return self._line(option)

    def leave_out(self, name: str, reason: str) -> str:
        """A comment and a note instead of an option, unless the user asked for it."""
        actual = validate.name_in(self._source, name)
        if actual in self._asked:
            return self.set(name, "")
        note = f"{name} is left out: {reason}"
        self.notes.append(note)
        return f"# {cmake_comment(note)}"

    def remaining(self) -> str:
        """The lines of what the user asked for and the profile did not set, sorted by name."""
        rest = sorted(self._asked.values(), key=lambda option: option.name)
        self._asked.clear()
        self.options.extend(rest)
        return "\n".join(self._line(option) for option in rest)

    @staticmethod
    def _line(option: Option) -> str:
        return f"set({option.name} {cmake_quote(option.value)})  # {cmake_comment(option.origin)}"


def render(template: str, context: Mapping[str, object], recorder: Recorder) -> str:
    """The text of ``cmake_templates/<template>.cmake.j2``; what it sets is left in ``recorder``."""
    functions: dict[str, Callable[..., str]] = {
        "set": recorder.set,
        "leave_out": recorder.leave_out,
        "remaining": recorder.remaining,
    }
    text: str = environment().get_template(f"{template}.cmake.j2").render({**context, **functions})
    return text


@functools.cache
def environment() -> jinja2.Environment:
    """Strict Jinja for CMake text, over the shipped templates."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("cmake_templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - CMake, not HTML; cmake_quote is the escaping
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = {"cmake_quote": cmake_quote, "cmake_comment": cmake_comment}
    env.filters.update(filters)
    return env
