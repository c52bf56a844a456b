"""``buildtool run``: what it takes, prints and exits with; and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from buildtool.artifacts import collect
from buildtool.cli.main import main
from buildtool.devices import choosing
from buildtool.models import npz
from buildtool.verify.rtvm_checks import SmokeModel
from tests.standins.binaries import build_result, host_toolchain
from tests.standins.relay_model import build_relay, local_device, relay_model


@dataclass(frozen=True)
class Place:
    folder: Path
    dist: Path
    model: SmokeModel
    expected: Path

    def words(self, *more: str) -> list[str]:
        return ["run", str(self.model.folder), "--input", str(self.model.inputs), *more]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A collected build with the relay-era stand-in, where builds are looked for, and a model."""
    folder = tmp_path_factory.mktemp("run")
    built = build_relay(folder / "relay")
    dist = folder / "build" / "dist" / "demo-x"
    program = built.artifacts[0].path
    collect(build_result(host_toolchain(), program.parent, program), dist)
    model = relay_model(built, folder / "model")
    npz.write(folder / "expected.npz", model.expected)
    return Place(folder, dist, model, folder / "expected.npz")


@pytest.fixture
def place(made: Place, private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(made.folder)
    return made


LOCAL = ("--device", "local")


def test_table_and_output_file(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    out = tmp_path / "out.npz"
    words = place.words(*LOCAL, "--expect", str(place.expected), "--rtol=0", "--atol=0", "--output", str(out))
    assert main(words) == 0
    assert npz.read(out) == place.model.expected
    shown = capsys.readouterr()
    heading, row = shown.out.splitlines()
    assert heading.split()[:2] == ["device", "result"] and "p95 ms" in heading
    assert row.split()[:4] == ["local", "PASS", "0", "0"]
    assert "asking rtvm for its usage" in shown.err and "timing 20 runs" in shown.err


def test_json(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(place.words(*LOCAL, "--repeat", "3", "--dist", str(place.dist), "--json")) == 0
    data = json.loads(capsys.readouterr().out)
    (row,) = data["results"]
    assert data["ok"] and (row["spec"], row["generation"], row["latency"]["runs"]) == ("local", "relay", 3)
    assert row["outputs"]["sum"] == {"dtype": "float32", "shape": [2, 3]}
    assert row["pushed_files"] == 5 and row["pushed_bytes"] > 0 and row["comparisons"] == []


def test_a_difference_exits_1_and_is_told(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    wrong = tmp_path / "wrong.npz"
    npz.write(wrong, {**place.model.expected, "sum": npz.floats([1e6] * 6, (2, 3))})
    assert main(place.words(*LOCAL, "--expect", str(wrong), "--repeat=0")) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1].split()[1] == "FAIL"
    assert "local: output sum differs: max abs" in shown.err and "scaled differs" not in shown.err


def test_two_devices_give_two_rows(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    # For a build of this machine both are this machine, with folders of their own.
    words = place.words("--device", "local", "--device", "qemu", "--repeat=2")
    assert main(words) == 0
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()[1:]] == ["local", "qemu"]
    assert "qemu: timing 2 runs" in shown.err


def test_all_devices(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def found(spec: str, **_: object) -> list[SimpleNamespace]:
        asked.append(spec)
        openers = {name: partial(local_device, tmp_path / name) for name in ("one", "two")}
        return [SimpleNamespace(name=name, open=opener) for name, opener in openers.items()]

    monkeypatch.setattr(choosing, "candidates", found)
    assert main(place.words("--device", "all", "--repeat=0", "--json")) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert asked == ["all"] and [row["spec"] for row in rows] == ["one", "two"]


def test_an_android_build_needs_a_phone(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bionic = SimpleNamespace(interpreter="/system/bin/linker64")
    monkeypatch.setattr("buildtool.artifacts.Artifact.elf", bionic)
    assert main(place.words()) == 2
    assert "this build is for Android" in capsys.readouterr().err


def test_a_device_that_fails_costs_its_row_only(
    place: Place, private_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(place.words(*LOCAL, "--repeat=0")) == 0
    (folder,) = private_cache.glob("devices/local-*/data/local/tmp/*")
    (folder / "models").rename(folder / "elsewhere")
    (folder / "models").write_text("in the way of the model")
    capsys.readouterr()
    assert main(place.words(*LOCAL, "--device", "qemu", "--repeat=0", "--json")) == 1
    data = json.loads(capsys.readouterr().out)
    assert [(row["spec"], row["ok"]) for row in data["results"]] == [("local", False), ("qemu", True)]
    assert not data["ok"] and data["results"][0]["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "local", "--device", "qemu", "--output", "o.npz"], "--output is for one device, not 2"),
        (
            ["--device", "local", "--device", "qemu", "--pre-compiled", "p"],
            "--pre-compiled is for one device",
        ),
        (["--device", "local,qemu", "--output", "o.npz"], "--output is for one device, not 2"),
        (["--device", "local", "--dim", "n"], "not NAME=SIZE: 'n'"),
        (["--device", "local", "--dim", "n=-1"], "not NAME=SIZE"),
        (["--device", "local", "--expect", "no.npz"], "no such .npz file"),
        (["--device", "local", "--profile", "other"], "nothing built"),
        (["--device", "local", "--repeat", "-1"], "--repeat"),
    ],
)
def test_bad_usage_exits_2(
    place: Place, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(place.words(*words)) == 2
    assert said in capsys.readouterr().err


def test_bad_models_and_inputs_exit_2(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nowhere", *LOCAL]) == 2
    assert "no such model" in capsys.readouterr().err
    assert main(["run", str(place.model.folder), "--input", "nowhere.npz", *LOCAL, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == "no such input file"


def test_without_numpy_nothing_is_run(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(place.words(*LOCAL, "--expect", str(place.expected))) == 2
    shown = capsys.readouterr().err
    assert "needs numpy" in shown and "pushing" not in shown
    assert main(place.words(*LOCAL, "--repeat=0")) == 0


@pytest.mark.parametrize("devices", [("local",), ("local", "qemu")])
def test_ctrl_c_ends_the_program_on_every_device(place: Place, devices: tuple[str, ...]) -> None:
    words = [part for name in devices for part in ("--device", name)]
    argv = [sys.executable, "-m", "buildtool", *place.words(*words, "--repeat=1000000000")]
    process = subprocess.Popen(argv, cwd=place.folder, env=os.environ, stderr=subprocess.DEVNULL)
    mark = str(place.model.folder.stem)
    try:
        deadline = time.monotonic() + 30
        while len(running := _timing(mark)) < len(devices):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert not [pid for pid in running if _alive(pid)]


def _timing(mark: str) -> list[int]:
    """rtvm programs of this test that are timing runs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if words[0].endswith("rtvm") and "--run-count=1000000000" in words and mark in words[1]:
            found.append(int(entry.parent.name))
    return found


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
