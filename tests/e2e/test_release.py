"""Releases of real builds: packed twice, checked, killed in the middle, and used by an app."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildtool.build.tools import find_cmake, find_ninja
from buildtool.core.types import Abi
from buildtool.devices.qemu import QemuDevice, find_qemu
from tests.conftest import BuildtoolRunner
from tests.standins.minitvm import make_minitvm

if TYPE_CHECKING:
    from buildtool.api import Line

pytestmark = pytest.mark.e2e
APP = Path(__file__).parents[2] / "examples" / "cmake-app"
FORMATS = ("--format", "tar.gz", "--format", "tar.zst")


def digests(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("tvm-*")}


@pytest.mark.tvm
def test_an_app_built_from_the_archive_runs_on_the_device(
    aarch64_line: Line, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    dist = str(aarch64_line.artifacts.root)
    for folder in ("one", "two"):
        done = run_buildtool("package", "--dist", dist, "-o", folder, *FORMATS)
        assert done.returncode == 0, done.stderr
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    (packed,) = (tmp_path / "one").glob("*.tar.gz")
    checked = run_buildtool("package", "verify", str(packed))
    assert checked.returncode == 0 and checked.stdout.count("ok: ") == 5, checked.stderr

    # Where it is unpacked, nothing of the build is at hand.
    place = tmp_path / "an app's" / "libs"
    with tarfile.open(packed) as archive:
        archive.extractall(place, filter="data")
    (prefix,) = place.iterdir()
    build = tmp_path / "app"
    words = [str(find_cmake()), "-G", "Ninja", "-S", str(APP), "-B", str(build)]
    words += [f"-DCMAKE_MAKE_PROGRAM={find_ninja()}", f"-DCMAKE_PREFIX_PATH={prefix}"]
    words += ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    words += [f"-DCMAKE_CXX_COMPILER={aarch64_line.toolchain.cxx}"]
    subprocess.run(words, check=True, capture_output=True)
    subprocess.run([str(find_ninja()), "-C", str(build)], check=True, capture_output=True)
    device = QemuDevice(
        tmp_path / "device",
        abi=Abi.ARM64,
        sysroot=aarch64_line.toolchain.sysroot,
        qemu=find_qemu(Abi.ARM64),
    )
    device.push({"tvm_app": build / "tvm_app", **{p.name: p for p in (prefix / "lib").glob("*.so")}})
    ran = device.run(["./tvm_app"], env={"LD_LIBRARY_PATH": str(device.workdir)}, timeout=60)
    assert (ran.returncode, ran.stdout.split("\n")[0]) == (0, "sum 6"), ran
    assert "device_api.opencl yes" in ran.stdout

    # The wrong machine is refused by the package itself.
    native = [w for w in words if "SYSTEM" not in w and "COMPILER" not in w]
    native[native.index(str(build))] = str(tmp_path / "native")
    config = prefix / "lib/cmake/tvm_runtime/tvm_runtime-config.cmake"
    config.write_text(config.read_text().replace("EQUAL 8", "EQUAL 4"))
    refused = subprocess.run(native, check=False, capture_output=True, text=True)
    assert refused.returncode != 0 and "64-bit (arm64-v8a)" in refused.stderr


@pytest.fixture
def mini(tmp_path: Path, run_buildtool: BuildtoolRunner) -> Path:
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("no aarch64-linux-gnu-g++ (buildtool doctor --install)")
    tree = make_minitvm(tmp_path / "tvm", era="relay")
    (tree / "LICENSE").write_text("licence\n")
    done = run_buildtool("linux-aarch64", "--source", str(tree), "--cache", "none")
    assert done.returncode == 0, done.stderr
    return tree


def test_built_twice_in_different_ways(mini: Path, run_buildtool: BuildtoolRunner, tmp_path: Path) -> None:
    done = run_buildtool("package", "--check-reproducible")
    assert done.returncode == 0, done.stderr
    assert "reproducible: " in done.stderr
    (packed,) = (tmp_path / "release").glob("*.tar.gz")
    checked = run_buildtool("package", "verify", str(packed), "--rebuild", str(mini))
    assert "ok: 3 files equal in a rebuild from the record" in checked.stdout, checked.stderr
    # A time that the source builds in is found, and named.
    source = next((mini / "src/runtime").glob("*.cc"))
    planted = 'extern "C" __attribute__((visibility("default"))) const char* when() { return __TIME__; }\n'
    source.write_text(source.read_text() + planted)
    assert run_buildtool("linux-aarch64", "--source", str(mini), "--cache", "none").returncode == 0
    time.sleep(1)
    done = run_buildtool("package", "--check-reproducible", "-o", "other")
    assert done.returncode == 1, done.stderr
    assert "not reproducible" in done.stderr and "libtvm_runtime.so: " in done.stderr
    assert "a time is built in" in done.stderr
    assert not (tmp_path / "other").exists()


def test_killed_in_the_middle_and_made_again(
    mini: Path, run_buildtool: BuildtoolRunner, tmp_path: Path
) -> None:
    whole = ("--format", "zip", *FORMATS)
    assert run_buildtool("package", "-o", "undisturbed", *whole).returncode == 0
    words = [sys.executable, "-m", "buildtool", "package", "-o", "killed", *whole]
    folder = tmp_path / "killed"
    for _ in range(3):
        process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not list(folder.glob(".*.tmp")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # A file is whole or not there.
        done = digests(folder)
        assert done.items() <= digests(tmp_path / "undisturbed").items()
    assert run_buildtool("package", "-o", "killed", *whole).returncode == 0
    assert digests(folder) == digests(tmp_path / "undisturbed")
    assert not list(folder.glob("*.tmp")) and not list(folder.glob(".*.tmp"))
    sums = (folder / "SHA256SUMS").read_text()
    assert sums == (tmp_path / "undisturbed" / "SHA256SUMS").read_text()


def test_json_and_wrong_words(mini: Path, run_buildtool: BuildtoolRunner) -> None:
    done = run_buildtool("package", "--json")
    (path,) = json.loads(done.stdout)["archives"]
    assert Path(path).is_file()
    for words, message in (
        (("--format", "rar"), "unknown archive format"),
        (("--aar",), "is not built for Android"),
        (("--sign", "no-such-signer"), "no-such-signer"),
        (("--profile", "nothing"), "nothing built yet"),
    ):
        done = run_buildtool("package", "-o", "wrong", *words)
        assert done.returncode in (1, 2) and message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
