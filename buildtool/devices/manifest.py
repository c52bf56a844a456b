"""What buildtool pushed to a device, kept on the device: one line a file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.files import sha256_file

NAME = ".buildtool-pushed"
_LINE = re.compile(r"([0-9a-f]{64}) ([0-7]{1,4}) (\d+) (\d+) (.+)")
_STAT = re.compile(r"(\d+) (\d+) ([0-7]+) \./(.+)")


@dataclass(frozen=True)
class Entry:
    """A pushed file: digest, permission bits, bytes, time of change in whole seconds."""

    sha256: str
    mode: int
    size: int
    mtime: int

    @staticmethod
    def of(path: Path) -> Entry:
        found = path.stat()
        return Entry(sha256_file(path), found.st_mode & 0o777, found.st_size, int(found.st_mtime))

    def on_device(self) -> tuple[int, int, int]:
        return self.size, self.mtime, self.mode

    def same_file(self, other: Entry | None) -> bool:
        """Equal content and mode; the time tells nothing between two places."""
        return other is not None and (self.sha256, self.mode) == (other.sha256, other.mode)


def parse(text: str) -> dict[str, Entry]:
    """The manifest's entries; lines of another form are passed over (a newer buildtool's)."""
    entries = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            sha256, mode, size, mtime, name = match.groups()
            entries[name] = Entry(sha256, int(mode, 8), int(size), int(mtime))
    return entries


def alive(entries: Mapping[str, Entry], asked: Iterable[str], stats: str) -> dict[str, Entry]:
    """The entries without those of ``asked`` files that are gone or were changed on the device.

    ``stats`` is the output of ``stat -c '%s %Y %a %n' ./NAME…`` for the files asked for.
    """
    seen = {}
    for line in stats.splitlines():
        if match := _STAT.fullmatch(line):
            size, mtime, mode, name = match.groups()
            seen[name] = (int(size), int(mtime), int(mode, 8) & 0o777)
    gone = {n for n in asked if n in entries and seen.get(n) != entries[n].on_device()}
    return {name: entry for name, entry in entries.items() if name not in gone}


def render(entries: Mapping[str, Entry]) -> str:
    lines = (f"{e.sha256} {e.mode:o} {e.size} {e.mtime} {name}\n" for name, e in sorted(entries.items()))
    return "".join(lines)


def write_script(entries: Mapping[str, Entry], folder: str) -> str:
    """Shell lines that write the manifest by a temporary in ``folder`` and a rename."""
    temporary = shlex.quote(f"{folder}/manifest")
    return f"printf '%s' {shlex.quote(render(entries))} >{temporary}\nmv -f {temporary} {NAME}"
