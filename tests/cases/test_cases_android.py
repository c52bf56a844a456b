"""Public faults around the NDK and OpenCLML (numbered as in docs/android.md), seen from the command line.

C1-C4, C8 and C12 need a build: tests/e2e/test_ndk_build.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from buildtool.core.errors import ConfigError
from buildtool.core.types import Abi
from buildtool.toolchains.clml import read_clml
from buildtool.toolchains.ndk import ndk_toolchain, read_ndk
from tests.standins.clml import make_clml
from tests.standins.ndk import make_ndk, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

_NAMES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK", "ANDROID_HOME", "ANDROID_SDK_ROOT")


@pytest.fixture(scope="module")
def ndk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ndk(tmp_path_factory.mktemp("cases") / "ndk")


def _ndk_path(cwd: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in _NAMES}
    env |= {"BUILDTOOL_CACHE_DIR": str(cwd / "cache"), **variables}
    command = [sys.executable, "-m", "buildtool", "ndk", "path", *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_c13_a_good_ndk_is_printed_with_its_origin(tmp_path: Path, ndk: Path) -> None:
    done = _ndk_path(tmp_path, ANDROID_NDK_HOME=str(ndk))
    assert (done.returncode, done.stdout) == (0, f"{ndk}\n")
    assert "environment variable ANDROID_NDK_HOME" in done.stderr
    facts = json.loads(_ndk_path(tmp_path, "--ndk", str(ndk), "--json").stdout)
    assert facts["origin"] == "--ndk"
    assert facts["revision"] == "26.3.11579264"
    assert facts["api_levels"]["arm64-v8a"][-1] == 30


def test_c13_nothing_set(tmp_path: Path) -> None:
    done = _ndk_path(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no Android NDK is known" in done.stderr
    assert "ANDROID_NDK_HOME unset" in done.stderr


@pytest.mark.parametrize("variable", ["ANDROID_NDK_HOME", "ANDROID_NDK_ROOT", "ANDROID_NDK"])
@pytest.mark.parametrize("kind", ["empty folder", "SDK root", "other host"])
def test_c13_a_variable_that_points_elsewhere(tmp_path: Path, variable: str, kind: str) -> None:
    root = tmp_path / "x"
    root.mkdir()
    if kind == "SDK root":
        (root / "platform-tools").mkdir()
    if kind == "other host":
        (root / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 26.3.11579264\n")
        (root / "toolchains/llvm/prebuilt/windows-x86_64").mkdir(parents=True)
    done = _ndk_path(tmp_path, **{variable: str(root)})
    assert done.returncode == 2
    assert f"{root} (environment variable {variable})" in done.stderr
    what = {
        "empty folder": "the folder is empty",
        "SDK root": "it is an Android SDK",
        "other host": "the NDK is for another host",
    }
    assert what[kind] in done.stderr
    assert "Traceback" not in done.stderr


def test_c13_json_says_the_same(tmp_path: Path) -> None:
    done = _ndk_path(tmp_path, "--json", ANDROID_NDK_HOME=str(tmp_path / "gone"))
    error = json.loads(done.stdout)
    assert (done.returncode, error["exit_code"]) == (2, 2)
    assert "does not exist" in error["error"]


def test_c6_an_sdk_without_headers_never_reaches_cmake(tmp_path: Path) -> None:
    sdk = make_clml(tmp_path / "sdk")
    for header in (sdk / "CL").iterdir():
        header.unlink()
    with pytest.raises(ConfigError, match=r"CL/cl_qcom_ml_ops\.h is missing"):
        read_clml(sdk, Abi.ARM64)


def test_c7_libraries_in_the_other_folder_are_resolved_by_machine(tmp_path: Path) -> None:
    sdk = make_clml(tmp_path / "sdk", lib="arm64-v8a", lib64=None)
    assert read_clml(sdk, Abi.ARM64).lib_dir == sdk / "lib"
    with pytest.raises(ConfigError, match="not for armeabi-v7a") as caught:
        read_clml(sdk, Abi.ARM32)
    assert caught.value.found == "arm64-v8a"


def test_c14_another_ndk_or_level_is_another_toolchain(tmp_path: Path, ndk: Path) -> None:
    other = make_ndk(tmp_path / "other", "27.2.12479018")
    identities = [
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28).identity(),
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=29).identity(),
        ndk_toolchain(read_ndk(other), abi=Abi.ARM64, api_level=28).identity(),
    ]
    assert len({json.dumps(identity) for identity in identities}) == 3


def test_c15_the_shipped_libcxx_is_of_the_same_ndk(ndk: Path) -> None:
    toolchain = ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)
    assert [path.name for path in toolchain.runtime_libs] == ["libc++_shared.so"]
    assert all(path.is_relative_to(ndk) for path in toolchain.runtime_libs)
