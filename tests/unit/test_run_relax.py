"""How buildtool's own rtvm is called and understood; the real one is in the end-to-end tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import CheckFailed, UsageError
from buildtool.devices.qemu import QemuDevice
from buildtool.models import RunResult, npz, run_model
from tests.standins.binaries import ADD, artifact, artifact_set, compile_c, host_toolchain
from tests.standins.relay_model import local_device

# A program with rtvm's flags that notes its words, and the files that it saw, in last.json.
PROGRAM = """#!/usr/bin/env -S python3 -S -E
import json, os, shutil, sys
words = sys.argv[1:]
if words == ["--help"]:
    sys.exit(print("--model=PATH --device --function=NAME --input --output --json --profile"))
flags = dict(word.partition("=")[::2] for word in words)
model = flags["--model"]
json.dump({"flags": flags, "files": sorted(os.listdir(model))}, open("last.json", "w"))
plan = json.load(open("plan.json"))
print("a warning of the runtime", file=sys.stderr)
if plan.get("error"):
    print("rtvm: error: " + plan["error"].format(input=flags["--input"]), file=sys.stderr)
    sys.exit(plan["code"])
if "--output" in flags and plan.get("write", True):
    shutil.copy("answer.npz", flags["--output"])
if "--pre-compiled" in flags and plan["cache"] != "reused":
    open(flags["--pre-compiled"], "w").write("programs")
report = {"first_run_ms": 3.5, "outputs": [{"name": name} for name in plan.get("told", ["y"])]}
if "--profile" in flags:
    report["profile"] = {"runs_ms": [1.0] * 18 + [2.0, 9.0]}
if "--pre-compiled" in flags:
    report["pre_compiled"] = {"state": plan["cache"]}
print(json.dumps(report) if plan.get("json", True) else "{ no json")
"""
Y = npz.floats([1.0, 2.0], (2,))


@pytest.fixture
def built(tmp_path: Path) -> ArtifactSet:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "rtvm").write_text(PROGRAM)
    (folder / "rtvm").chmod(0o755)
    return artifact_set(host_toolchain(), artifact(folder / "rtvm"), tvm_ffi=True)


@pytest.fixture
def device(tmp_path: Path) -> QemuDevice:
    made = local_device(tmp_path / "device")
    Path(made.workdir).mkdir(parents=True)
    npz.write(Path(made.workdir) / "answer.npz", {"y": Y})
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "my model ä"
    compile_c(folder, "mod.so", ADD)
    (folder / "model.json").write_text("{}")
    return folder


@pytest.fixture
def run(built: ArtifactSet, device: QemuDevice, model: Path) -> Any:
    def call(plan: dict[str, object] | None = None, **changes: Any) -> RunResult:
        (Path(device.workdir) / "plan.json").write_text(json.dumps(plan or {}))
        return run_model(device, built, changes.pop("model", model), **changes)

    return call


def last(device: QemuDevice) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((Path(device.workdir) / "last.json").read_text())
    return data


def test_words_and_answer(run: Any, device: QemuDevice) -> None:
    seen = run(repeat=20, warmup=2, backend="opencl", function="f", dims={"n": 3})
    assert seen.outputs == {"y": Y} and seen.generation == "relax" and seen.first_run_ms == 3.5
    assert (seen.latency.min_ms, seen.latency.median_ms, seen.latency.p95_ms) == (1.0, 1.0, 2.0)
    flags = last(device)["flags"]
    wanted = {"--device": "opencl", "--input": "random", "--profile": "20", "--warmup": "2"}
    wanted |= {"--function": "f", "--dim": "n=3", "--json": ""}
    assert wanted.items() <= flags.items()
    assert flags["--model"].startswith("models/my_model__-")
    run()
    assert "--profile" not in last(device)["flags"]


def test_input_file_is_sent_as_it_is_and_removed(run: Any, device: QemuDevice, tmp_path: Path) -> None:
    npz.write(tmp_path / "in.npz", {"x": Y})
    run(inputs=tmp_path / "in.npz")
    name = last(device)["flags"]["--input"]
    assert Path(name).name in last(device)["files"]
    assert not (Path(device.workdir) / name).exists()


def test_a_file_that_the_model_no_longer_has_is_removed_there(
    run: Any, device: QemuDevice, model: Path
) -> None:
    (model / "params.npz").write_bytes(b"old weights")
    run()
    assert last(device)["files"] == ["mod.so", "model.json", "params.npz"]
    (model / "params.npz").unlink()
    run()
    assert last(device)["files"] == ["mod.so", "model.json"]


def test_a_library_alone(run: Any, device: QemuDevice, model: Path) -> None:
    run(model=model / "mod.so")
    assert last(device)["files"] == ["mod.so"]


def test_its_refusals_are_told_in_the_names_of_this_side(run: Any, tmp_path: Path) -> None:
    npz.write(tmp_path / "in.npz", {"x": Y})
    plan = {"error": "input file {input}: unknown input 'x'", "code": 2}
    with pytest.raises(UsageError, match=rf"^error: input file {tmp_path}/in.npz: unknown input 'x'$"):
        run(plan, inputs=tmp_path / "in.npz")
    with pytest.raises(CheckFailed, match=r"(?s)the model did not run \(exit code 1\).*out of memory"):
        run({"error": "out of memory", "code": 1})


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"json": False}, "the model did not run"),
        ({"told": ["y", "z"]}, r"told of outputs \['y', 'z'\] and wrote \['y'\]"),
    ],
)
def test_an_answer_that_does_not_hold(run: Any, plan: dict[str, object], said: str) -> None:
    with pytest.raises(CheckFailed, match=said):
        run(plan)


def test_outputs_that_were_not_written(run: Any) -> None:
    with pytest.raises(CheckFailed, match="wrote no outputs"):
        run({"write": False})


@pytest.mark.parametrize(
    ("state", "before", "after"), [("created", None, "programs"), ("reused", "old", "old")]
)
def test_program_cache_comes_back(
    run: Any, device: QemuDevice, tmp_path: Path, state: str, before: str | None, after: str
) -> None:
    cache = tmp_path / "programs.bin"
    if before is not None:
        cache.write_text(before)
    assert run({"cache": state}, pre_compiled=cache).pre_compiled == state
    assert cache.read_text() == after
    assert not list(Path(device.workdir).rglob("programs-*"))
