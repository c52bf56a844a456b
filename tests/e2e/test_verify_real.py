"""The real tree's build on the emulated device: every check, with measured values."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from buildtool.verify import Report, Status, opencl_checks, verify
from buildtool.verify.bench import Bench

if TYPE_CHECKING:
    from buildtool.api import Line
    from buildtool.devices.base import Device

pytestmark = [pytest.mark.e2e, pytest.mark.tvm]


@pytest.fixture
def qemu(aarch64_line: Line) -> Device:  # type: ignore[misc]
    from buildtool.devices import open_device

    device = open_device("qemu", settings=aarch64_line.settings, toolchain=aarch64_line.toolchain)
    yield device
    device.close()


def _by_id(report: Report) -> dict[str, list[Status]]:
    seen: dict[str, list[Status]] = {}
    for result in report.results:
        seen.setdefault(result.id, []).append(result.outcome.status)
    return seen


def test_everything_passes(aarch64_line: Line, qemu: Device, tvm_python: Path) -> None:
    report = verify(aarch64_line.artifacts, aarch64_line.toolchain, qemu, host_python=tvm_python)
    assert report.count(Status.FAIL) == 0, [r for r in report.results if r.outcome.status is Status.FAIL]
    skipped = {r.id for r in report.results if r.outcome.status is Status.SKIP}
    # The emulated device has OpenCL only where it was installed, and PoCL has no float16.
    assert skipped <= {check.id for check in opencl_checks.CHECKS}
    by_id = _by_id(report)
    for identity in ("rpc-starts", "smoke-abi", "kernel-direct", "rpc-copy", "rpc-kernel", "rpc-error"):
        assert by_id[identity] == [Status.PASS], identity
    kernel = next(r for r in report.results if r.id == "rpc-kernel")
    assert kernel.outcome.measured == "max error 0 over 100003 elements"


def test_without_tvm_the_rest_still_runs(aarch64_line: Line, qemu: Device, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\nexec python3 -S -E "$@"\n')
    bare.chmod(0o755)
    report = verify(
        aarch64_line.artifacts,
        aarch64_line.toolchain,
        qemu,
        host_python=bare,
        only=["smoke-abi", "kernel-direct", "rpc-copy", "rpc-kernel"],
    )
    assert _by_id(report) == {
        "smoke-abi": [Status.PASS],
        "kernel-direct": [Status.PASS],
        "rpc-copy": [Status.SKIP],
        "rpc-kernel": [Status.SKIP],
    }
    fixes = {r.outcome.fix for r in report.results if r.outcome.status is Status.SKIP}
    assert fixes == {"pip install 'buildtool[host]'"}


def test_kernel_that_crashes_costs_its_own_result_only(
    aarch64_line: Line, qemu: Device, tvm_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server forks a process for each session: a crash there must not end the others."""
    from buildtool.verify import smoke

    native = tmp_path / "smoke"
    native.mkdir()
    for source in (smoke.data_dir("native") / "smoke").iterdir():
        crash = "  if (num_args == 3) __builtin_trap();\n  saxpy(tensors);\n"
        (native / source.name).write_text(source.read_text().replace("  saxpy(tensors);\n", crash))
    monkeypatch.setattr(smoke, "data_dir", lambda name: tmp_path)
    report = verify(
        aarch64_line.artifacts,
        aarch64_line.toolchain,
        qemu,
        host_python=tvm_python,
        only=["rpc-copy", "rpc-kernel", "rpc-error", "llvm-add"],
    )
    by_id = _by_id(report)
    assert by_id["rpc-kernel"] == [Status.FAIL]
    crashed = next(r for r in report.results if r.id == "rpc-kernel").outcome
    assert "compiling" not in crashed.measured and "server:" in crashed.evidence, crashed
    assert by_id["rpc-copy"] == by_id["rpc-error"] == [Status.PASS]
    assert by_id["llvm-add"] in ([Status.PASS], [Status.SKIP])


def test_missing_library_is_told_by_the_loader_and_by_the_files(aarch64_line: Line, qemu: Device) -> None:
    files = aarch64_line.artifacts
    less = replace(files, artifacts=tuple(a for a in files.artifacts if a.name != "libtvm_runtime.so"))
    qemu.remove(["libtvm_runtime.so"])
    report = verify(less, aarch64_line.toolchain, qemu, only=["needed", "symbols", "rpc-starts"])
    failed = {(r.id, r.subject) for r in report.results if r.outcome.status is Status.FAIL}
    assert {("needed", "tvm_rpc"), ("symbols", "tvm_rpc"), ("rpc-starts", qemu.name)} <= failed
    loader = next(r for r in report.results if r.id == "rpc-starts")
    assert "libtvm_runtime.so" in loader.outcome.measured


def test_nothing_is_left_running(aarch64_line: Line, qemu: Device, tvm_python: Path) -> None:
    with Bench(aarch64_line.artifacts, aarch64_line.toolchain, qemu, host_python=tvm_python) as bench:
        session = bench.session()
        assert session["key"] in _command_lines()
    assert session["key"] not in _command_lines()


def _command_lines() -> str:
    text = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
            except OSError:
                continue
    return "\n".join(text)
