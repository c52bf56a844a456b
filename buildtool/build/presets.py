"""CMakePresets.json: the same builds for VS Code, CLion, Android Studio and plain cmake.

A preset uses the very folder, toolchain and cache variables that buildtool
uses: what buildtool has built there, it finds built.
https://cmake.org/cmake/help/latest/manual/cmake-presets.7.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from buildtool.build import fileapi
from buildtool.build.environment import build_environment
from buildtool.build.model import BuildPlan
from buildtool.build.runner import configure_command, tree_targets
from buildtool.core.errors import UsageError
from buildtool.core.files import atomic_write

VENDOR = "buildtool"
FILE_NAME = "CMakeUserPresets.json"
"""The user's own presets: a tree's CMakePresets.json is its authors'."""


def presets(plans: Iterable[BuildPlan]) -> dict[str, Any]:
    """The presets file (version 3, CMake 3.21) for these plans, as JSON-able data."""
    configure: list[dict[str, Any]] = []
    build: list[dict[str, Any]] = []
    for plan in plans:
        name = plan.build_dir.name
        words = [word[2:] for word in configure_command(plan) if word.startswith("-D")]
        variables = dict(word.split("=", 1) for word in words)
        toolchain = variables.pop("CMAKE_TOOLCHAIN_FILE", None)
        # PATH and HOME are the user's own; the rest makes this the build that buildtool makes.
        environment = {
            k: v for k, v in build_environment(plan.toolchain, env={}).items() if k not in ("PATH", "HOME")
        }
        entry: dict[str, Any] = {
            "name": name,
            "displayName": f"{plan.profile.name} {plan.toolchain.abi.value}",
            "description": f"TVM {plan.source.version}, {plan.toolchain.version}",
            "generator": "Ninja",
            "binaryDir": str(plan.build_dir),
            "cacheVariables": variables,
            "environment": environment,
        }
        if toolchain is not None:
            entry["toolchainFile"] = toolchain
        configure.append(entry)
        build.append(
            {"name": name, "configurePreset": name, "targets": list(tree_targets(plan)), "jobs": plan.jobs}
        )
    return {
        "version": 3,
        "cmakeMinimumRequired": {"major": 3, "minor": 21, "patch": 0},
        "configurePresets": configure,
        "buildPresets": build,
        "vendor": {VENDOR: {"generated": True}},
    }


def export(plans: list[BuildPlan], target: Path) -> None:
    """Write the presets to ``target``, and each plan's config.cmake into its build folder.

    TVM takes its options from that file, not from cache variables. Raises
    UsageError when ``target`` holds presets that buildtool did not write.
    """
    if target.exists() and not _ours(target):
        raise UsageError(
            "this file holds presets of somebody's own",
            where=str(target),
            fix="name another file with --output, or move yours away",
        )
    for plan in plans:
        config = plan.build_dir / "config.cmake"
        if not config.is_file() or config.read_text(encoding="utf-8") != plan.profile.text:
            atomic_write(config, plan.profile.text)
        fileapi.write_query(plan.build_dir)
    atomic_write(target, json.dumps(presets(plans), indent=2, ensure_ascii=False) + "\n")


def _ours(path: Path) -> bool:
    try:
        return VENDOR in json.loads(path.read_text(encoding="utf-8")).get("vendor", {})
    except (ValueError, AttributeError):
        return False
