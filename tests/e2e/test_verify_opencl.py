"""OpenCL on the emulated device: TVM's runtime, kernels compiled by TVM, PoCL as the driver."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildtool.core.types import Abi
from buildtool.devices import opencl
from buildtool.devices.qemu import QemuDevice, find_qemu
from buildtool.verify import Report, Status, opencl_checks, verify

if TYPE_CHECKING:
    from buildtool.api import Line

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]
IDS = [check.id for check in opencl_checks.CHECKS]


@pytest.fixture
def driver() -> opencl.EmulatedOpenCl:
    found = opencl.for_abi(Abi.ARM64, native=False)
    if found is None:
        pytest.skip("no OpenCL for the emulated device: buildtool doctor --install --opencl")
    return found


def check(line: Line, python: Path, driver: opencl.EmulatedOpenCl, folder: Path, only: list[str]) -> Report:
    device = QemuDevice(
        folder, abi=Abi.ARM64, sysroot=line.toolchain.sysroot, qemu=find_qemu(Abi.ARM64), opencl=driver
    )
    try:
        return verify(line.artifacts, line.toolchain, device, host_python=python, only=only)
    finally:
        device.close()


def test_kernels_on_buffers_and_textures(
    aarch64_line: Line, tvm_python: Path, driver: opencl.EmulatedOpenCl, tmp_path: Path
) -> None:
    report = check(aarch64_line, tvm_python, driver, tmp_path, IDS)
    seen = {r.id: r.outcome for r in report.results}
    assert {i: o.status for i, o in seen.items() if o.status is not Status.PASS} == {
        "opencl-fp16": Status.SKIP  # PoCL 3.1 has none
    }, seen
    assert "cl_khr_fp16" in seen["opencl-fp16"].evidence
    assert "no GPU: says nothing of Adreno" in seen["opencl-device"].measured
    assert seen["opencl-texture"].measured == "max error 0 over 4096 elements"
    assert "image2d" in seen["opencl-texture"].evidence


def test_a_driver_that_can_compile_nothing_fails(
    aarch64_line: Line, tvm_python: Path, driver: opencl.EmulatedOpenCl, tmp_path: Path
) -> None:
    """Without its linker PoCL ends the server's process: the check fails with the driver's words."""
    (tmp_path / "none").mkdir()
    env = {**driver.env, "PATH": str(tmp_path / "none"), "POCL_CACHE_DIR": str(tmp_path / "kernels")}
    broken = dataclasses.replace(driver, env=env)
    report = check(aarch64_line, tvm_python, broken, tmp_path / "device", ["opencl-kernel"])
    (result,) = report.results
    assert result.outcome.status is Status.FAIL
    assert "link" in result.outcome.evidence.lower(), result.outcome
