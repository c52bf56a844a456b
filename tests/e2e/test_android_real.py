"""``buildtool android --clml`` on TVM's real source through the NDK and OpenCLML stand-ins.

The stand-ins give glibc code and an OpenCL that has no platform: this shows that
the commands, flags, collecting and checks are right. It is no Android result.
"""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from buildtool.artifacts import read_elf
from buildtool.core.types import Abi
from buildtool.devices.qemu import QemuDevice, find_qemu
from buildtool.toolchains.cross import find_sysroot
from tests.conftest import BUILDS, DEMO_SETTINGS, BuildtoolRunner
from tests.standins import clml as clml_standin
from tests.standins import ndk as ndk_standin

APP = Path(__file__).parents[2] / "examples" / "cmake-app" / "main.cc"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.tvm,
    pytest.mark.skipif(ndk_standin.missing() is not None, reason=str(ndk_standin.missing())),
]


@pytest.fixture(scope="module")
def kits() -> tuple[Path, Path]:
    """NDK and OpenCLML stand-ins that stay where they are, so that a second run is incremental."""
    print(ndk_standin.LIMITS, clml_standin.LIMITS, sep="\n")
    ndk, clml = BUILDS / "kits" / "ndk", BUILDS / "kits" / "clml"
    if not ndk.exists():
        ndk_standin.make_ndk(ndk)
    if not clml.exists():
        clml_standin.make_clml(clml)
    return ndk, clml


@pytest.fixture(scope="module")
def built(kits: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ndk, clml = kits
    words = ("android", "--settings", str(DEMO_SETTINGS), "--build-dir", str(BUILDS / "android"))
    words += ("--ndk", str(ndk), "--clml", str(clml), "--json")
    done = BuildtoolRunner(tmp_path_factory.mktemp("cwd"))(*words, timeout=1800)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert isinstance(line, dict)
    return line


def test_everything_that_was_asked_for_is_in_the_build(built: dict[str, Any]) -> None:
    effects = {e["option"]: e for e in built["effects"]}
    assert built["profile"] == "android-clml"
    assert effects["USE_CLML_GRAPH_EXECUTOR"]["status"] == "proved"
    assert effects["USE_KALLOC_ALIGNMENT"]["evidence"] == "-DTVM_KALLOC_ALIGNMENT=32 on the compile lines"
    assert not [e for e in effects.values() if e["status"] == "no-effect"]
    assert {a["name"] for a in built["artifacts"]} >= {
        "libtvm_ffi.so",
        "libtvm_runtime.so",
        "tvm_rpc",
        "rtvm",
    }


def test_16_kb_pages_and_the_sdks_libraries(built: dict[str, Any]) -> None:
    dist = Path(built["dist"])
    for name in ("libtvm_ffi.so", "libtvm_runtime.so", "tvm_rpc", "rtvm"):
        facts = read_elf(dist / name)
        for segment in facts.segments:
            assert segment.align >= 16384
            assert (segment.offset - segment.vaddr) % 16384 == 0
    assert "libOpenCL.so" in read_elf(dist / "libtvm_runtime.so").needed


def test_a_second_run_does_nothing(built: dict[str, Any], kits: tuple[Path, Path], tmp_path: Path) -> None:
    ndk, clml = kits
    words = ("android", "--settings", str(DEMO_SETTINGS), "--build-dir", str(BUILDS / "android"))
    done = BuildtoolRunner(tmp_path)(*words, "--ndk", str(ndk), "--clml", str(clml), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    assert (line["configured"], line["steps"]) == (False, 0)


# What a glibc stand-in can't be. The checks must say so: a stand-in never passes for Android.
NOT_ANDROID = {"needed", "symbols", "relro", "android-linker", "android-ident"}
# clang before 18 or so leaves paths in __PRETTY_FUNCTION__; Debian's clang 14 does.
COMPILER = {"no-build-paths"}


def test_it_runs_on_the_emulated_device_and_is_not_taken_for_android(
    built: dict[str, Any], kits: tuple[Path, Path], tvm_python: Path, tmp_path: Path
) -> None:
    done = BuildtoolRunner(tmp_path)("verify", str(built["dist"]), "--device", "qemu", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    failed = {r["id"] for r in report["results"] if r["status"] == "FAIL"}
    assert {"android-linker", "android-ident"} <= failed <= NOT_ANDROID | COMPILER
    passed = {r["id"] for r in report["results"] if r["status"] == "PASS"}
    ran = {"rpc-starts", "smoke-abi", "kernel-direct", "rpc-copy", "rpc-kernel", "llvm-matmul", "rtvm-model"}
    assert ran <= passed
    assert {"elf-abi", "page-size", "runpath", "stripped", "android-ffi-linked"} <= passed


def test_an_app_built_from_the_aars_prefab_folder_runs(
    built: dict[str, Any], kits: tuple[Path, Path], run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    done = run_buildtool("package", "--dist", built["dist"], "--aar", "-o", "release")
    assert done.returncode == 0, done.stderr
    (packed,) = (tmp_path / "release").glob("*.aar")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "aar")
    manifest = (tmp_path / "aar" / "AndroidManifest.xml").read_text()
    assert 'android:name="libOpenCL_system.so" android:required="true"' in manifest
    modules = tmp_path / "aar" / "prefab" / "modules"
    folders = [modules / name / "libs" / "android.arm64-v8a" for name in ("tvm_runtime", "tvm_ffi")]
    app = tmp_path / "tvm_app"
    words = ["aarch64-linux-gnu-g++", "-std=c++17", f"-I{modules / 'tvm_runtime' / 'include'}", str(APP)]
    words += [*(f"-L{folder}" for folder in folders), "-Wl,--no-as-needed", "-ltvm_runtime", "-ltvm_ffi"]
    # The phone's own OpenCL is not in the AAR.
    words += ["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", str(app)]
    subprocess.run(words, check=True, capture_output=True)
    sysroot = find_sysroot("aarch64-linux-gnu")
    device = QemuDevice(tmp_path / "phone", abi=Abi.ARM64, sysroot=sysroot, qemu=find_qemu(Abi.ARM64))
    libraries = [p for f in (*folders, kits[1] / "lib64") for p in f.glob("*.so")]
    device.push({"tvm_app": app, **{p.name: p for p in libraries}})
    ran = device.run(["./tvm_app"], env={"LD_LIBRARY_PATH": str(device.workdir)}, timeout=60)
    assert (ran.returncode, ran.stdout.split("\n")[0]) == (0, "sum 6"), ran
