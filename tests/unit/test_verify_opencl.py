"""The verifier's look at OpenCL, with OpenCL libraries that are right, wrong, and crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from buildtool.devices import opencl
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Outcome, Status, opencl_checks, verify
from buildtool.verify.model import CantObserve
from tests.standins.binaries import ADD, artifact, artifact_set, compile_c, host_toolchain
from tests.standins.localdevice import LocalDevice

SOURCE = (Path(__file__).parents[1] / "standins" / "opencl_library.c").read_text(encoding="utf-8")


@pytest.fixture
def host() -> Toolchain:
    return host_toolchain()


def look(tmp_path: Path, host: Toolchain, library: Path | None) -> Outcome:
    files = artifact_set(
        host, artifact(compile_c(tmp_path / "dist", "liba.so", ADD)), options={"USE_OPENCL": "ON"}
    )
    device = LocalDevice(tmp_path / "device", opencl=library)
    (result,) = verify(files, host, device, only=["opencl-device"]).results
    assert not (device.folder / "opencl_info").exists()
    return result.outcome


def built(tmp_path: Path, *flags: str) -> Path:
    return compile_c(tmp_path / "vendor", "libOpenCL.so", SOURCE, *flags)


def test_what_a_gpu_says(tmp_path: Path, host: Toolchain) -> None:
    seen = look(tmp_path, host, built(tmp_path))
    assert seen.status is Status.PASS
    # A line end inside a driver's text starts no line of ours.
    assert seen.measured == (
        "Adreno name=lie, OpenCL 3.0 stand-in, driver driver; images to 7x7; "
        "cl_khr_fp16 yes; cl_qcom_ml_ops yes"
    )


def test_a_cpu_is_called_one(tmp_path: Path, host: Toolchain) -> None:
    seen = look(tmp_path, host, built(tmp_path, "-DTYPE=2", "-DIMAGES=0", '-DEXTENSIONS=""'))
    assert seen.status is Status.PASS
    assert "no images; cl_khr_fp16 no; cl_qcom_ml_ops no; no GPU: says nothing of Adreno" in seen.measured


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-DPLATFORMS=0"], "exit code 4; the OpenCL library knows no platform"),
        (["-DDEVICES=0"], "exit code 4; the OpenCL platform has no device"),
        (["-DINFO_STATUS=-5"], "exit code 5; can't read platform"),
        (["-DNO_DEVICE_INFO"], "exit code 5; no clGetDeviceInfo in the OpenCL library"),
        (["-DCRASH"], "exit code -6"),
    ],
)
def test_a_library_that_does_not_work_fails(
    tmp_path: Path, host: Toolchain, flags: list[str], words: str
) -> None:
    seen = look(tmp_path, host, built(tmp_path, *flags))
    assert seen.status is Status.FAIL and words in seen.evidence


def test_other_answers_than_opencl_fail(tmp_path: Path, host: Toolchain) -> None:
    assert look(tmp_path, host, built(tmp_path, '-DVERSION="Vulkan 1.3"')).status is Status.FAIL


def test_a_file_that_is_no_library_fails(tmp_path: Path, host: Toolchain) -> None:
    library = tmp_path / "libOpenCL.so"
    library.write_text("not a library")
    seen = look(tmp_path, host, library)
    assert seen.status is Status.FAIL and "exit code 3" in seen.evidence


def test_a_device_without_opencl_is_not_observed(tmp_path: Path, host: Toolchain) -> None:
    seen = look(tmp_path, host, None)
    assert seen.status is Status.SKIP and "local has no OpenCL library" in seen.evidence


def test_what_a_kernel_needs() -> None:
    info = {"name": "gpu", "images": "0", "extensions": "cl_khr_fp16x"}
    for check, words in (
        (opencl_checks.OpenClTexture(), "no images"),
        (opencl_checks.OpenClFp16(), "no cl_khr_fp16"),
    ):
        with pytest.raises(CantObserve, match=words):
            check.require(info)
    opencl_checks.OpenClTexture().require({**info, "images": "1"})
    opencl_checks.OpenClFp16().require({**info, "extensions": "a cl_khr_fp16 b"})
    opencl_checks.OpenClKernel().require(info)


class _Context:
    """A context whose device answers as told."""

    def __init__(self, **told: Any) -> None:
        self.bench = self.device = self
        self.told = told
        self.opencl = "libOpenCL.so"

    def properties(self) -> _Context:
        return self

    def opencl_info(self, library: str) -> dict[str, str]:
        return {"name": "gpu ", "compute_units": "2", "max_work_group_size": "64", "images": "1"}

    def opencl_library(self, name: str, request: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
        return Path("k.so"), {"form": "default pipeline", "bytes": 10, "images": 0}


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"exist": True, "name": "gpu", "compute_units": 2, "max_work_group_size": 64}, Status.PASS),
        ({"exist": True, "name": "gpu", "compute_units": 3, "max_work_group_size": 64}, Status.FAIL),
        ({"exist": False}, Status.FAIL),
    ],
)
def test_tvm_must_see_the_same_device(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, Any], status: Status
) -> None:
    check = opencl_checks.RpcOpenClAttributes()
    monkeypatch.setattr(check, "ask", lambda context, **request: told, raising=False)
    assert check.run(_Context()).status is status  # type: ignore[arg-type]


@pytest.mark.parametrize(("equal", "status"), [(True, Status.PASS), (False, Status.FAIL)])
def test_a_kernel_with_wrong_numbers_fails(
    monkeypatch: pytest.MonkeyPatch, equal: bool, status: Status
) -> None:
    check = opencl_checks.OpenClKernel()
    told = {"equal": equal, "max_error": 0.5, "elements": 4}
    monkeypatch.setattr(check, "ask", lambda context, **request: told, raising=False)
    assert check.run(_Context()).status is status  # type: ignore[arg-type]


def test_the_linker_of_the_emulated_compiler_sees_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Absolute paths that an emulated program names are the root's, for a linker that runs here."""
    import subprocess

    from buildtool.core.types import Abi

    monkeypatch.setenv("BUILDTOOL_CACHE_DIR", str(tmp_path / "a b's cache"))
    root = opencl.arm64_root()
    library = root / "usr/lib/aarch64-linux-gnu/libOpenCL.so"
    library.parent.mkdir(parents=True)
    library.touch()
    linker = tmp_path / "ld"
    linker.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    linker.chmod(0o755)
    assert opencl.for_abi(Abi.X86_64, native=False) is None
    monkeypatch.setattr(opencl, "find_linker", lambda: None)
    assert opencl.for_abi(Abi.ARM64, native=False) is None
    monkeypatch.setattr(opencl, "find_linker", lambda: linker)
    found = opencl.for_abi(Abi.ARM64, native=False)
    assert found is not None and found.root == root and found.library == library
    wrapper = Path(found.env["PATH"].split(":")[0]) / "aarch64-unknown-linux-gnu-ld"
    words = ["-L/usr/lib", "/usr/lib/aarch64-linux-gnu/libOpenCL.so", "/no/such file", "-lgcc", ""]
    done = subprocess.run([wrapper, *words], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [
        f"--sysroot={root}", f"-L{root}/usr/lib", str(library), "/no/such file", "-lgcc", "",
    ]  # fmt: skip
