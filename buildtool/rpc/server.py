"""``tvm_rpc server`` on a device, registered with a tracker."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Mapping
from types import TracebackType

from buildtool.core.errors import CheckFailed
from buildtool.devices.base import Device, RemoteProcess
from buildtool.rpc.ports import LOOPBACK, free_port
from buildtool.rpc.tracker import Tracker

START_SECONDS = 60.0
"""For the first run under emulation on a busy machine; a phone needs under a second."""
_BIND = re.compile(r"bind to (\S+):(-?\d+)")


class RpcServer:
    """Starts the pushed ``tvm_rpc`` on a device and waits until the tracker lists it.

    A context manager; the files must have been pushed. ``key`` is random unless
    given, so that a stale server with the same key can't take our clients.
    Raises CheckFailed with the server's own words when it does not come up.
    """

    def __init__(
        self,
        device: Device,
        *,
        tracker: Tracker,
        key: str | None = None,
        port: int | None = None,
        program: str = "tvm_rpc",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key or f"buildtool-{uuid.uuid4().hex[:8]}"
        self.port = port or free_port()
        self._device = device
        self._tracker = tracker
        self._program = program
        self._env = {"LD_LIBRARY_PATH": str(device.workdir), **(env or {})}
        self._stack = contextlib.ExitStack()
        self._process: RemoteProcess | None = None

    def __enter__(self) -> RpcServer:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def output(self) -> str:
        """All that the server has printed: a crash of its session shows nowhere else."""
        return self._process.output() if self._process is not None else ""

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        tracker_port = self._stack.enter_context(self._device.reverse(self._tracker.port, self._tracker.port))
        command = [
            self._program,
            "server",
            f"--host={LOOPBACK}",
            f"--port={self.port}",
            # The end is exclusive: this one port or none, never silently the next.
            f"--port-end={self.port + 1}",
            f"--tracker={LOOPBACK}:{tracker_port}",
            f"--key={self.key}",
            # On Android it would be /data/local/tmp/rpc, whoever the user is.
            f"--work-dir={self._device.workdir}",
        ]
        process = self._device.spawn(command, env=self._env)
        self._process = process
        self._stack.callback(process.stop)
        self._wait_bound(process)
        self._stack.enter_context(self._device.forward(self.port))
        self._wait_registered(process)

    def _wait_bound(self, process: RemoteProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            match = _BIND.search(process.output())
            if match and int(match.group(2)) == self.port:
                return
            if match:
                # tvm_rpc goes on running after "bind to HOST:-1".
                raise self._failed(f"its port {self.port} is taken on the device")
            self._alive_or_fail(process, deadline, "did not bind its port")
            time.sleep(0.05)

    def _wait_registered(self, process: RemoteProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._tracker.summary().has(self.key):
            self._alive_or_fail(process, deadline, "did not register with the tracker")
            time.sleep(0.05)

    def _alive_or_fail(self, process: RemoteProcess, deadline: float, what: str) -> None:
        code = process.poll()
        if code is not None:
            raise self._failed(f"it ended with code {code}")
        if time.monotonic() > deadline:
            raise self._failed(f"it {what} within {START_SECONDS:g} s")

    def _failed(self, why: str) -> CheckFailed:
        return CheckFailed(
            f"{self._program} on {self._device.name} did not come up: {why}",
            where=f"{self._device.workdir}/{self._program} server --port={self.port} --key={self.key}",
            details=self.output().splitlines()[-10:],
        )
