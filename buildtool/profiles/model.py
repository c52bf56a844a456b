"""A profile once it is resolved against a tree."""

from __future__ import annotations

from dataclasses import dataclass

from buildtool.core.types import Abi, Option


@dataclass(frozen=True)
class Profile:
    """A named set of options, ready to configure.

    ``text`` is the config.cmake; ``options`` are what it sets, in file order;
    ``notes`` say what was left out or renamed for this tree, and why.
    """

    name: str
    toolchain: str
    """Which toolchain builds it: host, gcc, clang, zig, ndk or auto."""
    abi: Abi | None
    """The target ABI, None for the host's own."""
    targets: tuple[str, ...]
    options: tuple[Option, ...]
    notes: tuple[str, ...]
    text: str
    expected_defines: tuple[tuple[str, str], ...] = ()
    """(option name, ``NAME=VALUE``) pairs: macros that prove on compile lines that an option took effect."""

    def value(self, name: str) -> str | None:
        for option in self.options:
            if option.name == name:
                return option.value
        return None
