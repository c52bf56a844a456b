"""``buildtool rpc serve``: tvm_rpc on devices until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from buildtool.cli.built import open_built, toolchain_of
from buildtool.cli.options import BuiltProfile, Dist, Json, SettingsFile
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import EXIT_FAILED, Terminated, UsageError

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet
    from buildtool.rpc.serving import Crew
    from buildtool.rpc.tracker import Tracker, TrackerAddress, TrackerLike

TrackerOption = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        metavar="HOST:PORT",
        help="Default: TVM_TRACKER_HOST and _PORT, else the running one of rpc tracker.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="The word that clients ask for; {device} in it becomes the device's name. "
        "Default: android, of several devices android-{device}.",
    ),
]


def serve(
    dist: Dist = None,
    profile: BuiltProfile = None,
    device: Annotated[
        str,
        typer.Option(
            "--device", metavar="SPEC", help="qemu, adb, SERIAL, ssh:USER@HOST, a name, a label, all; A,B."
        ),
    ] = "all",
    tracker: TrackerOption = None,
    key: KeyOption = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65000, help="First server's port, here and there. Default: free ones."
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="Variable of the servers; repeatable."),
    ] = None,
    clml_profiling: Annotated[bool, typer.Option("--clml-profiling", help="CLML_PROFILING=1")] = False,
    clml_tuning: Annotated[bool, typer.Option("--clml-tuning", help="CLML_IS_TUNING_RUN=1")] = False,
    clml_cache: Annotated[
        str | None,
        typer.Option("--clml-cache", metavar="FILE", help="CLML_TUNING_CACHE=FILE, on the device."),
    ] = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> int:
    """Run tvm_rpc on devices until Ctrl-C; prints keys and ports once they are up.

    Pushes the built files, opens the ports, and starts a server again that dies. Without a
    running tracker it starts one.

    Example: buildtool rpc serve --profile android --device all --key android-{device}
    """
    from buildtool.devices.choosing import candidates
    from buildtool.rpc import serving, state

    artifacts, loaded = open_built(dist, profile, settings)
    _check_servable(artifacts)
    folder = artifacts.root.absolute()
    # Only an emulated device needs the toolchain: without one, qemu takes what this machine has.
    found = candidates(device, settings=loaded, toolchain=toolchain_of(artifacts, loaded)[0])
    keys = _keys(key, [c.name for c in found])
    variables = [*(env or []), *_clml(clml_profiling, clml_tuning, clml_cache)]
    for word in variables:
        if not word.partition("=")[0].isidentifier() or "=" not in word:
            raise UsageError("not a variable", where=f"--env {word}", expected="NAME=VALUE")
    with contextlib.ExitStack() as stack:
        entry = stack.enter_context(state.StateFile(state.SERVE))
        address, own = _tracker_for(tracker, stack)
        entry.update(tracker=str(address), own_tracker=own is not None)
        words = ["rpc", "serve-one", str(folder), "--tracker", str(address), "--parent", str(os.getpid())]
        words += [w for v in variables for w in ("--env", v)]
        words += ["--settings", str(settings.absolute())] if settings else []
        commands = {
            c.name: [*words, "--device", c.spec, "--key", keys[c.name], *_one_port(port, number)]
            for number, c in enumerate(found)
        }
        crew = stack.enter_context(serving.Crew(commands))
        for _ in crew.settle():
            _tend(own)
        _tell_up(crew, as_json)
        entry.update(state="up")
        while len(crew.ended()) < len(commands):
            _tend(own)
            time.sleep(0.2)
    return max(crew.ended().values()) or EXIT_FAILED


def _check_servable(artifacts: ArtifactSet) -> None:
    if artifacts.find("tvm_rpc") is None:
        raise UsageError(
            "this build has no tvm_rpc to serve with",
            where=str(artifacts.root),
            fix="build with USE_CPP_RPC=ON",
        )


def _keys(wanted: str | None, names: list[str]) -> dict[str, str]:
    template = wanted or ("android" if len(names) == 1 else "android-{device}")
    return {name: template.replace("{device}", name) for name in names}


def _clml(profiling: bool, tuning: bool, cache: str | None) -> list[str]:
    words = ["CLML_PROFILING=1"] if profiling else []
    words += ["CLML_IS_TUNING_RUN=1"] if tuning else []
    return [*words, f"CLML_TUNING_CACHE={cache}"] if cache else words


def _one_port(first: int | None, number: int) -> list[str]:
    return ["--port", str(first + number)] if first else []


def _tracker_for(named: str | None, stack: contextlib.ExitStack) -> tuple[TrackerAddress, Tracker | None]:
    """The tracker that is meant, or one of our own for as long as we serve."""
    from buildtool.rpc.finding import find_tracker, listen_port
    from buildtool.rpc.ports import LOOPBACK
    from buildtool.rpc.tracker import Tracker, TrackerAddress

    address, origin = find_tracker(named)
    if address is not None:
        if address.host not in (LOOPBACK, "localhost"):
            raise UsageError(
                "devices reach a tracker on this machine only",
                where=f"{origin}: {address}",
                fix="run buildtool rpc tracker here",
            )
        address.summary()  # raises CheckFailed when nothing answers
        return TrackerAddress(LOOPBACK, address.port), None
    own = stack.enter_context(Tracker(port=listen_port(LOOPBACK, None)))
    screen.info(f"no tracker is running; started one on {LOOPBACK}:{own.port}")
    return TrackerAddress(LOOPBACK, own.port), own


def _tend(own: Tracker | None) -> None:
    from buildtool.rpc.serving import keep_tracker

    if own is not None:
        keep_tracker(own)


def _tell_up(crew: Crew, as_json: bool) -> None:
    from buildtool.rpc.overview import server_row

    states = {device: entry for device, entry in crew.states().items() if entry is not None}
    if as_json:
        print_json({"servers": [server_row(entry) for entry in states.values()]})
    else:
        rows = [(e.key, f"127.0.0.1:{e.port}", e.device, e.tracker) for e in states.values()]
        print_table(None, ("key", "server", "device", "tracker"), rows)
    sys.stdout.flush()


def serve_one(
    dist: Annotated[Path, typer.Argument()],
    device: Annotated[str, typer.Option("--device")],
    tracker: Annotated[str, typer.Option("--tracker")],
    key: Annotated[str, typer.Option("--key")],
    parent: Annotated[int, typer.Option("--parent")] = 0,
    port: Annotated[int | None, typer.Option("--port")] = None,
    env: Annotated[list[str] | None, typer.Option("--env")] = None,
    settings: Annotated[Path | None, typer.Option("--settings")] = None,
) -> None:
    """The server on one device: serve starts one such process for each."""
    from buildtool.devices import open_device
    from buildtool.rpc import serving, state
    from buildtool.rpc.finding import parse_address

    artifacts, loaded = open_built(dist, None, settings)
    address: TrackerLike = parse_address(tracker, where="--tracker")
    toolchain, _ = toolchain_of(artifacts, loaded)
    with contextlib.closing(open_device(device, settings=loaded, toolchain=toolchain)) as opened:
        props = opened.properties()
        facts = {"model": props.model, "system": props.system, "free_bytes": props.free_bytes}
        facts["adb"] = type(opened).__name__ == "AdbDevice"
        known = {"tracker": tracker, "parent": parent, "device": opened.name, "spec": device, "key": key}
        with state.StateFile(state.SERVER, facts=facts, **known) as entry:
            files = {a.name: a.path for a in artifacts.artifacts}
            variables = dict(word.split("=", 1) for word in env or [])
            with contextlib.suppress(Terminated):  # how serve ends it: nothing to tell
                serving.keep(opened, address, serving.Order(files, key, port, variables), entry.update)
