"""CMake's file API: which files a target links into, and what it depends on.

https://cmake.org/cmake/help/latest/manual/cmake-file-api.7.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from buildtool.core.errors import BuildFailed
from buildtool.core.files import read_json

_SHIPPED_TYPES = {"SHARED_LIBRARY", "MODULE_LIBRARY", "EXECUTABLE"}


def write_query(build_dir: Path) -> None:
    """Ask the next configure for the target model."""
    query = build_dir / ".cmake" / "api" / "v1" / "query" / "codemodel-v2"
    query.parent.mkdir(parents=True, exist_ok=True)
    query.touch()


def _targets(build_dir: Path) -> dict[str, dict[str, Any]]:
    reply = build_dir / ".cmake" / "api" / "v1" / "reply"
    indexes = sorted(reply.glob("index-*.json"))
    if not indexes:
        raise BuildFailed("cmake wrote no target model", where=str(reply))
    index = read_json(indexes[-1])
    model = read_json(reply / index["reply"]["codemodel-v2"]["jsonFile"])
    found: dict[str, dict[str, Any]] = {}
    for entry in model["configurations"][0]["targets"]:
        found[entry["id"]] = read_json(reply / entry["jsonFile"])
    return found


def target_names(build_dir: Path) -> set[str]:
    """Every target that the configured build has."""
    return {str(t["name"]) for t in _targets(build_dir).values()}


def linked_files(build_dir: Path, targets: tuple[str, ...]) -> tuple[Path, ...]:
    """The shared libraries and programs of ``targets`` and all they depend on, dependencies first.

    Absolute paths; raises BuildFailed for a target that the build does not have.
    """
    table = _targets(build_dir)
    by_name = {str(t["name"]): key for key, t in table.items()}
    done: dict[str, None] = {}

    def visit(key: str, path: tuple[str, ...]) -> None:
        if key in done or key in path or key not in table:
            return
        for dependency in table[key].get("dependencies", []):
            visit(dependency["id"], (*path, key))
        done[key] = None

    for name in targets:
        if name not in by_name:
            raise BuildFailed(f"the configured build has no target {name}", where=str(build_dir))
        visit(by_name[name], ())
    files: list[Path] = []
    for key in done:
        target = table[key]
        if target["type"] in _SHIPPED_TYPES:
            # Several artifacts of one target are links to the first (lib.so, lib.so.1).
            files.extend(build_dir / a["path"] for a in target.get("artifacts", [])[:1])
    return tuple(files)
