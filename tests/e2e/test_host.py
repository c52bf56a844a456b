"""``buildtool host``: the miniature's compiler built, imported, made a wheel; real wheels tried by RPC."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildtool.core.errors import BuildFailed
from buildtool.host import wheels
from tests.conftest import BuildtoolRunner
from tests.standins.llvm import installed
from tests.standins.minitvm import make_minitvm

if TYPE_CHECKING:
    from buildtool.api import Line

pytestmark = pytest.mark.e2e


@pytest.fixture
def llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The miniature takes LLVM's place and version from settings and uses nothing of it."""
    (tmp_path / "llvm").mkdir()
    monkeypatch.setenv("BUILDTOOL_TOOLCHAINS_LLVM_CONFIG", str(installed(tmp_path / "llvm", "16.0.6")))


@pytest.mark.parametrize("era", ["relay", "relax"])
def test_from_source_to_import(tmp_path: Path, run_buildtool: BuildtoolRunner, llvm: None, era: str) -> None:
    tree = make_minitvm(tmp_path / "a b" / "tvm", era=era)
    done = run_buildtool("host", "--source", str(tree), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert line["check"]["ok"], line["check"]
    options = {r["subject"] for r in line["check"]["results"] if r["id"] == "host-option"}
    assert {"USE_LLVM", "USE_OPENCL", "USE_RPC"} <= options
    script = "import tvm; print(tvm.__file__)"
    seen = run_buildtool("host", "exec", "--", "python", "-c", script)
    assert seen.stdout.strip() == str(tree / "python" / "tvm" / "__init__.py"), seen.stderr
    # The environment's own Python works outside of exec too, as --host-python needs it.
    venv = json.loads(run_buildtool("host", "env", "--json").stdout)["VIRTUAL_ENV"]
    plain = subprocess.run([f"{venv}/bin/python", "-c", script], capture_output=True, text=True, check=True)
    assert plain.stdout == seen.stdout
    assert run_buildtool("host", "exec", "--", "sh", "-c", "exit 7").returncode == 7
    assert run_buildtool("host", "exec", "--", "no-such-program").returncode == 2

    again = run_buildtool("host", "--source", str(tree))
    assert again.returncode == 0 and "install" not in again.stderr and "nothing to do" in again.stderr
    # A library that lost an option is found.
    other = run_buildtool("host", "--source", str(tree), "--set", "USE_OPENCL=OFF", "--json")
    assert other.returncode == 1, other.stderr
    failed = [r["id"] for r in json.loads(other.stdout)[0]["check"]["results"] if r["status"] == "FAIL"]
    assert failed == ["host-opencl"]


def test_without_a_host_build(run_buildtool: BuildtoolRunner) -> None:
    done = run_buildtool("host", "env")
    assert done.returncode == 2 and "no host compiler here yet" in done.stderr


def test_a_wheel_of_it(tmp_path: Path, run_buildtool: BuildtoolRunner, llvm: None) -> None:
    tree = make_minitvm(tmp_path / "tvm", era="relax")
    done = run_buildtool("wheel", "--source", str(tree), "-o", "wheels", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["imported"]["version"] == "0.25.dev0"
    assert made["imported"]["file"].startswith(str(tmp_path)) and "site-packages" in made["imported"]["file"]
    assert made["platform"] and made["needs"] == []
    assert sorted(p.name for p in Path(made["wheel"]).parent.iterdir()) == [Path(made["wheel"]).name]


def test_a_tree_without_a_wheel_backend(tmp_path: Path, run_buildtool: BuildtoolRunner, llvm: None) -> None:
    done = run_buildtool("wheel", "--source", str(make_minitvm(tmp_path / "tvm", era="relay")))
    assert done.returncode == 2 and "no scikit-build-core back-end" in done.stderr


@pytest.mark.tvm
def test_a_released_wheel_that_matches(
    aarch64_line: Line, tmp_path: Path, run_buildtool: BuildtoolRunner
) -> None:
    shutil.copytree(aarch64_line.artifacts.root, tmp_path / "build" / "dist" / "linux-aarch64-arm64-v8a")
    done = run_buildtool("host", "--from-wheel", "auto", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["wheel"] == "0.25.0" and made["report"]["counts"]["FAIL"] == 0
    assert {"rpc-kernel", "llvm-matmul"} <= {
        r["id"] for r in made["report"]["results"] if r["status"] == "PASS"
    }


def test_a_pair_of_wheels_that_does_not_match(tmp_path: Path) -> None:
    """pip's own choice of tvm-ffi for this release: the import fails, and nothing is called good."""
    words = r"apache-tvm 0\.25\.0 can't be imported: .*undefined symbol"
    with pytest.raises(BuildFailed, match=words) as caught:
        wheels.install(tmp_path / "venv", wheels.Release("0.25.0", "0.1.15.post2", ()))
    assert "0.25.0 for 0.25.dev0" in str(caught.value.expected)
