"""buildtool.lock: which commit or digest each source spec stood for when it was first fetched.

JSON, sorted, one entry a spec, so that it merges and diffs well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from buildtool.core import files
from buildtool.core.errors import BuildFailed, ConfigError

FORMAT = 1


class Locked(NamedTuple):
    """A pinned source: ``kind`` git, sdist, archive or path; ``id`` its commit or sha256."""

    kind: str
    id: str


def read(path: Path) -> dict[str, Locked]:
    """Spec to pin; empty when the file does not exist. Raises ConfigError when it is no lock file."""
    if not path.exists():
        return {}
    try:
        data: Any = files.read_json(path)
    except BuildFailed as exc:
        raise _bad(path, exc.what) from exc
    if not isinstance(data, dict) or data.get("version") != FORMAT:
        found = data.get("version") if isinstance(data, dict) else type(data).__name__
        raise _bad(path, f"expected version {FORMAT}, found {found!r}")
    sources = data.get("sources")
    if not isinstance(sources, dict):
        raise _bad(path, "no table 'sources'")
    for spec, pin in sources.items():
        if (
            not isinstance(pin, dict)
            or set(pin) != {"kind", "id"}
            or not all(isinstance(value, str) for value in pin.values())
        ):
            raise _bad(path, f"entry {spec!r} must have the texts 'kind' and 'id'")
    return {spec: Locked(**pin) for spec, pin in sources.items()}


def write(path: Path, pins: Mapping[str, Locked]) -> None:
    """Write the pins, whole or not at all; the same pins always give the same bytes."""
    sources = {spec: pin._asdict() for spec, pin in pins.items()}
    files.write_json(path, {"version": FORMAT, "sources": sources})


def _bad(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"not a lock file: {why}",
        where=str(path),
        fix="restore it from version control, or delete it and run: buildtool source fetch",
    )
