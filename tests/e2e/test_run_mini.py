"""The miniature relay-era tree, cross-built; its rtvm verified and driven on the emulated device."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from buildtool.artifacts import load
from buildtool.models import npz
from buildtool.verify.rtvm_checks import make_model
from tests.conftest import BuildtoolRunner
from tests.standins.binaries import arm_toolchain
from tests.standins.minitvm import make_minitvm

pytestmark = pytest.mark.e2e


def need(*programs: str) -> None:
    missing = [p for p in programs if shutil.which(p) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (buildtool doctor --install)")


@pytest.fixture
def dist(tmp_path: Path, private_cache: Path, run_buildtool: BuildtoolRunner) -> Path:
    need("aarch64-linux-gnu-g++", "qemu-aarch64-static")
    tree = make_minitvm(tmp_path / "tvm", era="relay")
    done = run_buildtool("linux-aarch64", "--source", str(tree), "--toolchain", "gcc", "--json")
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)[0]["dist"])


def test_verify_and_run(dist: Path, tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    only = [word for name in ("starts", "meta", "model") for word in ("--only", f"rtvm-{name}")]
    done = run_buildtool("verify", str(dist), *only, "--json")
    report = json.loads(done.stdout)
    assert report["counts"] == {"PASS": 3, "FAIL": 0, "SKIP": 0}, done.stdout

    model = make_model(load(dist), arm_toolchain(), tmp_path / "model")
    npz.write(tmp_path / "expected.npz", model.expected)
    words = ["run", str(model.folder), "--input", str(model.inputs), "--rtol=0", "--atol=0"]
    done = run_buildtool(*words, "--expect", "expected.npz", "--output", "out.npz", "--repeat=5", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert (row["device"], row["generation"], row["latency"]["runs"]) == ("qemu", "relay", 5)
    assert [c["max_abs"] for c in row["comparisons"]] == [0, 0]
    assert npz.read(tmp_path / "out.npz") == model.expected

    # Sent already: the next run sends its input alone.
    done = run_buildtool(*words, "--repeat=0", "--json")
    assert json.loads(done.stdout)["results"][0]["pushed_files"] == 1


def test_a_model_for_this_machine_is_refused(
    dist: Path, tmp_path: Path, run_buildtool: BuildtoolRunner
) -> None:
    model = make_model(load(dist), arm_toolchain(), tmp_path / "model")
    shutil.copy("/bin/true", model.folder / "mod.so")
    done = run_buildtool("run", str(model.folder), "--input=zeros")
    assert done.returncode == 2
    assert "compiled for another machine" in done.stderr and "EM_AARCH64" in done.stderr
