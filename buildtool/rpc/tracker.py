"""TVM's RPC tracker, started and ended by us."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from buildtool.core.console import screen
from buildtool.core.errors import CheckFailed
from buildtool.core.process import spawn, stop
from buildtool.rpc import protocol
from buildtool.rpc.ports import LOOPBACK, free_port

START_SECONDS = 60.0
"""Importing TVM takes seconds on a busy machine."""


class Tracker:
    """TVM's own tracker (``tvm.exec.rpc_tracker``) in a process of its own; a context manager.

    Binds to the loopback interface unless ``host`` says otherwise: TVM RPC runs
    any code that a client sends. ``port`` None takes a free one. Entering waits
    until the tracker answers and raises CheckFailed, with its own words, when it
    does not; leaving ends it.
    """

    def __init__(self, *, python: Path | None = None, host: str = LOOPBACK, port: int | None = None) -> None:
        self.host = host
        self.port = port or free_port(LOOPBACK)
        self._python = python or Path(sys.executable)
        self._log = tempfile.TemporaryFile(prefix="buildtool-tracker-")  # noqa: SIM115 - lives as long as it
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Tracker:
        if self.host != LOOPBACK:
            screen.warn(
                f"the tracker listens on {self.host}: TVM RPC runs any code that a client sends, "
                "so everybody who reaches this address can run code on the devices"
            )
        # One port only: TVM's tracker would silently move to the next one that is free.
        words = ["-m", "tvm.exec.rpc_tracker", "--host", self.host, "--port", str(self.port)]
        words += ["--port-end", str(self.port + 1)]
        self._process = spawn([self._python, *words], stdout=self._log, stderr=subprocess.STDOUT)
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            stop(self._process)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        bound = f"bind to {self.host}:{self.port}"
        while True:
            said = self.output()
            # Its own word that it got the port: whatever else answers there is not ours.
            if bound in said:
                self.summary()
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CheckFailed(
                    f"TVM's RPC tracker did not start on {self.host}:{self.port}",
                    where=f"{self._python} -m tvm.exec.rpc_tracker",
                    fix="pip install 'buildtool[host]'" if "No module named" in said else None,
                    details=said.splitlines()[-5:],
                )
            time.sleep(0.05)

    def output(self) -> str:
        """All that the tracker has printed."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace")

    def summary(self) -> protocol.Summary:
        """Registered servers and queues. Raises CheckFailed when the tracker does not answer."""
        address = LOOPBACK if self.host == "0.0.0.0" else self.host  # noqa: S104 - a comparison
        return protocol.summary(address, self.port)
