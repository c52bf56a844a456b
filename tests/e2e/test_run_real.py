"""Networks from TVM's compiler, run by the real tree's build on emulated devices, compared with numpy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from buildtool.core.errors import UsageError
from buildtool.core.types import Abi
from buildtool.devices.base import Device
from buildtool.devices.qemu import QemuDevice, find_qemu
from buildtool.models import RunResult, npz, run_everywhere, run_model
from buildtool.verify import Status, verify
from tests.conftest import BuildtoolRunner
from tests.standins.rtvm import make_net

if TYPE_CHECKING:
    from buildtool.api import Line

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]
OUTPUTS = {"conv": {"probability"}, "conv-params": {"probability"}, "dynamic": {"total", "pair.0", "pair.1"}}


@pytest.fixture
def phones(aarch64_line: Line, tmp_path: Path) -> Iterator[dict[str, Device]]:
    """Two emulated devices with folders of their own."""
    qemu, sysroot = find_qemu(Abi.ARM64), aarch64_line.toolchain.sysroot
    made: dict[str, Device] = {
        name: QemuDevice(tmp_path / name, abi=Abi.ARM64, sysroot=sysroot, qemu=qemu)
        for name in ("first", "second")
    }
    yield made
    for device in made.values():
        device.close()


def net(name: str, line: Line, python: Path, folder: Path) -> Path:
    return make_net(python, name, folder, "--target=aarch64", f"--linker={line.toolchain.cxx}")


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_networks_equal_numpy(
    aarch64_line: Line, phones: dict[str, Device], tvm_python: Path, tmp_path: Path, name: str
) -> None:
    model = net(name, aarch64_line, tvm_python, tmp_path / "net")

    def one(label: str, device: Device, stop: threading.Event) -> RunResult:
        return run_model(
            device,
            aarch64_line.artifacts,
            model,
            inputs=model / "in.npz",
            expect=model / "expected.npz",
            repeat=10,
            stop=stop,
        )

    results = run_everywhere(phones, one)
    for label, seen in results.items():
        assert isinstance(seen, RunResult), seen
        assert seen.ok and set(seen.outputs) == {c.name for c in seen.comparisons} == OUTPUTS[name]
        assert seen.generation == "relax" and len(seen.latency.runs_ms) == 10  # type: ignore[union-attr]
        assert seen.pushed_bytes > 5_000_000
        largest = max(c.max_abs or 0.0 for c in seen.comparisons)
        assert largest < 1e-5
        print(f"{name} on {label}: max error {largest:.3g}, median {seen.latency.median_ms} ms")  # type: ignore[union-attr]
    again = one("first", phones["first"], threading.Event())
    assert again.pushed_files == 1, "only the input is sent again"


def test_random_inputs_are_the_same_everywhere(
    aarch64_line: Line, phones: dict[str, Device], tvm_python: Path, tmp_path: Path
) -> None:
    model = net("dynamic", aarch64_line, tvm_python, tmp_path / "net")
    seen = [run_model(d, aarch64_line.artifacts, model, dims={"n": 3}) for d in phones.values()]
    assert seen[0].outputs == seen[1].outputs and seen[0].outputs["total"].shape == (3, 4)
    with pytest.raises(UsageError, match="n"):
        run_model(phones["first"], aarch64_line.artifacts, model)


def test_the_command(
    aarch64_line: Line, tvm_python: Path, tmp_path: Path, private_cache: Path, run_buildtool: BuildtoolRunner
) -> None:
    model = net("conv", aarch64_line, tvm_python, tmp_path / "net")
    words = ["run", str(model), "--dist", str(aarch64_line.artifacts.root), "--input", str(model / "in.npz")]
    done = run_buildtool(*words, "--expect", str(model / "expected.npz"), "--output=out.npz", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert row["ok"] and row["latency"]["runs"] == 20
    outputs = npz.read(tmp_path / "out.npz")

    wrong: dict[str, Any] = {"probability": npz.floats([0.5] * 10, (1, 10))}
    npz.write(tmp_path / "wrong.npz", wrong)
    done = run_buildtool(*words, "--expect=wrong.npz", "--repeat=0")
    assert done.returncode == 1 and "output probability differs" in done.stderr
    npz.write(tmp_path / "data.npz", outputs)
    done = run_buildtool(*words[:-1], "data.npz")
    assert done.returncode == 2 and "unknown input 'probability'" in done.stderr
    done = run_buildtool(*words, "--backend=opencl")
    assert done.returncode == 2 and "no such device here" in done.stderr


def test_verify_runs_rtvm(aarch64_line: Line, phones: dict[str, Device]) -> None:
    only = ["rtvm-starts", "rtvm-meta", "rtvm-model"]
    report = verify(aarch64_line.artifacts, aarch64_line.toolchain, phones["first"], only=only)
    assert [r.outcome.status for r in report.results] == [Status.PASS] * 3, report.results
    assert report.results[0].outcome.measured.startswith("rtvm ")
    left = {p.name for p in Path(phones["first"].workdir).rglob("mod.so")}
    assert not left, "the smoke model is removed again"
