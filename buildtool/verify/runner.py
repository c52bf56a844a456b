"""Runs the checks and gathers the report."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from buildtool import __version__
from buildtool.artifacts import Artifact, ArtifactSet, read_elf
from buildtool.core.errors import BuildtoolError, UsageError, unknown
from buildtool.core.files import sha256_file
from buildtool.devices.base import Device
from buildtool.toolchains.model import Toolchain
from buildtool.verify import device_checks, opencl_checks, rpc_checks, rtvm_checks, static_android, static_elf
from buildtool.verify.bench import Bench
from buildtool.verify.check import Check, Context, failed, skipped
from buildtool.verify.closure import system_libraries, vendor_libraries
from buildtool.verify.model import DEVICE, TVM_PYTHON, CantObserve, Outcome, Report, Result

CHECKS: tuple[Check, ...] = (
    *static_elf.CHECKS,
    *static_android.CHECKS,
    *device_checks.CHECKS,
    *rtvm_checks.CHECKS,
    *rpc_checks.CHECKS,
    *opencl_checks.CHECKS,
)
"""Every check, in the order of the report. A new one goes into its module's list."""


def select(only: Sequence[str] = (), skip: Sequence[str] = ()) -> tuple[Check, ...]:
    """The checks with the ids in ``only`` (none: all) that are not in ``skip``.

    Raises ConfigError for an unknown id, with the nearest one, and UsageError
    when nothing is left.
    """
    known = {check.id for check in CHECKS}
    for word in (*only, *skip):
        if word not in known:
            raise unknown("check", word, known)
    chosen = tuple(c for c in CHECKS if (not only or c.id in only) and c.id not in skip)
    if not chosen:
        raise UsageError("no check is left to run", where=f"--only {' '.join(only)} --skip {' '.join(skip)}")
    return chosen


def verify(
    artifacts: ArtifactSet,
    toolchain: Toolchain | None,
    device: Device | None,
    *,
    host_python: Path | None = None,
    models: Sequence[Path] = (),
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    no_device: str = "no device was asked for (--device none)",
    no_toolchain: str = "the toolchain that built these files was not found",
    on_result: Callable[[Result], None] | None = None,
) -> Report:
    """Run the checks on ``artifacts`` and, when there is one, on ``device``.

    ``models`` are compiled model libraries, checked as files beside the shipped
    ones. ``host_python`` is an interpreter with tvm (None: this one). Checks
    whose needs are not met become SKIP with ``no_device``/``no_toolchain`` as
    the reason. Nothing started here outlives the call.
    """
    checks = select(only, skip)
    files = [*artifacts.artifacts, *(_model(path) for path in models)]
    bench = Bench(
        artifacts,
        toolchain,
        device,
        host_python=host_python,
        no_device=no_device,
        no_toolchain=no_toolchain,
    )
    system = system_libraries(toolchain, vendor_libraries(artifacts))
    results: list[Result] = []
    with bench:
        context = Context(artifacts, toolchain, system, bench)
        for check, subject, around in _questions(checks, context, files, device):
            result = _run(check, subject, around)
            results.append(result)
            if on_result is not None:
                on_result(result)
        facts = _facts(artifacts, toolchain, device, bench, checks)
    return Report(facts, tuple(results))


def _model(path: Path) -> Artifact:
    read_elf(path)  # first: it says clearly what is wrong with a missing file
    return Artifact(path.name, path, "model", path.stat().st_size, sha256_file(path))


def _questions(
    checks: Sequence[Check], context: Context, files: Sequence[Artifact], device: Device | None
) -> Iterator[tuple[Check, str, Context]]:
    """Each check with its subject and the context to run it in."""
    for check in checks:
        if check.each_file:
            for artifact in files:
                around = dataclasses.replace(context, artifact=artifact)
                if check.applies(around):
                    yield check, artifact.name, around
        elif check.applies(context):
            on_device = check.needs & {DEVICE, TVM_PYTHON}
            yield check, (device.name if device else "device") if on_device else "all files", context


def _run(check: Check, subject: str, context: Context) -> Result:
    begun = time.monotonic()
    outcome = _outcome(check, context)
    return Result(check.id, check.title, subject, outcome, time.monotonic() - begun)


def _outcome(check: Check, context: Context) -> Outcome:
    try:
        for need in sorted(check.needs):  # "device" before "tvm-python": the nearer reason first
            missing = context.bench.why_not(need)
            if missing is not None:
                return skipped(missing[0], fix=missing[1])
        return check.run(context)
    except CantObserve as exc:
        return skipped(exc.what, fix=exc.fix or "")
    except BuildtoolError as exc:
        evidence = "; ".join(part for part in (exc.where, exc.found, *exc.details) if part)
        return failed(exc.what, check.title, evidence=evidence, fix=exc.fix or "")
    except Exception as exc:  # a fault of the check itself must not lose the result
        return failed(f"{type(exc).__name__}: {exc}", check.title, evidence="the check itself broke")


def _facts(
    artifacts: ArtifactSet,
    toolchain: Toolchain | None,
    device: Device | None,
    bench: Bench,
    checks: Sequence[Check],
) -> dict[str, str]:
    facts = {
        "buildtool": __version__,
        "profile": artifacts.profile,
        "abi": artifacts.abi.value,
        "triple": artifacts.triple,
        "tvm": artifacts.version,
        "source": artifacts.pin,
        "toolchain": str(artifacts.toolchain.get("version", "")),
        "files": ", ".join(a.name for a in artifacts.artifacts),
        "device": "none",
    }
    if toolchain is not None and toolchain.version != facts["toolchain"]:
        facts["toolchain now"] = toolchain.version
    if device is not None:
        try:
            properties = device.properties()
            facts["device"] = f"{device.name} ({properties.system}, {properties.model})"
        except BuildtoolError as exc:
            facts["device"] = f"{device.name}: {exc.what}"
        if any(TVM_PYTHON in check.needs for check in checks):
            facts["host python"] = bench.describe_python()
    return facts
