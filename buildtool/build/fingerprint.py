"""What a build folder was made from, and what a change of it costs.

``buildtool.json`` in the folder holds the inputs in two groups. ``anchor``
inputs (compiler, toolchain file, generator, source folder) can't change under
CMake's feet: another value means a clean folder. ``options`` inputs (the
config.cmake, build type, compiler cache) are taken in place by a new configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildtool.build.model import BuildPlan
from buildtool.core.errors import BuildFailed
from buildtool.core.files import digest_of, read_json, sha256_file, write_json

RECORD = "buildtool.json"
SCHEMA = 1


@dataclass(frozen=True)
class Fingerprint:
    anchor: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return digest_of({"anchor": dict(self.anchor), "options": dict(self.options)})


def of_plan(plan: BuildPlan, cmake_version: str) -> Fingerprint:
    """The fingerprint that the plan asks for."""
    toolchain_file = plan.toolchain.toolchain_file
    anchor = {
        "generator": "Ninja",
        "cmake": cmake_version,
        "source": str(plan.source.root),
        "toolchain": plan.toolchain.identity(),
        "toolchain_file": sha256_file(toolchain_file) if toolchain_file else None,
        "toolchain_args": [[o.name, o.value] for o in plan.toolchain.cmake_args],
    }
    options = {
        "config.cmake": plan.profile.text,
        "build_type": plan.build_type,
        "launcher": [plan.launcher.kind, str(plan.launcher.program or "")],
        "ninja": str(plan.ninja),
        # A checkout of another commit in the same folder is configured again;
        # edits in a working tree are Ninja's own business.
        "source": None if plan.source.pin.kind == "path" else plan.source.pin.id,
    }
    return Fingerprint(anchor, options)


def recorded(build_dir: Path) -> Fingerprint | None:
    """The folder's fingerprint; None when it has none or it can't be read (a killed first run)."""
    try:
        data = read_json(build_dir / RECORD)
        if data["schema"] != SCHEMA:
            return None
        return Fingerprint(data["anchor"], data["options"])
    except (OSError, BuildFailed, KeyError, TypeError):
        return None


def record(build_dir: Path, fingerprint: Fingerprint, facts: Mapping[str, Any]) -> None:
    """Write the folder's fingerprint, with ``facts`` for people (profile, environment names)."""
    write_json(
        build_dir / RECORD,
        {
            "schema": SCHEMA,
            "digest": fingerprint.digest,
            "anchor": dict(fingerprint.anchor),
            "options": dict(fingerprint.options),
            "facts": dict(facts),
        },
    )


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Which inputs differ, as ``toolchain.version: 'gcc 12' -> 'gcc 13'``; long values are cut."""
    rows: list[str] = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        name = f"{prefix}{key}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            rows.extend(differences(before, after, f"{name}."))
        elif isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
            rows.extend(f"{name}: {line}" for line in _changed_lines(before, after))
        else:
            rows.append(f"{name}: {_short(before)} -> {_short(after)}")
    return rows


def _changed_lines(before: str, after: str) -> list[str]:
    old = {line for line in before.splitlines() if line.startswith("set(")}
    new = {line for line in after.splitlines() if line.startswith("set(")}
    return [f"- {line}" for line in sorted(old - new)] + [f"+ {line}" for line in sorted(new - old)]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 90 else text[:87] + "..."
