"""An RPC tracker, TVM's or our own, started and ended by us."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from buildtool.core.console import screen
from buildtool.core.errors import CheckFailed
from buildtool.core.process import quote, spawn, stop
from buildtool.rpc import protocol
from buildtool.rpc.ports import LOOPBACK, free_port

START_SECONDS = 60.0
"""Importing TVM takes seconds on a busy machine."""


class TrackerLike(Protocol):
    """A tracker on this machine that servers can be started for."""

    @property
    def port(self) -> int: ...

    def summary(self) -> protocol.Summary:
        """Registered servers and queues. Raises CheckFailed when the tracker does not answer."""


@dataclass(frozen=True)
class TrackerAddress:
    """A tracker that somebody else started."""

    host: str
    port: int

    def summary(self) -> protocol.Summary:
        return protocol.summary(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def _has_tvm_rpc() -> bool:
    """Whether this interpreter can start TVM's tracker. A mere folder named tvm is no such thing."""
    found = [importlib.util.find_spec(name) for name in ("tvm", "tornado", "psutil", "cloudpickle")]
    return all(spec is not None and spec.origin is not None for spec in found)


class Tracker:
    """A tracker in a process of its own; a context manager.

    It is TVM's (``tvm.exec.rpc_tracker``) of the interpreter ``python``. Without one it is that of
    this interpreter, or :mod:`buildtool.rpc.own_tracker` where this one lacks tvm; ``own`` chooses.

    Binds to the loopback interface unless ``host`` says otherwise: TVM RPC runs
    any code that a client sends. ``port`` None takes a free one. Entering waits
    until the tracker answers and raises CheckFailed, with its own words, when it
    does not; leaving ends it.
    """

    def __init__(
        self,
        *,
        python: Path | None = None,
        host: str = LOOPBACK,
        port: int | None = None,
        own: bool | None = None,
    ) -> None:
        if own is None:
            own = python is None and not _has_tvm_rpc()
        self.host = host
        self.port = port or free_port(LOOPBACK)
        # One port only: TVM's tracker would silently move to the next one that is free.
        self._command = (
            [sys.executable, "-m", "buildtool.rpc.own_tracker"]
            if own
            else [str(python or sys.executable), "-m", "tvm.exec.rpc_tracker", f"--port-end={self.port + 1}"]
        ) + [f"--host={host}", f"--port={self.port}"]
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
        # Started a second time, it must not find the first one's words.
        os.ftruncate(self._log.fileno(), 0)
        os.lseek(self._log.fileno(), 0, os.SEEK_SET)
        self._process = spawn(self._command, stdout=self._log, stderr=subprocess.STDOUT)
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
                    f"the RPC tracker did not start on {self.host}:{self.port}",
                    where=quote(self._command),
                    fix="pip install 'buildtool[host]'" if "No module named" in said else None,
                    details=said.splitlines()[-5:],
                )
            time.sleep(0.05)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """All that the tracker has printed."""
        # Not seek: the child shares the file's position.
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode("utf-8", "replace")

    def summary(self) -> protocol.Summary:
        """Registered servers and queues. Raises CheckFailed when the tracker does not answer."""
        address = LOOPBACK if self.host == "0.0.0.0" else self.host  # noqa: S104 - a comparison
        return protocol.summary(address, self.port)
