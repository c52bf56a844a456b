"""The content cache of fetched trees: each entry whole, marked and locked while it is made.

An entry is ``sources/<kind>-<id>/`` with ``tree/`` and ``source.json`` (spec,
pin, number of files). The folder gets its name only when both are complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from buildtool.core import files, paths
from buildtool.core.errors import BuildFailed
from buildtool.sources.model import Pin

MARKER = "source.json"
_LOCK_SECONDS = 3600.0


def folder() -> Path:
    """Where fetched trees are kept."""
    return paths.cache_dir() / "sources"


def entry(pin: Pin, subdir: str = "") -> Path:
    """The entry's folder; a subdirectory of an archive is an entry of its own."""
    name = f"{pin.kind}-{pin.id[:24]}"
    return folder() / (f"{name}-{files.sha256_bytes(subdir.encode())[:8]}" if subdir else name)


def usable(place: Path, pin: Pin | None = None) -> Pin | None:
    """The pin of a finished, unaltered entry (that is ``pin``, if given), else None."""
    marker = _read(place)
    if marker is None:
        return None
    found = Pin(str(marker["pin"]["kind"]), str(marker["pin"]["id"]))
    if (pin is not None and found != pin) or count_files(place / "tree") != marker["files"]:
        return None
    return found


def by_spec(identity: str) -> tuple[Path, Pin] | None:
    """A finished entry fetched for this very spec."""
    for marker in sorted(folder().glob(f"*/{MARKER}")):
        data = _read(marker.parent)
        if data is not None and data["spec"] == identity and (pin := usable(marker.parent)):
            return marker.parent, pin
    return None


def _read(place: Path) -> dict[str, Any] | None:
    try:
        data: Any = files.read_json(place / MARKER)
        return data if {"spec", "pin", "files"} <= set(data) and {"kind", "id"} <= set(data["pin"]) else None
    except (OSError, BuildFailed, TypeError):
        return None


def mark(place: Path, *, spec: str, pin: Pin) -> None:
    """Write the marker of a complete ``place/tree``."""
    value = {"spec": spec, "pin": asdict(pin), "files": count_files(place / "tree")}
    files.write_json(place / MARKER, value)


def count_files(tree: Path) -> int:
    """Files and links below ``tree``, git's own bookkeeping left out (git changes it at will)."""
    total = 0
    for _, folders, names in os.walk(tree):
        if ".git" in folders:
            folders.remove(".git")
        total += len(names)
    return total


@contextlib.contextmanager
def making(place: Path) -> Iterator[None]:
    """Hold the entry's lock; a second process waits here until the first has made it."""
    with files.locked(
        folder() / "locks" / f"{place.name}.lock", what=f"source {place.name}", timeout=_LOCK_SECONDS
    ):
        files.sweep_temporaries(folder())
        yield
