"""A server on one device kept running, and several of them side by side."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.core.console import screen
from buildtool.core.errors import BuildtoolError, CheckFailed
from buildtool.core.process import spawn, stop
from buildtool.devices.base import Device
from buildtool.rpc import state
from buildtool.rpc.server import RpcServer
from buildtool.rpc.tracker import Tracker, TrackerLike

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds before a restart; each one in a row waits twice as long."""
STABLE_SECONDS = 60.0
"""A server that ran this long starts again with the first wait."""
UNLISTED_SECONDS = 20.0
"""A server that the answering tracker does not list for this long is started anew: tvm_rpc itself
connects again every 5 s."""
_LOOK_SECONDS = 0.3
_ASK_SECONDS = 5.0
CHILD_SECONDS = 15.0


@dataclass(frozen=True)
class Order:
    """What to serve: pushed files, the tracker's key, the port here and there (None: a free one)."""

    files: Mapping[str, Path]
    key: str
    port: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def keep(device: Device, tracker: TrackerLike, order: Order, note: Callable[..., None]) -> None:
    """Run a server on the device until this process is told to end (the exception unwinds).

    ``note`` is told changes of :class:`state.Running`. What stops the very first start is raised;
    later a server that died, or a device that went away, is tried again.
    """
    wait, restarts, was_up = FIRST_WAIT, 0, False
    while True:
        begun = time.monotonic()
        try:
            pushed = device.push(order.files)
            screen.trace(f"{device.name}: {pushed.sent} files sent, {pushed.kept} already there")
            with RpcServer(device, tracker=tracker, key=order.key, port=order.port, env=order.env) as server:
                note(state="up", why="", port=server.port, restarts=restarts)
                was_up = True
                why = _until_down(server)
        except BuildtoolError as exc:
            if not was_up:
                raise
            why = exc.what
        if time.monotonic() - begun > STABLE_SECONDS:
            wait = FIRST_WAIT
        note(state="down", why=why, restarts=restarts)
        screen.warn(f"{device.name}: {why}; again in {wait:g} s")
        time.sleep(wait)
        wait, restarts = min(wait * 2, LONGEST_WAIT), restarts + 1


def _until_down(server: RpcServer) -> str:
    """Wait until the server is gone or the tracker has lost it; returns which."""
    asked = listed = time.monotonic()
    while server.alive():
        time.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        if now - asked < _ASK_SECONDS:
            continue
        asked = now
        try:
            if server.registered():
                listed = now
            elif now - listed > UNLISTED_SECONDS:
                return f"the tracker did not list it for {UNLISTED_SECONDS:g} s"
        except CheckFailed:
            listed = now  # no tracker: the server waits for it by itself
    last = [line for line in server.output().splitlines() if line.strip()][-1:]
    return f"the server ended: {last[0] if last else 'without a word'}"


def keep_tracker(tracker: Tracker) -> None:
    """Start a tracker of ours that has died again, on the same port."""
    if not tracker.alive():
        screen.warn(f"the tracker on port {tracker.port} ended; it is started again")
        with contextlib.suppress(CheckFailed):
            tracker.__enter__()


class Crew:
    """One child process for each device, each with :func:`keep`; a context manager that ends them.

    A process each, because a child that is told of its parent's death (even by SIGKILL) cleans up
    its own device, and one device can't hold up another.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        """``commands``: the words after ``buildtool`` by device."""
        self._commands = commands
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Crew:
        try:
            for device, words in self._commands.items():
                command = [sys.executable, "-m", "buildtool", *words]
                self._children[device] = spawn(command, stdout=subprocess.DEVNULL, stderr=None)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def _end(self) -> None:
        children = list(self._children.values())
        for child in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + CHILD_SECONDS
        for child in children:
            # They clean up their devices side by side; a second signal would break that off.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, deadline - time.monotonic()))
            stop(child)

    def ended(self) -> dict[str, int]:
        """Exit codes of the children that have ended, by device."""
        codes = {device: child.poll() for device, child in self._children.items()}
        return {device: code for device, code in codes.items() if code is not None}

    def states(self) -> dict[str, state.Running | None]:
        """What each child says of its server, None before its first word or after its end."""
        known = {entry.pid: entry for entry in state.running(state.SERVER)}
        return {device: known.get(child.pid) for device, child in self._children.items()}

    def settle(self) -> Iterator[None]:
        """Yields now and then until each server came up once or its process ended."""
        waiting = set(self._commands)
        while waiting:
            states, ended = self.states(), self.ended()
            waiting = {
                d
                for d in waiting
                if d not in ended and not ((s := states[d]) is not None and s.state == "up")
            }
            if waiting:
                yield
                time.sleep(0.1)
