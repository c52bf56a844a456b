"""``buildtool android`` as people type it, on the miniature tree through the NDK stand-in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buildtool.artifacts import read_elf
from tests.conftest import BuildtoolRunner
from tests.standins.clml import make_clml
from tests.standins.minitvm import make_minitvm
from tests.standins.ndk import make_ndk, missing

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


def test_several_abis_get_a_folder_each(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    tree, ndk = make_minitvm(tmp_path / "tvm", era="relay"), make_ndk(tmp_path / "ndk")
    words = ("android", "-s", str(tree), "--ndk", str(ndk), "--abi", "arm64-v8a", "--abi", "x86_64", "--json")
    done = run_buildtool(*words)
    assert done.returncode == 0, done.stderr
    arm, intel = json.loads(done.stdout)
    for line, machine in ((arm, "EM_AARCH64"), (intel, "EM_X86_64")):
        names = {a["name"] for a in line["artifacts"]}
        assert names == {"libc++_shared.so", "libtvm_runtime.so", "tvm_rpc", "rtvm"}
        for name in names:
            assert read_elf(Path(line["dist"]) / name).machine == machine
        effects = {e["option"]: e for e in line["effects"]}
        assert effects["USE_KALLOC_ALIGNMENT"]["evidence"] == "-DTVM_KALLOC_ALIGNMENT=32 on the compile lines"
        assert not [e for e in line["effects"] if e["status"] == "no-effect"]
    assert arm["build_dir"] != intel["build_dir"]


def test_another_ndk_in_the_same_folder_builds_clean(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    """onnxruntime#21538, #22882: another NDK than the one asked for went on being used."""
    tree = make_minitvm(tmp_path / "tvm", era="relax")
    old, new = make_ndk(tmp_path / "r25", "25.2.9519653"), make_ndk(tmp_path / "r26", "26.3.11579264")
    assert run_buildtool("android", "-s", str(tree), "--ndk", str(old)).returncode == 0
    done = run_buildtool("android", "-s", str(tree), "--ndk", str(new), "--json")
    assert done.returncode == 0, done.stderr
    assert "toolchain changed, building clean" in done.stderr
    assert "'25.2.9519653' -> '26.3.11579264'" in done.stderr
    (line,) = json.loads(done.stdout)
    assert line["toolchain"]["revision"] == "26.3.11579264"


def test_another_api_level_builds_clean(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    tree, ndk = make_minitvm(tmp_path / "tvm", era="relax"), make_ndk(tmp_path / "ndk")
    words = ("android", "-s", str(tree), "--ndk", str(ndk), "--platform")
    assert run_buildtool(*words, "28").returncode == 0
    done = run_buildtool(*words, "29")
    assert done.returncode == 0, done.stderr
    assert "toolchain.api_level: 28 -> 29" in done.stderr


def test_static_stl_ships_no_shared_one(tmp_path: Path, run_buildtool: BuildtoolRunner) -> None:
    tree, ndk = make_minitvm(tmp_path / "tvm", era="relax"), make_ndk(tmp_path / "ndk")
    done = run_buildtool("android", "-s", str(tree), "--ndk", str(ndk), "--stl", "c++_static", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert "libc++_shared.so" not in {a["name"] for a in line["artifacts"]}


@pytest.mark.parametrize("era", ["relay", "relax"])
def test_clml_from_one_flag(tmp_path: Path, run_buildtool: BuildtoolRunner, era: str) -> None:
    tree, ndk = make_minitvm(tmp_path / "tvm", era=era), make_ndk(tmp_path / "ndk")
    clml = make_clml(tmp_path / "a b é" / "clml", major=5)
    done = run_buildtool("android", "-s", str(tree), "--ndk", str(ndk), "--clml", str(clml), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert line["profile"] == "android-clml"
    options = {o["name"]: o["value"] for o in line["options"]}
    assert options["USE_CLML_GRAPH_EXECUTOR"] == str(clml)
    effects = {e["option"]: e for e in line["effects"]}
    assert "TVM_CLML_VERSION=5" in effects["USE_CLML"]["evidence"]
    if era == "relay":
        # The tree compiles these paths into the runtime.
        assert b"compiler clang++, OpenCLML clml" in (Path(line["dist"]) / "libtvm_runtime.so").read_bytes()
