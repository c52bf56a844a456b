"""Building through the exported preset with plain cmake gives the same files as buildtool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from buildtool.build.tools import find_cmake, find_ninja
from buildtool.core.files import sha256_file
from tests.conftest import BuildtoolRunner
from tests.standins.minitvm import make_minitvm

pytestmark = pytest.mark.e2e


def test_preset_and_buildtool_make_equal_files(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    tree = make_minitvm(tmp_path / "tvm é", era="relax")
    words = ("--source", str(tree))
    done = run_buildtool("profile", "export-presets", "host-runtime", *words)
    assert done.returncode == 0, done.stderr
    name = done.stdout.strip()
    cmake, env = find_cmake(), {**os.environ, "PATH": f"{find_ninja().parent}:{os.environ['PATH']}"}
    for call in (["--preset", name], ["--build", "--preset", name]):
        subprocess.run([cmake, *call], cwd=tree, env=env, check=True, capture_output=True)
    folder = tmp_path / "build" / name
    assert (folder / "compile_commands.json").is_file()
    by_preset = {
        n: sha256_file(folder / n) for n in ("lib/libtvm_ffi.so", "lib/libtvm_runtime.so", "tvm_rpc")
    }
    shutil.rmtree(folder)
    assert run_buildtool("host-runtime", *words).returncode == 0
    assert {n: sha256_file(folder / n) for n in by_preset} == by_preset


def test_somebodys_own_presets_are_kept(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    tree = make_minitvm(tmp_path / "tvm", era="relay")
    own = tree / "CMakeUserPresets.json"
    own.write_text(json.dumps({"version": 3, "configurePresets": []}))
    done = run_buildtool("profile", "export-presets", "host-runtime", "--source", str(tree))
    assert done.returncode == 2
    assert "presets of somebody's own" in done.stderr
    assert json.loads(own.read_text()) == {"version": 3, "configurePresets": []}
    elsewhere = tmp_path / "presets.json"
    words = ("profile", "export-presets", "host-runtime", "--source", str(tree), "-o", str(elsewhere))
    assert run_buildtool(*words).returncode == 0
    assert run_buildtool(*words).returncode == 0  # its own file is replaced
    assert json.loads(elsewhere.read_text())["buildPresets"][0]["targets"]
