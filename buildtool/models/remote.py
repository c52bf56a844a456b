"""Running rtvm on a device: pushes, a time limit, progress, and an end on every way out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from buildtool.artifacts import ArtifactSet
from buildtool.core.errors import BuildtoolError, CheckFailed, ConfigError, UsageError
from buildtool.core.process import quote
from buildtool.devices.base import Device

PROGRAM = "rtvm"
_POLL_SECONDS = 0.02
_TOLD_EVERY = 2.0


class Stopped(BuildtoolError):
    """Another thread asked for the end of this run."""


@dataclass(frozen=True)
class Said:
    """How a run of rtvm ended. ``code`` is negative when a signal ended it."""

    code: int
    text: str
    seconds: float

    def failure(self, what: str, words: Sequence[str]) -> CheckFailed:
        how = f"exit code {self.code}" if self.code >= 0 else f"ended by signal {-self.code}"
        lines = [line for line in self.text.splitlines() if line.strip()]
        return CheckFailed(f"{what} ({how})", where=quote(words), details=lines[-12:])


class Remote:
    """One device with the runtime pushed to it. Counts what was sent."""

    def __init__(
        self,
        device: Device,
        artifacts: ArtifactSet,
        *,
        timeout: float,
        on_progress: Callable[[str], None] = lambda text: None,
        stop: Event | None = None,
    ) -> None:
        self.device = device
        self._artifacts = artifacts
        self._timeout = timeout
        self._tell = on_progress
        self._stop = stop or Event()
        self.files = 0
        self.bytes = 0

    def push(self, files: Mapping[str, Path]) -> None:
        """Send what is not there yet."""
        if self._stop.is_set():
            raise Stopped("stopped")
        pushed = self.device.push(files)
        self.files += pushed.sent
        self.bytes += pushed.bytes

    def pull(self, name: str, local: Path) -> bool:
        """Copy a file from the device; False when it is not there."""
        try:
            self.device.pull(name, local)
        except ConfigError:
            return False
        return True

    def push_runtime(self) -> None:
        """Send the built libraries and rtvm. Raises UsageError without rtvm or for another ABI."""
        if self._artifacts.find(PROGRAM) is None:
            raise UsageError(
                "this build has no rtvm to run models with",
                where=str(self._artifacts.root),
                found=", ".join(a.name for a in self._artifacts.artifacts),
                fix="add rtvm to the profile's targets and build again",
            )
        abis, wanted = self.device.properties().abis, self._artifacts.abi.value
        if wanted not in abis:
            raise UsageError(
                f"the device {self.device.name} can't run this build",
                expected=f"one of its ABIs: {', '.join(abis) or 'none told'}",
                found=wanted,
                fix="build for its ABI, or choose another device",
            )
        self._tell("pushing the runtime")
        self.push({a.name: a.path for a in self._artifacts.artifacts})

    def rtvm(self, words: Sequence[str], *, doing: str) -> Said:
        """Run rtvm to its end. Raises CheckFailed at the time limit, Stopped when asked to stop."""
        if self._stop.is_set():
            raise Stopped("stopped")
        begun = time.monotonic()
        argv = [f"./{PROGRAM}", *words]
        told = 0.0
        self._tell(doing)
        process = self.device.spawn(argv, env={"LD_LIBRARY_PATH": str(self.device.workdir)})
        try:
            while (code := process.poll()) is None:
                passed = time.monotonic() - begun
                if self._stop.is_set():
                    raise Stopped("stopped")
                if passed > self._timeout:
                    process.stop()
                    said = Said(-15, process.output(), passed)
                    raise said.failure(f"rtvm did not finish within {self._timeout:g} s", argv)
                if passed - told >= _TOLD_EVERY:
                    told = passed
                    self._tell(f"{doing}, {passed:.0f} s")
                time.sleep(_POLL_SECONDS)
            return Said(code, process.output(), time.monotonic() - begun)
        finally:
            process.stop()
