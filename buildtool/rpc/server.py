"""``tvm_rpc server`` on a device, registered with a tracker."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Mapping
from types import TracebackType

from buildtool.core.errors import CheckFailed
from buildtool.devices.base import Device, PortTaken, RemoteProcess
from buildtool.rpc.ports import LOOPBACK, free_port
from buildtool.rpc.tracker import TrackerLike

START_SECONDS = 60.0
"""For the first run under emulation on a busy machine; a phone needs under a second."""
_PORT_TRIES = 5
_BIND = re.compile(r"bind to (\S+):(-?\d+)")


class RpcServer:
    """Starts the pushed ``tvm_rpc`` on a device and waits until the tracker lists it.

    A context manager; the files must have been pushed. ``key`` is random unless
    given, so that a stale server with the same key can't take our clients. The
    port is the same number here and on the device, because the tracker tells
    clients what the server calls it; a free one unless given. Raises CheckFailed
    with the server's own words when it does not come up, PortTaken for a given
    port that is in use.
    """

    def __init__(
        self,
        device: Device,
        *,
        tracker: TrackerLike,
        key: str | None = None,
        port: int | None = None,
        program: str = "tvm_rpc",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key or f"buildtool-{uuid.uuid4().hex[:8]}"
        self.port = port or 0
        self._wanted_port = port
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

    def registered(self) -> bool:
        """The tracker lists this server: the key and, where it tells one, the port."""
        listed = [s for s in self._tracker.summary().servers if s.key == self.key]
        return any(s.address is None or s.address[1] == self.port for s in listed)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _start(self) -> None:
        for left in reversed(range(_PORT_TRIES)):
            self.port = self._wanted_port or free_port()
            try:
                with contextlib.ExitStack() as attempt:
                    self._start_on_port(attempt)
                    self._stack.push(attempt.pop_all())
                    return
            except PortTaken:
                # Free here does not mean free on the device, nor a moment later.
                if self._wanted_port or not left:
                    raise

    def _start_on_port(self, stack: contextlib.ExitStack) -> None:
        tracker_port = stack.enter_context(self._device.reverse(self._tracker.port, self._tracker.port))
        stack.enter_context(self._device.forward(self.port))
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
        stack.callback(process.stop)
        self._wait_bound(process)
        self._wait_registered(process)

    def _wait_bound(self, process: RemoteProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            match = _BIND.search(process.output())
            if match and int(match.group(2)) == self.port:
                return
            if match:
                # tvm_rpc goes on running after "bind to HOST:-1".
                raise PortTaken(
                    f"port {self.port} is in use on the device {self._device.name}",
                    where=self._place(),
                    details=self.output().splitlines()[-5:],
                )
            self._alive_or_fail(process, deadline, "did not bind its port")
            time.sleep(0.05)

    def _wait_registered(self, process: RemoteProcess) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.registered():
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
            where=self._place(),
            details=self.output().splitlines()[-10:],
        )

    def _place(self) -> str:
        return f"{self._device.workdir}/{self._program} server --port={self.port} --key={self.key}"
