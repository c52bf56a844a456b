"""What ``rpc status`` and ``rpc query`` tell, as rows for tables and JSON."""

from __future__ import annotations

from typing import Any

from buildtool.core.errors import CheckFailed
from buildtool.rpc import state
from buildtool.rpc.finding import parse_address
from buildtool.rpc.protocol import Summary


def queue_rows(summary: Summary) -> list[dict[str, Any]]:
    """One row a key: registered servers, free and busy ones, clients that wait, addresses."""
    rows = []
    for key in sorted({*summary.queues, *(s.key for s in summary.servers)}):
        queue = summary.queues.get(key)
        free, pending = (queue.free, queue.pending) if queue else (0, 0)
        servers = [s for s in summary.servers if s.key == key]
        rows.append(
            {
                "key": key,
                "servers": len(servers),
                "free": free,
                "busy": max(0, len(servers) - free),
                "pending": pending,
                "addresses": [f"{s.address[0]}:{s.address[1]}" for s in servers if s.address],
            }
        )
    return rows


def server_row(entry: state.Running) -> dict[str, Any]:
    names = ("device", "key", "port", "tracker", "state", "why", "restarts", "pid", "facts")
    return {name: getattr(entry, name) for name in names}


def everything() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Trackers in use with their queues, and our servers with their devices."""
    entries = state.running()
    # Pid 0: a tracker that somebody else runs.
    pids = {f"{e.host}:{e.port}": e.pid for e in entries if e.kind == state.TRACKER}
    for entry in entries:
        if entry.tracker:
            pids.setdefault(entry.tracker, entry.pid if entry.own_tracker else 0)
    servers = [server_row(entry) for entry in entries if entry.kind == state.SERVER]
    return [_tracker_row(address, pid) for address, pid in pids.items()], servers


def _tracker_row(address: str, pid: int) -> dict[str, Any]:
    row: dict[str, Any] = {"address": address, "pid": pid, "queues": [], "why": ""}
    try:
        row["queues"] = queue_rows(parse_address(address, where="tracker").summary())
    except CheckFailed as exc:
        row["why"] = exc.what
    return row
