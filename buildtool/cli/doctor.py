"""``buildtool doctor``: is this machine ready?"""

from __future__ import annotations

from typing import Annotated

import typer

from buildtool.cli.options import Json, SettingsFile
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import EXIT_FAILED, UsageError


def doctor(
    install: Annotated[
        bool,
        typer.Option(
            "--install", help="Install what is missing: Debian packages as root or by sudo, else privately."
        ),
    ] = False,
    no_root: Annotated[
        bool,
        typer.Option("--no-root", help="With --install: use the private route even where root is to be had."),
    ] = False,
    opencl: Annotated[
        bool,
        typer.Option("--opencl", help="With --install: also OpenCL (PoCL, a CPU's) for the emulated device."),
    ] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Check tools, toolchains, NDK, SDKs, devices' tools, disk and memory; say what fixes each.

    Ends with 1 when something is missing that every build or the emulated device needs.

    Example: buildtool doctor --install --opencl
    """
    from dataclasses import asdict

    from buildtool.doctor import examine
    from buildtool.settings import load

    loaded = load(settings)
    if opencl and not install:
        raise UsageError("--opencl says what to install", where="--opencl", fix="add --install")
    if install:
        from buildtool.debian import install as install_packages
        from buildtool.toolchains.cross import private_debian_root

        for line in install_packages(private_debian_root(), allow_root=not no_root):
            screen.info(line)
    if opencl:
        from buildtool.debian import install_opencl
        from buildtool.devices.opencl import arm64_root

        for line in install_opencl(arm64_root()):
            screen.info(line)
    findings = examine(loaded)
    blocking = [f for f in findings if f.required and f.status != "ok"]
    if as_json:
        print_json({"ok": not blocking, "findings": [asdict(f) for f in findings]})
    else:
        print_table(
            None,
            ("check", "status", "found", "needed for", "fix"),
            [(f.name, f.status, f.found, f.needed_for, f.fix) for f in findings],
        )
    if blocking:
        names = ", ".join(f.name for f in blocking)
        screen.error([f"error: not ready: {names}", "  fix:      buildtool doctor --install"])
        raise typer.Exit(EXIT_FAILED)
