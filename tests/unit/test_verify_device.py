"""The checks that run programs on a device, on this machine as the device."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import CheckFailed
from buildtool.devices.base import Ran
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Outcome, Status, smoke, verify
from tests.standins.binaries import ADD, MAIN, artifact, artifact_set, compile_c, host_toolchain
from tests.standins.localdevice import LocalDevice

# Headers in the shape of each generation's, with the names that the kernels use; our own text.
DLPACK = """
#pragma once
#include <stdint.h>
enum { kDLCPU = 1, kDLFloat = 2 };
typedef struct { int device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void *data; DLDevice device; int32_t ndim; DLDataType dtype; int64_t *shape, *strides; uint64_t byte_offset;
} DLTensor;
"""
FFI = """
#pragma once
#include <dlpack/dlpack.h>
#define TVM_FFI_DLL_EXPORT __attribute__((visibility("default")))
enum { kTVMFFINone = 0, kTVMFFIDLTensorPtr = 7, kTVMFFITensor = 70 };
typedef struct { uint64_t counts; int32_t type_index, pad; void *deleter; } TVMFFIObject;
typedef struct {
  int32_t type_index; uint32_t pad; union { int64_t v_int64; void *v_ptr; TVMFFIObject *v_obj; };
} TVMFFIAny;
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
"""
RELAY = """
#pragma once
#include <dlpack/dlpack.h>
#define TVM_DLL __attribute__((visibility("default")))
enum { kTVMDLTensorHandle = 7, kTVMNDArrayHandle = 13 };
typedef union { int64_t v_int64; double v_float64; void *v_handle; } TVMValue;
void TVMAPISetLastError(const char *message);
"""


@pytest.fixture
def host() -> Toolchain:
    if platform.system() != "Linux":
        pytest.skip("runs ELF programs on this machine")
    return host_toolchain()


@pytest.fixture
def device(tmp_path: Path) -> LocalDevice:
    return LocalDevice(tmp_path / "device")


def outcome(identity: str, files: ArtifactSet, toolchain: Toolchain | None, device: Any) -> Outcome:
    (result,) = verify(files, toolchain, device, only=[identity]).results
    assert result.subject == device.name
    return result.outcome


def tree(folder: Path, *, ffi: bool) -> tuple[Path, str, str]:
    """A folder with the generation's headers; its library's name and that library's code."""
    dlpack = "3rdparty/tvm-ffi/3rdparty/dlpack/include" if ffi else "3rdparty/dlpack/include"
    header = "3rdparty/tvm-ffi/include/tvm/ffi/c_api.h" if ffi else "include/tvm/runtime/c_runtime_api.h"
    for name, text in ((f"{dlpack}/dlpack/dlpack.h", DLPACK), (header, FFI if ffi else RELAY)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    if ffi:
        code = "void TVMFFIErrorSetRaisedFromCStr(const char *k, const char *m) { (void)k; (void)m; }\n"
        return folder, "libtvm_ffi.so", code
    return folder, "libtvm_runtime.so", "void TVMAPISetLastError(const char *m) { (void)m; }\n"


def built(tmp_path: Path, toolchain: Toolchain, *, ffi: bool) -> ArtifactSet:
    root, library, code = tree(tmp_path / "tree", ffi=ffi)
    made = artifact(compile_c(tmp_path / "dist", library, code))
    return artifact_set(toolchain, made, tvm_ffi=ffi, source_dir=str(root))


def test_smoke_program_computes_what_the_host_computes(
    tmp_path: Path, host: Toolchain, device: LocalDevice
) -> None:
    seen = outcome("smoke-abi", built(tmp_path, host, ffi=True), host, device)
    assert seen.status is Status.PASS, seen
    assert seen.measured.startswith(seen.expected) and "page=" in seen.measured
    assert list(device.folder.iterdir()) == [], "what was sent for the check is removed"


def test_smoke_checksum_depends_on_the_seed() -> None:
    assert len({smoke.expected_checksum(seed) for seed in (0, 1, 2**32 - 1)}) == 3


@pytest.mark.parametrize(
    "ran",
    [
        Ran(("x",), 0, "checksum=0000000000000000 bits=64 endian=little page=4096\n", "", 0.1),
        Ran(("x",), 0, "", "", 0.1),
        Ran(("x",), 127, "", "CANNOT LINK EXECUTABLE: library libfoo.so not found", 0.1),
        Ran(("x",), -9, "", "", 60.0, timed_out=True),
    ],
)
def test_wrong_answer_of_the_smoke_program_fails(
    tmp_path: Path, host: Toolchain, device: LocalDevice, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    monkeypatch.setattr(device, "run", lambda *a, **k: ran)
    seen = outcome("smoke-abi", built(tmp_path, host, ffi=True), host, device)
    assert seen.status is Status.FAIL
    assert "time limit" in seen.measured if ran.timed_out else f"exit code {ran.returncode}" in seen.measured


@pytest.mark.parametrize("ffi", [True, False])
def test_kernel_called_without_python(
    tmp_path: Path, host: Toolchain, device: LocalDevice, ffi: bool
) -> None:
    seen = outcome("kernel-direct", built(tmp_path, host, ffi=ffi), host, device)
    assert seen.status is Status.PASS, seen
    assert seen.measured == "16 of 16 values equal to the last bit"


def test_kernel_is_linked_to_the_library_it_calls(tmp_path: Path, host: Toolchain) -> None:
    files = built(tmp_path, host, ffi=True)
    kernel = artifact(smoke.build_kernel(files, host, tmp_path))
    assert "libtvm_ffi.so" in kernel.elf.needed
    assert "__tvm_ffi_buildtool_saxpy" in kernel.elf.defined


def test_kernel_when_the_library_does_not_load(
    tmp_path: Path, host: Toolchain, device: LocalDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = built(tmp_path, host, ffi=True)
    monkeypatch.setattr(device, "push", lambda files: LocalDevice.push(device, _without_ffi(files)))
    seen = outcome("kernel-direct", files, host, device)
    assert seen.status is Status.FAIL and "libtvm_ffi.so" in seen.measured


def _without_ffi(files: dict[str, Path]) -> dict[str, Path]:
    return {name: path for name, path in files.items() if name != "libtvm_ffi.so"}


def test_tree_that_is_gone_is_a_skip(tmp_path: Path, host: Toolchain, device: LocalDevice) -> None:
    files = replace(built(tmp_path, host, ffi=True), source_dir=str(tmp_path / "gone"))
    seen = outcome("kernel-direct", files, host, device)
    assert seen.status is Status.SKIP and "no longer at" in seen.evidence and seen.fix


def test_static_build_has_nothing_to_link_a_kernel_to(
    tmp_path: Path, host: Toolchain, device: LocalDevice
) -> None:
    root, *_ = tree(tmp_path / "tree", ffi=True)
    program = artifact(compile_c(tmp_path / "dist", "tvm_rpc", MAIN))
    files = artifact_set(host, program, tvm_ffi=True, source_dir=str(root))
    seen = outcome("kernel-direct", files, host, device)
    assert seen.status is Status.SKIP and "static build" in seen.evidence


USAGE = '#include <stdio.h>\nint main(void) { puts("usage: --port=N --tracker=H:P"); return 0; }\n'


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (USAGE, Status.PASS),
        (MAIN, Status.FAIL),  # exit code 0 and no text proves nothing
        ('#include <stdio.h>\nint main(void) { puts("--port"); return 1; }\n', Status.FAIL),
    ],
)
def test_rpc_program_must_print_its_usage(
    tmp_path: Path, host: Toolchain, device: LocalDevice, code: str, status: Status
) -> None:
    files = artifact_set(host, artifact(compile_c(tmp_path / "dist", "tvm_rpc", code)))
    assert outcome("rpc-starts", files, host, device).status is status


def test_push_tells_what_was_sent_and_kept(tmp_path: Path, host: Toolchain, device: LocalDevice) -> None:
    files = artifact_set(host, artifact(compile_c(tmp_path / "dist", "liba.so", ADD)))
    first = outcome("push", files, host, device)
    again = outcome("push", files, host, device)
    assert first.measured.startswith("1 sent") and again.measured == "0 sent (0 B), 1 already there"


@pytest.mark.parametrize(("value", "there"), [("ON", True), ("/opt/sdk", True), ("OFF", False), ("0", False)])
def test_opencl_is_asked_for_only_when_built_with_it(
    tmp_path: Path, host: Toolchain, device: LocalDevice, value: str, there: bool
) -> None:
    library = artifact(compile_c(tmp_path / "dist", "liba.so", ADD))
    files = artifact_set(host, library, options={"USE_OPENCL": value})
    results = verify(files, host, device, only=["opencl-present"]).results
    assert [r.outcome.status for r in results] == ([Status.SKIP] if there else [])


def test_without_a_toolchain_the_compiled_checks_are_skipped(
    tmp_path: Path, host: Toolchain, device: LocalDevice
) -> None:
    files = built(tmp_path, host, ffi=True)
    for identity in ("smoke-abi", "kernel-direct"):
        seen = outcome(identity, files, None, device)
        assert seen.status is Status.SKIP and "toolchain" in seen.evidence


def test_device_that_goes_away_does_not_cost_the_report(
    tmp_path: Path,
    host: Toolchain,
    device: LocalDevice,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def gone(*args: object, **kwargs: object) -> Any:
        raise CheckFailed("the device is offline")

    for name in ("run", "remove"):
        monkeypatch.setattr(device, name, gone)
    seen = outcome("smoke-abi", built(tmp_path, host, ffi=True), host, device)
    assert seen.status is Status.FAIL and seen.measured == "the device is offline"
    assert "clean-up after verify: the device is offline" in capsys.readouterr().err
