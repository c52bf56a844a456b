"""The relay-era rtvm's traps become errors; its outputs and times are read right."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import BuildtoolError, CheckFailed, UsageError
from buildtool.core.types import Abi
from buildtool.devices.qemu import QemuDevice
from buildtool.models import RunResult, npz, run_everywhere, run_model
from buildtool.models.graph import Call, Tensor, graph_json, params_bytes, read_param_names, read_signature
from buildtool.models.npz import Array
from buildtool.models.remote import Stopped
from buildtool.verify import Status, verify
from buildtool.verify.rtvm_checks import SmokeModel
from tests.standins.binaries import MAIN, artifact, artifact_set, compile_c, host_toolchain
from tests.standins.relay_model import build_relay, local_device, relay_model


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ArtifactSet:
    return build_relay(tmp_path_factory.mktemp("relay"))


@pytest.fixture
def model(built: ArtifactSet, tmp_path: Path) -> SmokeModel:
    return relay_model(built, tmp_path / "model")


@pytest.fixture
def device(tmp_path: Path) -> QemuDevice:
    return local_device(tmp_path / "device")


@pytest.fixture
def run(built: ArtifactSet, model: SmokeModel, device: QemuDevice) -> Any:
    def call(**changes: Any) -> RunResult:
        words = {"inputs": model.inputs, "timeout": 30.0, **changes}
        return run_model(device, built, words.pop("model", model.folder), **words)

    return call


def expected_file(model: SmokeModel, **changes: Array) -> Path:
    path = model.folder / "expected.npz"
    npz.write(path, {**model.expected, **changes})
    return path


def test_outputs_are_pulled_compared_and_timed(run: Any, model: SmokeModel) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    first = run(expect=expected_file(model), rtol=0, atol=0, repeat=7, warmup=1)
    assert first.ok and first.generation == "relay" and first.outputs == model.expected
    assert [(c.name, c.max_abs, c.elements) for c in first.comparisons] == [("sum", 0, 6), ("scaled", 0, 6)]
    assert len(first.latency.runs_ms) == 7
    assert first.latency.min_ms <= first.latency.median_ms <= first.latency.p95_ms
    assert first.pushed_files == 5  # rtvm, three of the model, the input
    again = run()
    assert again.pushed_files == 1 and again.latency is None and again.comparisons == ()


def test_a_difference_is_told_with_its_size(run: Any, model: SmokeModel) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    values = list(struct.unpack("<6f", model.expected["sum"].data))
    values[4] += 0.5
    seen = run(expect=expected_file(model, sum=npz.floats(values, (2, 3))), rtol=0, atol=0.1)
    assert not seen.ok
    assert {c.name: (c.ok, c.max_abs) for c in seen.comparisons} == {"sum": (False, 0.5), "scaled": (True, 0)}


def test_outputs_not_expected_are_named(run: Any, model: SmokeModel, tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    npz.write(tmp_path / "e.npz", {"sum": model.expected["sum"]})
    assert any("not compared" in note and "scaled" in note for note in run(expect=tmp_path / "e.npz").notes)


def test_nothing_of_a_run_stays_but_runtime_and_model(run: Any, device: QemuDevice) -> None:
    run()
    left = {p.name for p in Path(device.workdir).rglob("*") if p.is_file()}
    assert left == {"rtvm", "mod.so", "mod.json", "mod.params", ".buildtool-pushed.json"}


def test_fortran_order_and_compression_are_made_plain(run: Any, model: SmokeModel, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    loaded = numpy.load(model.inputs)
    numpy.savez_compressed(tmp_path / "f.npz", **{k: numpy.asfortranarray(loaded[k]) for k in loaded.files})
    assert run(inputs=tmp_path / "f.npz").outputs == model.expected


X, Y = npz.floats([1, 2, 3, 4, 5, 6], (2, 3)), npz.floats([0] * 6, (2, 3))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": X}, "input 'y'.*expected: float32.2, 3.*found: +no such array"),
        ({"x": X, "y": Y, "z": Y}, "no input 'z'"),
        ({"x": X, "y1": Y}, "no input 'y1'.*the model's inputs: x, y"),
        ({"x": X, "y": Array("int32", (2, 3), bytes(24))}, r"found: +int32\[2, 3\]"),
        ({"x": X, "y": Array("float32", (3, 2), bytes(24))}, r"found: +float32\[3, 2\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    run: Any, tmp_path: Path, arrays: dict[str, Array], said: str
) -> None:
    npz.write(tmp_path / "in.npz", arrays)
    with pytest.raises(UsageError, match=rf"(?s){said}"):
        run(inputs=tmp_path / "in.npz")


def test_random_and_zero_inputs(run: Any) -> None:
    assert run(inputs="zeros").outputs["sum"] == npz.floats([0.0] * 6, (2, 3))
    first, second = run(inputs="random"), run(inputs="random")
    assert first.outputs == second.outputs != run(inputs="zeros").outputs
    with pytest.raises(UsageError, match="random, zeros or a file"):
        run(inputs="ones")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("mod.params", b"", "not a parameter file"),
        ("mod.params", struct.pack("<QQQ", 1, 0, 0), "wrong magic"),
        ("mod.json", b"{", "not a graph"),
        ("mod.json", b"{}", "not a graph"),
        ("mod.json", None, "lacks mod.json"),
        ("mod.so", b"text", "not an ELF file"),
    ],
)
def test_damaged_models_are_refused_before_the_run(
    run: Any, model: SmokeModel, name: str, content: bytes | None, said: str
) -> None:
    if content is None:
        (model.folder / name).unlink()
    else:
        (model.folder / name).write_bytes(content)
    with pytest.raises(UsageError, match=rf"(?s){said}"):
        run()


def graph(model: SmokeModel, dtype: str) -> None:
    """Make the second output one of another type."""
    inputs = [Tensor(name, "float32", (2, 3)) for name in ("x", "y")]
    w = npz.floats([1] * 6, (2, 3))
    calls = [
        Call("sum", "buildtool_graph_add", ("x", "y"), "float32", (2, 3)),
        Call("half", "buildtool_graph_add", ("sum", "w"), dtype, (2, 3)),
    ]
    (model.folder / "mod.json").write_text(graph_json(inputs, {"w": w}, calls, ["sum", "half"]))


def test_outputs_it_cannot_write(run: Any, model: SmokeModel, tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    graph(model, "int32")
    # The kernel refuses int32: the program aborts, and that is told with its own words.
    with pytest.raises(
        CheckFailed, match=r"(?s)did not run \(ended by signal 6\).*buildtool_graph_add failed"
    ):
        run()
    npz.write(tmp_path / "e.npz", {"half": Array("int32", (2, 3), bytes(24))})
    with pytest.raises(UsageError, match="can't write output half: it is int32"):
        run(expect=tmp_path / "e.npz")


def test_outputs_of_one_name(run: Any, model: SmokeModel) -> None:
    path = model.folder / "mod.json"
    written = json.loads(path.read_text())
    written["heads"].append(written["heads"][0])
    path.write_text(json.dumps(written))
    seen = run()
    assert seen.outputs == model.expected
    assert seen.notes == ("rtvm writes only the first of the outputs called sum",)


REPLACED = (
    '#!/bin/sh\n[ "$1" = --help ] && echo "--model --device --input --output {flags}" && exit 0\n{body}\n'
)
TIMING = "--profile --run-count --dry-run"


def scripted(built: ArtifactSet, tmp_path: Path, body: str, flags: str = TIMING) -> ArtifactSet:
    """A build whose rtvm is a shell script."""
    path = tmp_path / "scripted" / "rtvm"
    path.parent.mkdir()
    path.write_text(REPLACED.format(body=body, flags=flags))
    path.chmod(0o755)
    return replace(built, artifacts=(replace(built.artifacts[0], path=path),))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 0", "wrote no outputs"),
        ("echo no >&2; exit 3", r"(?s)exit code 3.*no"),
        ("kill -ABRT $$", "ended by signal 6"),
        ("sleep 60", "did not finish within 1 s"),
    ],
)
def test_an_exit_code_of_0_proves_nothing(
    built: ArtifactSet, model: SmokeModel, device: QemuDevice, tmp_path: Path, body: str, said: str
) -> None:
    begun = time.monotonic()
    with pytest.raises(CheckFailed, match=said):
        run_model(device, scripted(built, tmp_path, body), model.folder, inputs=model.inputs, timeout=1.0)
    assert time.monotonic() - begun < 10


def test_lost_timings_and_programs_without_timing(
    built: ArtifactSet, model: SmokeModel, device: QemuDevice, tmp_path: Path
) -> None:
    real = built.artifacts[0].path
    body = f'case "$*" in *--profile*) echo "Exec Time:1.5";; *) exec {real} "$@";; esac'
    with pytest.raises(CheckFailed, match="told 1 run times, not 2"):
        run_model(device, scripted(built, tmp_path, body), model.folder, inputs=model.inputs, repeat=2)
    (tmp_path / "scripted").rename(tmp_path / "first")
    old = scripted(built, tmp_path, f'exec {real} "$@"', flags="")
    with pytest.raises(UsageError, match="can't time runs"):
        run_model(device, old, model.folder, inputs=model.inputs, repeat=2)
    assert run_model(device, old, model.folder, inputs=model.inputs).outputs == model.expected


def test_a_program_that_tells_no_usage(
    built: ArtifactSet, model: SmokeModel, device: QemuDevice, tmp_path: Path
) -> None:
    silent = artifact(compile_c(tmp_path / "silent", "rtvm", MAIN))
    with pytest.raises(CheckFailed, match="does not start on this device, or tells no usage"):
        run_model(device, replace(built, artifacts=(silent,)), model.folder)


def test_builds_without_rtvm_and_models_for_another_machine(
    built: ArtifactSet, model: SmokeModel, device: QemuDevice, run: Any, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="no rtvm"):
        run_model(device, replace(built, artifacts=()), model.folder)
    board = QemuDevice(tmp_path / "board", abi=Abi.RISCV64, sysroot=None, qemu=None)
    with pytest.raises(UsageError, match=r"(?s)can't run this build.*riscv64"):
        run_model(board, built, model.folder)
    with pytest.raises(UsageError, match="no such model"):
        run(model=tmp_path / "none")
    with pytest.raises(UsageError, match="needs a model folder"):
        run(model=model.folder / "mod.so")
    compile_c(model.folder, "mod.so", "int f(void) { return 0; }\n", cc="aarch64-linux-gnu-gcc")
    with pytest.raises(UsageError, match=r"(?s)another machine.*EM_AARCH64"):
        run()


def test_flags_of_the_other_generation_are_refused(run: Any) -> None:
    with pytest.raises(UsageError, match="no --dim"):
        run(dims={"n": 3})
    with pytest.raises(UsageError, match="no --function"):
        run(function="main")


def test_program_cache_that_was_not_written(run: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="wrote no pre-compiled programs"):
        run(pre_compiled=tmp_path / "programs.bin")
    assert not (tmp_path / "programs.bin").exists()


def pack(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_packages_as_tvmc_writes_them(run: Any, model: SmokeModel, tmp_path: Path) -> None:
    files = {f"./{n}": (model.folder / n).read_bytes() for n in ("mod.so", "mod.json", "mod.params")}
    escaping = {"../mod.so": b"", "/mod.json": b"", "metadata.json": b"{}"}
    package = pack(tmp_path / "model.tar", {**files, **escaping})
    assert run(model=package).outputs == model.expected
    assert run(model=package).pushed_files == 1
    assert not (tmp_path.parent / "mod.so").exists()
    with pytest.raises(UsageError, match=r"no mod\.so in this package"):
        run(model=pack(tmp_path / "other.tar", escaping))
    package.write_bytes(package.read_bytes()[:2000])
    with pytest.raises(UsageError, match=r"model\.tar"):
        run(model=package)


def test_signature_and_parameters_are_read_back(model: SmokeModel) -> None:
    signature = read_signature(model.folder)
    assert [str(t) for t in signature.inputs] == ["float32[2, 3]"] * 2
    assert [t.name for t in (*signature.inputs, *signature.outputs)] == ["x", "y", "sum", "scaled"]
    assert read_param_names(model.folder / "mod.params") == ("w",)
    assert json.loads((model.folder / "mod.json").read_text())["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    assert len(params_bytes({})) == 32


def test_devices_side_by_side(built: ArtifactSet, model: SmokeModel, tmp_path: Path) -> None:
    devices = {name: local_device(tmp_path / name) for name in ("a", "b", "broken")}
    Path(devices["broken"].workdir).mkdir(parents=True)
    (Path(devices["broken"].workdir) / "models").write_text("in the way")

    def one(label: str, device: Any, stop: threading.Event) -> RunResult:
        return run_model(device, built, model.folder, inputs=model.inputs, repeat=3, stop=stop)

    results = run_everywhere(devices, one)
    assert list(results) == ["a", "b", "broken"]
    for label in ("a", "b"):
        seen = results[label]
        assert isinstance(seen, RunResult) and seen.outputs == model.expected
    assert isinstance(results["broken"], BuildtoolError)


def test_stop_ends_the_program_on_the_device(
    built: ArtifactSet, model: SmokeModel, device: QemuDevice, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    slow, stop = scripted(built, tmp_path, f"echo $$ > {mark}; sleep 60"), threading.Event()

    def later() -> None:
        while not mark.exists():
            time.sleep(0.02)
        stop.set()

    threading.Thread(target=later, daemon=True).start()
    with pytest.raises(Stopped):
        run_model(device, slow, model.folder, inputs=model.inputs, stop=stop)
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()


# ---- the verifier ----

CHECKS = ("rtvm-starts", "rtvm-meta", "rtvm-model")


def statuses(files: ArtifactSet, device: QemuDevice | None, toolchain: Any = "host") -> list[Status]:
    tools = host_toolchain() if toolchain == "host" else toolchain
    return [r.outcome.status for r in verify(files, tools, device, only=CHECKS).results]


def test_verify_runs_the_smoke_model(built: ArtifactSet, device: QemuDevice) -> None:
    results = verify(built, host_toolchain(), device, only=CHECKS).results
    assert [r.outcome.status for r in results] == [Status.PASS] * 3, results
    assert results[2].outcome.measured == "sum, scaled equal to the last bit"
    left = {p.name for p in Path(device.workdir).rglob("*") if p.is_file()}
    assert left == {"rtvm", ".buildtool-pushed.json"}, "the smoke model is removed again"


def test_verify_sees_wrong_numbers_and_a_dead_program(
    built: ArtifactSet, device: QemuDevice, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.npz"
    npz.write(wrong, {name: npz.floats([0.5] * 6, (2, 3)) for name in ("sum", "scaled")})
    body = f'for w; do case $w in --output=*) cp {wrong} "${{w#--output=}}";; esac; done'
    lying = scripted(built, tmp_path, body)
    assert statuses(lying, device) == [Status.PASS, Status.FAIL, Status.FAIL]
    silent = artifact(compile_c(tmp_path / "silent", "rtvm", MAIN))
    assert statuses(replace(built, artifacts=(silent,)), device) == [Status.FAIL] * 3


def test_verify_skips_with_a_reason(built: ArtifactSet, device: QemuDevice, tmp_path: Path) -> None:
    library = artifact(compile_c(tmp_path / "other", "libx.so", "int x;\n"))
    without = verify(artifact_set(host_toolchain(), library), host_toolchain(), device, only=CHECKS)
    assert {(r.outcome.status, r.outcome.evidence) for r in without.results} == {
        (Status.SKIP, "the build has no rtvm")
    }
    assert statuses(built, device, None) == [Status.PASS, Status.SKIP, Status.SKIP]
    assert statuses(built, None) == [Status.SKIP] * 3
    gone = replace(built, source_dir=str(tmp_path / "gone"))
    assert statuses(gone, device) == [Status.PASS, Status.SKIP, Status.SKIP]
