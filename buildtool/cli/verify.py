"""``buildtool verify``: prove that the built files are right and run on a device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.built import for_android, open_built, toolchain_of
from buildtool.cli.options import BuiltProfile, Dist, SettingsFile
from buildtool.core.console import print_table, screen
from buildtool.core.errors import UsageError

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet
    from buildtool.devices.base import Device
    from buildtool.settings import Settings
    from buildtool.toolchains.model import Toolchain
    from buildtool.verify import Report, Result
    from buildtool.verify.check import Check


def verify(
    dist: Dist = None,
    profile: BuiltProfile = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="SPEC",
            help="qemu, local, none, adb, a serial, ssh:USER@HOST, a name, a label, all; several: A,B. "
            "Default: qemu, but none for Android builds: name a phone.",
        ),
    ] = None,
    host_python: Annotated[
        Path | None,
        typer.Option("--host-python", metavar="PY", help="Interpreter that has tvm. Default: this one."),
    ] = None,
    models: Annotated[
        list[Path] | None,
        typer.Option("--model", metavar="LIB", help="A compiled model library to check too; repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="Run only this check.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="ID", help="Leave this check out.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the checks and end.")] = False,
    settings: SettingsFile = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write the report as JUnit XML too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON on stdout.")] = False,
) -> int:
    """Prove that the built files are right and run on a device: checks, numbers, a report.

    Exit code 1 when a check failed or when nothing passed. A check that could
    not look is SKIP, with the reason.

    Several devices are verified side by side, with one report of all.

    Example: buildtool verify --profile linux-aarch64 --device qemu --junit report.xml
    """
    from buildtool.core.process import which
    from buildtool.verify import report as reports
    from buildtool.verify import select

    chosen = select(only or (), skip or ())
    if show_list:
        rows = [(c.id, c.title, ", ".join(sorted(c.needs))) for c in chosen]
        print_table(None, ("check", "title", "needs"), rows)
        return 0
    if host_python is not None and which(str(host_python)) is None:
        raise UsageError("no such interpreter", where=f"--host-python {host_python}")
    artifacts, loaded = open_built(dist, profile, settings)
    several = _several(device, artifacts, loaded)
    if several:
        report = _run_several(several, artifacts, settings, host_python, models or [], chosen)
    else:
        report = _run(artifacts, loaded, device, host_python, models or [], only or [], skip or [])
    if junit is not None:
        reports.write_junit(report, junit)
    if as_json:
        reports.show_json(report)
    else:
        reports.show(report)
    return 0 if report.ok else 1


def _run(
    artifacts: ArtifactSet,
    settings: Settings,
    device_spec: str | None,
    host_python: Path | None,
    models: list[Path],
    only: list[str],
    skip: list[str],
) -> Report:
    from buildtool.verify import verify as run_checks

    screen.step(f"verify {artifacts.profile} {artifacts.abi.value} in {artifacts.root}")
    toolchain, no_toolchain = toolchain_of(artifacts, settings)
    device, no_device = _device(device_spec, artifacts, settings, toolchain)
    try:
        return run_checks(
            artifacts,
            toolchain,
            device,
            host_python=host_python,
            models=models,
            only=only,
            skip=skip,
            no_device=no_device,
            no_toolchain=no_toolchain,
            on_result=_tell,
        )
    finally:
        if device is not None:
            device.close()


def _several(spec: str | None, artifacts: ArtifactSet, settings: Settings) -> dict[str, str]:
    """Devices by name, with the word that opens each, when ``spec`` names more than one."""
    if spec in (None, "none", "qemu", "local"):
        return {}
    from buildtool.devices.choosing import candidates

    toolchain, _ = toolchain_of(artifacts, settings)
    found = {c.name: c.spec for c in candidates(spec or "", settings=settings, toolchain=toolchain)}
    return found if len(found) > 1 else {}


def _run_several(
    devices: dict[str, str],
    artifacts: ArtifactSet,
    settings: Path | None,
    host_python: Path | None,
    models: list[Path],
    checks: Sequence[Check],
) -> Report:
    """The checks of the files here, those of the devices in a process for each device."""
    from buildtool import settings as settings_room
    from buildtool.verify import Report, parallel
    from buildtool.verify.model import DEVICE

    screen.step(f"verify {artifacts.profile} {artifacts.abi.value} on {', '.join(devices)}")
    words = ["verify", str(artifacts.root), "--json"]
    words += ["--settings", str(settings.absolute())] if settings else []
    words += ["--host-python", str(host_python)] if host_python else []
    words += [w for model in models for w in ("--model", str(model.absolute()))]
    words += [w for check in checks if DEVICE in check.needs for w in ("--only", check.id)]
    here = [check.id for check in checks if DEVICE not in check.needs]
    commands = {name: [*words, "--device", spec] for name, spec in devices.items() if "--only" in words}
    with parallel.started(commands) as children:
        loaded = settings_room.load(settings)
        static = _run(artifacts, loaded, "none", host_python, models, here, []) if here else Report({}, ())
        return parallel.merge(static, {name: child.report(name) for name, child in children.items()})


def _tell(result: Result) -> None:
    screen.trace(f"{result.outcome.status.value} {result.id} {result.subject}: {result.outcome.measured}")


def _device(
    spec: str | None, artifacts: ArtifactSet, settings: Settings, toolchain: Toolchain | None
) -> tuple[Device | None, str]:
    """The device, or None and why not. A named device that can't be reached is an error."""
    if spec == "none":
        return None, "no device was asked for (--device none)"
    bionic = for_android(artifacts)
    if bionic and spec is None:
        return None, "these files are for Android and no phone was named (--device adb:SERIAL)"
    if bionic and spec in ("qemu", "local"):
        raise UsageError(
            f"{bionic} is for Android: the device {spec} has no Android loader and C library",
            where=f"--device {spec}",
            fix="name a phone (--device adb:SERIAL), a device of kind qemu with an Android sysroot, "
            "or look at the files alone (--device none)",
        )
    from buildtool.devices import open_device

    return open_device(spec or "qemu", settings=settings, toolchain=toolchain), ""
