"""Models on emulated phones, through the real adb: several at once, pulled back, and left clean."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildtool.artifacts import ArtifactSet, collect
from buildtool.models import npz
from buildtool.verify.rtvm_checks import SmokeModel
from tests.conftest import BuildtoolRunner
from tests.standins.adbd import AdbServer, Phone, need_phones
from tests.standins.binaries import arm_toolchain, build_result
from tests.standins.relay_model import build_relay, relay_model

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ArtifactSet:
    return build_relay(tmp_path_factory.mktemp("relay"), arm_toolchain())


@pytest.fixture
def model(built: ArtifactSet, tmp_path: Path) -> SmokeModel:
    dist = tmp_path / "build" / "dist" / "demo"
    program = built.artifacts[0].path
    collect(build_result(arm_toolchain(), program.parent, program), dist)
    made = relay_model(built, tmp_path / "my model", arm_toolchain())
    npz.write(tmp_path / "expected.npz", made.expected)
    return made


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Phone]]:
    need_phones()
    with AdbServer(tmp_path) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        with Phone(tmp_path, "one") as one, Phone(tmp_path, "two") as two:
            server.connect(one)
            server.connect(two)
            yield [one, two]


def test_every_phone_gives_a_row(
    model: SmokeModel, phones: list[Phone], tmp_path: Path, run_buildtool: BuildtoolRunner
) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    words = ["run", str(model.folder), "--input", str(model.inputs), "--expect=expected.npz"]
    words += ["--rtol=0", "--atol=0", "--repeat=5", "--json"]
    done = run_buildtool(*words, "--device", "all")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert sorted(row["spec"] for row in rows) == sorted(phone.serial for phone in phones)
    for row in rows:
        assert row["ok"] and [c["max_abs"] for c in row["comparisons"]] == [0, 0]
        assert (row["generation"], row["latency"]["runs"], row["pushed_files"]) == ("relay", 5, 5)
    again = run_buildtool(*words, "--device", f"adb:{phones[0].serial}", "--output=out.npz")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["results"][0]["pushed_files"] == 1
    assert npz.read(tmp_path / "out.npz") == model.expected


def test_ctrl_c_ends_the_program_on_the_phone(model: SmokeModel, phones: list[Phone], tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "buildtool", "run", str(model.folder), "--repeat=1000000000"]
    process = subprocess.Popen([*argv, "--device", "all"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(running := _timing()) < len(phones):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in running):
        assert time.monotonic() < deadline, "a program is still running on a phone"
        time.sleep(0.1)


def _timing() -> list[str]:
    """The emulators that run rtvm's timing of this test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "--run-count=1000000000" in words and "qemu" in words[0]:
            found.append(entry.parent.name)
    return found
