"""Android devices, through the real adb client and server."""

from __future__ import annotations

import contextlib
import getpass
import re
from collections.abc import Iterator
from pathlib import Path

from buildtool.core.errors import BuildtoolError, UsageError
from buildtool.core.process import Completed
from buildtool.devices.adb_client import ONLINE, Adb, not_usable
from buildtool.devices.base import DeviceLost, PortTaken
from buildtool.devices.shell import ShellDevice, undone, user_word

# adb's words for a connection that ended; the device may be back by the time we ask for its state.
_GONE = re.compile(
    r"couldn't read from device|device '?.*'? ?(offline|not found)|no devices|closed$|protocol fault|"
    r"Connection reset|Broken pipe|cannot connect to daemon",
    re.MULTILINE,
)


class AdbDevice(ShellDevice):
    """The Android device with this serial. It must be online, and have Android 7 or newer.

    Ports that it opens are its own: an existing forward or reverse of the same number is never
    taken over, and only its own are removed.
    """

    def __init__(self, serial: str, *, adb: Adb | None = None, workdir: str | None = None) -> None:
        super().__init__(workdir)
        self._serial = serial
        self._adb = adb or Adb()
        state = self._adb.state(serial)
        if state != ONLINE:
            raise not_usable(serial, state)
        features = self._adb("features", serial=serial).stdout.split()
        if "shell_v2" not in features:
            raise UsageError(
                f"the Android device {serial} is too old: its shell tells no exit codes",
                expected="Android 7 (API 24) or newer",
            )

    @property
    def name(self) -> str:
        return self._serial

    def default_workdir(self) -> str:
        return f"/data/local/tmp/buildtool-{user_word(getpass.getuser())}"

    def shell_argv(self, script: str) -> list[str]:
        return self._adb.argv(self._serial, ["shell", "-T", script])

    def copy_in(self, local: Path, remote: str, *, timeout: float) -> Completed:
        return self._adb("push", local, remote, serial=self._serial, timeout=timeout)

    def copy_out(self, remote: str, local: Path, *, timeout: float) -> Completed:
        return self._adb("pull", remote, local, serial=self._serial, timeout=timeout)

    def refused(self, what: str, done: Completed) -> BuildtoolError:
        said = done.stderr + done.stdout
        if _GONE.search(said) or self._adb.state(self._serial) != ONLINE:
            return self.lost(what, said)
        return super().refused(what, done)

    def lost(self, what: str, said: str) -> BuildtoolError:
        state = self._adb.state(self._serial)
        found = f"its state is now: {state or 'not connected'}"
        fix = None if state == ONLINE else not_usable(self._serial, state).fix
        return DeviceLost(
            what,
            found=found,
            fix=fix or "the device answers again: run this again (a cable, or a restarted adb server)",
            details=said.strip().splitlines()[-3:],
        )

    def comes_back(self, seconds: float) -> bool:
        return self._adb.wait_online(self._serial, seconds)

    @contextlib.contextmanager
    def reverse(self, device_port: int, host_port: int) -> Iterator[int]:
        """Where ``device_port`` is taken there, a free one; the port is yielded."""
        taken = self._port("reverse", "--no-rebind", f"tcp:{device_port}", f"tcp:{host_port}", check=False)
        port = device_port
        if taken:
            port = int(self._port("reverse", "--no-rebind", "tcp:0", f"tcp:{host_port}"))
        with undone(lambda: self._port("reverse", "--remove", f"tcp:{port}")):
            yield port

    @contextlib.contextmanager
    def forward(self, device_port: int) -> Iterator[int]:
        spec = f"tcp:{device_port}"
        if self._port("forward", "--no-rebind", spec, spec, check=False):
            raise PortTaken(
                f"port {device_port} is in use on this machine", where=f"adb forward {spec} {spec}"
            )
        with undone(lambda: self._port("forward", "--remove", spec)):
            yield device_port

    def _port(self, *words: str, check: bool = True) -> str:
        """adb's answer; without ``check``, its complaint that a port is taken, or "" when it was not."""
        done = self._adb(*words, serial=self._serial)
        if done.ok:
            return done.stdout.strip() if check else ""
        complaint = done.stderr + done.stdout
        if not check and re.search(r"cannot (re)?bind|Address already in use", complaint):
            return complaint
        raise self.refused(f"adb {' '.join(words)} failed for {self._serial}", done)
