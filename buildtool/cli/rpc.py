"""``buildtool rpc``: tracker, servers on devices, what runs, and its end."""

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
from buildtool.cli.rpc_serve import KeyOption, TrackerOption, serve, serve_one
from buildtool.core.console import print_json, print_table, screen
from buildtool.core.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from buildtool.rpc.tracker import TrackerAddress

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="TVM RPC: a tracker, servers on devices, what runs and its end. "
    "tracker and serve run until Ctrl-C and leave nothing behind.",
)


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
    as_json: Json = False,
) -> int:
    """Run a tracker until Ctrl-C; prints its address once it answers.

    Example: buildtool rpc tracker --port 9190
    """
    from buildtool.rpc import state
    from buildtool.rpc.finding import listen_port
    from buildtool.rpc.tracker import Tracker

    with Tracker(host=host, port=listen_port(host, port)) as running, contextlib.ExitStack() as stack:
        entry = stack.enter_context(state.StateFile(state.TRACKER, host=_reach(host), port=running.port))
        entry.update(state="up")
        if as_json:
            print_json({"host": host, "port": running.port, "pid": os.getpid()})
        else:
            print(f"{host}:{running.port}")
        sys.stdout.flush()
        while running.alive():
            time.sleep(0.2)
        raise CheckFailed("the tracker ended by itself", details=running.output().splitlines()[-5:])


def _reach(host: str) -> str:
    return "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - a comparison


app.command()(serve)
app.command("serve-one", hidden=True)(serve_one)


@app.command()
def query(
    tracker: TrackerOption = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="KEY", help="Wait until a server with this key is free.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="S", help="How long --wait waits.")
    ] = 60,
    as_json: Json = False,
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
def status(as_json: Json = False) -> int:
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
    as_json: Json = False,
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
    dist: Dist = None,
    profile: BuiltProfile = None,
    tracker: TrackerOption = None,
    key: KeyOption = None,
    target: Annotated[str, typer.Option("--target", metavar="WORD", help="RPC_TARGET")] = "adreno",
    settings: SettingsFile = None,
    as_json: Json = False,
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
    from buildtool.rpc.finding import variables

    try:
        artifacts, loaded = open_built(dist, profile, settings)
    except UsageError:
        if dist or profile:
            raise
        return variables(address, key, target, None)  # nothing built yet: no compiler to name
    toolchain, why = toolchain_of(artifacts, loaded)
    if toolchain is None:
        screen.warn(f"no TVM_NDK_CC and CXX: {why}")
    return variables(address, key, target, toolchain)
