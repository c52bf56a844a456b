"""Are two builds of one thing equal to the byte, and if not, why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from buildtool.artifacts import ArtifactSet

_PATH = re.compile(rb"/[\x20-\x7e]{3,200}")
_MONTHS = b"Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TIME = re.compile(
    rb"\b(?:[012]?\d:[0-5]\d:[0-5]\d|(?:19|20)\d\d-[01]\d-[0-3]\d|(?:"
    + _MONTHS
    + rb") [ 0-3]\d (?:19|20)\d\d)\b"
)
_AROUND = 64


def differences(left: ArtifactSet, right: ArtifactSet) -> list[str]:
    """A line for each file that is not equal in both, with its section and the likeliest cause."""
    names = {a.name: a for a in left.artifacts}
    others = {a.name: a for a in right.artifacts}
    found = [f"{name}: only in one build" for name in sorted(names.keys() ^ others.keys())]
    for name in sorted(names.keys() & others.keys()):
        if names[name].sha256 != others[name].sha256:
            found.append(f"{name}: {explain(names[name].path, others[name].path)}")
    return found


def explain(left: Path, right: Path) -> str:
    """Where two files first differ: offset, ELF section, and a path or time in the bytes around it."""
    a, b = left.read_bytes(), right.read_bytes()
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    words = [f"{len(a)} and {len(b)} bytes, first different at offset {at}"]
    section = next((n for n, start, end in _sections(left) if start <= at < end), None)
    if section is not None:
        words.append(f"in section {section}")
    return ", ".join([*words, *_causes(a, b)])


def _causes(a: bytes, b: bytes) -> Iterator[str]:
    """Paths and times that only one of the two holds: a build's own bytes differ for a reason like these."""
    for what, pattern in (("a time", _TIME), ("a path", _PATH)):
        only = set(pattern.findall(a)) ^ set(pattern.findall(b))
        if only:
            shown = sorted(only, key=lambda text: (len(text), text))[0]
            yield f"{what} is built in: {shown.decode('ascii', 'replace')[:_AROUND]!r}"


def _sections(path: Path) -> list[tuple[str, int, int]]:
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            return [
                (s.name, s["sh_offset"], s["sh_offset"] + s["sh_size"])
                for s in ELFFile(stream).iter_sections()
                if s["sh_type"] != "SHT_NOBITS"
            ]
    except Exception:  # not an ELF file, or a damaged one: then there is no section to name
        return []
