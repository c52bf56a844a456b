"""``buildtool rpc``: tracker, servers on devices, what runs, and its end."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import EXIT_FAILED, BuildtoolError, CheckFailed, Terminated, UsageError

if TYPE_CHECKING:
    from buildtool.artifacts import ArtifactSet
    from buildtool.rpc.serving import Crew
    from buildtool.rpc.tracker import Tracker, TrackerAddress, TrackerLike
    from buildtool.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="TVM RPC: a tracker, servers on devices, what runs and its end. "
    "tracker and serve run until Ctrl-C and leave nothing behind.",
)

TrackerOption = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        metavar="HOST:PORT",
        help="Default: TVM_TRACKER_HOST and _PORT, else the running one of rpc tracker.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
DistArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[DIST]", help="Folder with manifest.json. Default: --profile's, or the newest."),
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="Take this profile's last build.")
]
SettingsOption = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="Default: buildtool.toml here or above.")
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


@app.command()
def tracker(
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDR", help="Address to listen on. Others than 127.0.0.1 are open."),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="Default: 9190, or a free one when that is in use."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Run a tracker until Ctrl-C; prints its address once it answers.

    Example: buildtool rpc tracker --port 9190
    """
    from buildtool.rpc import state
    from buildtool.rpc.tracker import Tracker

    with Tracker(host=host, port=_port(host, port)) as running, contextlib.ExitStack() as stack:
        entry = stack.enter_context(state.StateFile(state.TRACKER, host=_reach(host), port=running.port))
        entry.update(state="up")
        if as_json:
            print_json({"host": host, "port": running.port, "pid": os.getpid()})
        else:
            print(f"{host}:{running.port}")
        _flush()
        while running.alive():
            time.sleep(0.2)
        raise CheckFailed("the tracker ended by itself", details=running.output().splitlines()[-5:])


def _port(host: str, wanted: int | None) -> int:
    from buildtool.rpc.finding import DEFAULT_PORT
    from buildtool.rpc.ports import free_port, is_free

    try:
        free_port(host)
    except OSError as exc:
        raise UsageError(f"can't listen on {host}: {exc.strerror or exc}", where=f"--host {host}") from exc
    port = wanted or DEFAULT_PORT
    if is_free(host, port):
        return port
    if wanted:
        raise UsageError(
            f"port {wanted} is in use", where=f"--port {wanted}", fix="leave --port out for a free one"
        )
    chosen = free_port(host)
    screen.info(f"port {port} is in use; taking {chosen}")
    return chosen


def _reach(host: str) -> str:
    return "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - a comparison


def _flush() -> None:
    import sys

    sys.stdout.flush()


@app.command()
def serve(
    dist: DistArgument = None,
    profile: ProfileOption = None,
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
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run tvm_rpc on devices until Ctrl-C; prints keys and ports once they are up.

    Pushes the built files, opens the ports, and starts a server again that dies. Without a
    running tracker it starts one.

    Example: buildtool rpc serve --profile android --device all --key android-{device}
    """
    from buildtool import settings as settings_room
    from buildtool.cli.verify import _last_dist
    from buildtool.devices.choosing import candidates
    from buildtool.rpc import serving, state

    loaded = settings_room.load(settings)
    folder = (dist or _last_dist(loaded, profile)).absolute()
    artifacts = _load_servable(folder)
    found = candidates(device, settings=loaded, toolchain=_toolchain(artifacts, loaded))
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


def _load_servable(folder: Path) -> ArtifactSet:
    from buildtool.artifacts import load

    artifacts = load(folder)
    if artifacts.find("tvm_rpc") is None:
        raise UsageError(
            "this build has no tvm_rpc to serve with", where=str(folder), fix="build with USE_CPP_RPC=ON"
        )
    return artifacts


def _toolchain(artifacts: ArtifactSet, settings: Settings) -> Any:
    """Only an emulated device needs it: without one, qemu takes what this machine has."""
    from buildtool.toolchains import find

    with contextlib.suppress(BuildtoolError):
        return find(str(artifacts.toolchain.get("name")), settings=settings, abi=artifacts.abi)
    return None


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
    from buildtool.rpc.finding import find_tracker
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
    own = stack.enter_context(Tracker(port=_port(LOOPBACK, None)))
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
    _flush()


@app.command("serve-one", hidden=True)
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
    from buildtool import settings as settings_room
    from buildtool.artifacts import load
    from buildtool.devices import open_device
    from buildtool.rpc import serving, state
    from buildtool.rpc.finding import parse_address

    loaded = settings_room.load(settings)
    artifacts = load(dist)
    address: TrackerLike = parse_address(tracker, where="--tracker")
    with contextlib.closing(
        open_device(device, settings=loaded, toolchain=_toolchain(artifacts, loaded))
    ) as opened:
        props = opened.properties()
        facts = {"model": props.model, "system": props.system, "free_bytes": props.free_bytes}
        facts["adb"] = type(opened).__name__ == "AdbDevice"
        known = {"tracker": tracker, "parent": parent, "device": opened.name, "spec": device, "key": key}
        with state.StateFile(state.SERVER, facts=facts, **known) as entry:
            files = {a.name: a.path for a in artifacts.artifacts}
            variables = dict(word.split("=", 1) for word in env or [])
            with contextlib.suppress(Terminated):  # how serve ends it: nothing to tell
                serving.keep(opened, address, serving.Order(files, key, port, variables), entry.update)


@app.command()
def query(
    tracker: TrackerOption = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="KEY", help="Wait until a server with this key is free.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="S", help="How long --wait waits.")
    ] = 60,
    as_json: JsonOption = False,
) -> int:
    """Show the tracker's keys: free servers, waiting clients, addresses. Exit code 1 when it is not there.

    Example: buildtool rpc query --wait android --timeout 30
    """
    from buildtool.rpc.overview import queue_rows

    address = _known_tracker(tracker)
    deadline = time.monotonic() + timeout
    summary = address.summary()
    while wait and (summary.queues.get(wait) is None or summary.queues[wait].free == 0):
        if time.monotonic() > deadline:
            queue = summary.queues.get(wait)
            found = (
                f"free {queue.free}, pending {queue.pending}" if queue else "no server ever asked for work"
            )
            others = ", ".join(sorted(summary.queues)) or "none"
            raise CheckFailed(
                f"no server with the key {wait} is free after {timeout:g} s",
                where=str(address),
                found=f"{found}; keys there: {others}",
                fix="buildtool rpc status shows what runs here",
            )
        time.sleep(0.1)
        summary = address.summary()
    rows = queue_rows(summary)
    if as_json:
        print_json({"tracker": str(address), "keys": rows})
    else:
        columns = ("key", "servers", "free", "busy", "pending", "addresses")
        table = [[*list(row.values())[:-1], ", ".join(row["addresses"])] for row in rows]
        print_table(f"tracker {address}" + ("" if rows else ": no servers"), columns, table)
    return 0


def _known_tracker(named: str | None) -> TrackerAddress:
    from buildtool.rpc.finding import DEFAULT_PORT, find_tracker
    from buildtool.rpc.tracker import TrackerAddress

    return find_tracker(named)[0] or TrackerAddress("127.0.0.1", DEFAULT_PORT)


@app.command()
def status(as_json: JsonOption = False) -> int:
    """Show what runs: trackers with their queues, servers with their devices.

    Example: buildtool rpc status --json
    """
    from buildtool.rpc import overview

    trackers, servers = overview.everything()
    if as_json:
        print_json({"trackers": trackers, "servers": servers})
        return 0
    columns = ("tracker", "pid", "key", "servers", "free", "busy", "pending")
    rows = []
    for tracker in trackers:
        queues = tracker["queues"] or [{"key": tracker["why"] or "(no servers)"}]
        rows += [
            [tracker["address"], tracker["pid"], *(queue.get(c, "") for c in columns[2:])] for queue in queues
        ]
    print_table(None, columns, rows)
    names = ("device", "key", "port", "state", "restarts", "pid", "why")
    print_table("", names, [[row[name] for name in names] for row in servers])
    return 0


@app.command()
def stop(
    pids: Annotated[
        list[int] | None, typer.Argument(metavar="[PID]...", help="Default: everything that status shows.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """End running trackers and servers, and wait until their devices are clean.

    Example: buildtool rpc stop
    """
    from buildtool.rpc import state

    entries = state.running()
    unknown = sorted(set(pids or []) - {e.pid for e in entries})
    if unknown:
        running = ", ".join(f"{e.kind} {e.pid}" for e in entries) or "nothing"
        raise UsageError(f"no tracker or server of ours has the process id {unknown[0]}", found=running)
    chosen = [e for e in entries if not pids or e.pid in pids]
    # A serve process ends its servers itself, and servers go before their tracker.
    parents = {e.pid for e in chosen if e.kind == state.SERVE}
    order = {state.SERVE: 0, state.SERVER: 1, state.TRACKER: 2}
    for entry in sorted(chosen, key=lambda e: order[e.kind]):
        if entry.parent not in parents:
            state.end(entry)
    if as_json:
        print_json({"stopped": [{"kind": e.kind, "pid": e.pid} for e in chosen]})
    else:
        print_table(None, ("stopped", "pid"), [(e.kind, e.pid) for e in chosen])
    return 0


@app.command("env")
def show_env(
    dist: DistArgument = None,
    profile: ProfileOption = None,
    tracker: TrackerOption = None,
    key: KeyOption = None,
    target: Annotated[str, typer.Option("--target", metavar="WORD", help="RPC_TARGET")] = "adreno",
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Print the variables that TVM's documented scripts read, for eval.

    Example: eval "$(buildtool rpc env --profile android)"
    """
    import shlex

    variables = _variables(dist, profile, _known_tracker(tracker), key or "android", target, settings)
    if as_json:
        print_json(variables)
    else:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _variables(
    dist: Path | None,
    profile: str | None,
    address: TrackerAddress,
    key: str,
    target: str,
    settings: Path | None,
) -> dict[str, str]:
    from buildtool import settings as settings_room
    from buildtool.artifacts import load
    from buildtool.cli.verify import _last_dist, _toolchain
    from buildtool.rpc.finding import variables

    loaded = settings_room.load(settings)
    try:
        artifacts = load(dist or _last_dist(loaded, profile))
    except UsageError:
        if dist or profile:
            raise
        return variables(address, key, target, None)  # nothing built yet: no compiler to name
    if artifacts.ndk_dir and Path(artifacts.ndk_dir).is_dir():
        loaded = settings_room.load(settings, flags={"toolchains.ndk": artifacts.ndk_dir})
    toolchain, why = _toolchain(artifacts, loaded)
    if toolchain is None:
        screen.warn(f"no TVM_NDK_CC and CXX: {why}")
    return variables(address, key, target, toolchain)
