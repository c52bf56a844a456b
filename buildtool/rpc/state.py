"""What runs: one file a running ``rpc tracker`` or ``rpc serve``, so that ``status`` and ``stop`` find it.

A file whose process is gone (or whose pid another process has now) is removed, and the adb
forwards that this process could not remove are removed with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from buildtool.core.errors import BuildtoolError, CheckFailed
from buildtool.core.files import atomic_write
from buildtool.core.paths import cache_dir
from buildtool.core.process import run

STOP_SECONDS = 20.0
TRACKER, SERVE, SERVER = "tracker", "serve", "server"


@dataclass(frozen=True)
class Running:
    """One process: a tracker, a ``serve`` that watches servers, or the server on one device."""

    kind: str
    pid: int
    mark: str
    """When the process began: tells it from a later one with the same pid."""
    since: float
    host: str = ""
    port: int = 0
    tracker: str = ""
    """The address of the tracker in use."""
    own_tracker: bool = False
    """Of ``serve``: it started that tracker itself."""
    parent: int = 0
    device: str = ""
    spec: str = ""
    key: str = ""
    state: str = "starting"
    """``starting``, ``up`` or ``down``."""
    why: str = ""
    """Why it is down."""
    restarts: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    """Of a server's device: model, system, free bytes."""


def folder() -> Path:
    return cache_dir() / "rpc"


def mark_of(pid: int) -> str | None:
    """When a process began, in a form to compare only; None when there is no such process."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        done = run(["ps", "-o", "lstart=", "-p", str(pid)], timeout=10, check=False)
        return done.stdout.strip() or None
    return None if fields[0] == "Z" else fields[19]


class StateFile:
    """This process's entry for the length of a ``with`` block."""

    def __init__(self, kind: str, **known: Any) -> None:
        pid = os.getpid()
        self.entry = Running(kind, pid, mark_of(pid) or "", time.time(), **known)
        self._path = folder() / f"{kind}-{pid}.json"

    def update(self, **changes: Any) -> None:
        self.entry = replace(self.entry, **changes)
        atomic_write(self._path, json.dumps(asdict(self.entry)))

    def __enter__(self) -> StateFile:
        self.update()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)


def running(kind: str | None = None) -> list[Running]:
    """Every entry whose process is alive, oldest first; the others are cleaned up."""
    found = []
    for path in folder().glob("*.json"):
        try:
            entry = Running(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue
        except (ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if mark_of(entry.pid) == entry.mark:
            found.append(entry)
        else:
            _clean_after(entry)
            path.unlink(missing_ok=True)
    return sorted((e for e in found if kind in (None, e.kind)), key=lambda e: e.since)


def _clean_after(entry: Running) -> None:
    """Remove the forward that a killed server of ours left with the adb server."""
    if entry.kind != SERVER or not entry.facts.get("adb") or not entry.port:
        return
    from buildtool.devices.adb_client import Adb

    with contextlib.suppress(BuildtoolError):
        adb, spec = Adb(), f"tcp:{entry.port}"
        if [entry.device, spec, spec] in [
            line.split() for line in adb("forward", "--list").stdout.splitlines()
        ]:
            adb("forward", "--remove", spec, serial=entry.device)


def end(entry: Running, *, seconds: float = STOP_SECONDS) -> None:
    """End a running process by SIGTERM and wait until it is gone. Raises CheckFailed when it stays."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(entry.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while mark_of(entry.pid) == entry.mark:
        if time.monotonic() > deadline:
            raise CheckFailed(
                f"the {entry.kind} process {entry.pid} does not end", fix=f"kill -9 {entry.pid}"
            )
        time.sleep(0.05)
