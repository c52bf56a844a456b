"""``buildtool verify``: what it takes, prints and exits with."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from buildtool.artifacts import collect
from buildtool.cli.main import main
from tests.standins.binaries import ADD, MAIN, build_result, compile_c, host_toolchain


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collected build of this machine, in the place where builds are looked for."""
    monkeypatch.chdir(tmp_path)
    library = compile_c(tmp_path / "b", "libtvm_runtime.so", ADD, "-Wl,--build-id=sha1")
    folder = tmp_path / "build" / "dist" / "demo-x"
    collect(build_result(host_toolchain(), tmp_path / "b", library), folder)
    return folder


STATIC = ("--device", "none", "--only", "build-id", "--only", "elf-abi")


def test_json_of_a_good_folder(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(dist), *STATIC, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True and data["counts"] == {"PASS": 2, "FAIL": 0, "SKIP": 0}
    assert data["facts"]["profile"] == "demo" and data["facts"]["device"] == "none"


def test_the_last_build_is_found(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *STATIC]) == 0
    assert main(["verify", *STATIC, "--profile", "demo"]) == 0
    assert main(["verify", *STATIC, "--profile", "other"]) == 2
    assert "nothing built yet for the profile other" in capsys.readouterr().err


def test_a_failure_exits_1_and_is_in_junit(dist: Path, tmp_path: Path) -> None:
    # The stand-in library exports none of what a runtime must.
    junit = tmp_path / "out" / "junit.xml"
    assert main(["verify", str(dist), "--device", "none", "--only", "exports", "--junit", str(junit)]) == 1
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "1" and suite.find("testcase/failure") is not None


def test_nothing_observed_exits_1(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(dist), "--device", "none", "--only", "push"]) == 1
    shown = capsys.readouterr().out
    assert "no device was asked for" in shown and "nothing could be observed" in shown


def test_changed_file_is_refused(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (dist / "libtvm_runtime.so").open("ab") as stream:
        stream.write(b"x")
    assert main(["verify", str(dist), *STATIC]) == 1
    assert "libtvm_runtime.so is not the file that was built" in capsys.readouterr().err


def test_unknown_check_exits_2(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(dist), "--only", "buildid"]) == 2
    assert "did you mean 'build-id'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--host-python", "/no/python"], 2, "no such interpreter"),
        (["--model", "/no/model.so"], 1, "can't read the file: No such file"),
    ],
)
def test_named_files_must_be_there(
    dist: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert main(["verify", str(dist), *STATIC, *words]) == code
    assert said in capsys.readouterr().err


def test_list_needs_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", "--list"]) == 0
    shown = capsys.readouterr().out
    for word in ("elf-abi", "rpc-kernel", "tvm-python", "android-ident"):
        assert word in shown


def test_android_files_are_not_run_by_emulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program = compile_c(tmp_path / "b", "tvm_rpc", MAIN, "-Wl,--dynamic-linker=/system/bin/linker64")
    collect(build_result(host_toolchain(), tmp_path / "b", program), tmp_path / "dist")
    assert main(["verify", "dist", "--only", "rpc-starts"]) == 1
    assert "these files are for Android and no phone was named" in capsys.readouterr().out
    assert main(["verify", "dist", "--only", "rpc-starts", "--device", "qemu"]) == 2
    assert "tvm_rpc is for Android: the device qemu has no Android loader" in capsys.readouterr().err


@pytest.mark.usefixtures("private_cache")
def test_the_default_device_runs_what_it_can(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For this machine's own ABI the default device is this machine."""
    assert main(["verify", str(dist), "--only", "smoke-abi", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert (result["status"], result["subject"]) == ("PASS", "local")
