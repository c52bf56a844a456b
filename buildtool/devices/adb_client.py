"""The adb program on this host: found, checked and asked, never trusted to end by itself."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.errors import ToolMissing, UsageError
from buildtool.core.process import Completed, run, which

QUICK_SECONDS = 20.0
START_SECONDS = 60.0
DEFAULT_PORT = 5037
ONLINE = "device"

_FIXES = {
    "unauthorized": "unlock the phone and tap Allow in its dialog 'Allow USB debugging?'; when none "
    "appears: Settings, Developer options, Revoke USB debugging authorizations, then plug it in again",
    "authorizing": "unlock the phone and tap Allow in its dialog 'Allow USB debugging?'",
    "offline": "plug the phone in again or restart it; over the network: adb disconnect SERIAL, "
    "adb connect SERIAL",
    "no permissions": "let your user open the USB device: install udev rules (Debian: "
    "android-sdk-platform-tools-common), join the group plugdev, log in again, then adb kill-server",
    "recovery": "start the phone's normal system",
    "sideload": "start the phone's normal system",
    "bootloader": "start the phone's normal system",
}
_PLUG = "plug one in with USB debugging switched on (Developer options), or: adb connect HOST:PORT"


@dataclass(frozen=True)
class Listed:
    """One line of ``adb devices -l``."""

    serial: str
    state: str
    """``device`` (usable), ``offline``, ``unauthorized``, ``no permissions``, …"""
    model: str = ""


def parse_devices(text: str) -> list[Listed]:
    """The devices in the output of ``adb devices -l``; other lines (the daemon's remarks) are passed over."""
    rows = []
    for line in text.splitlines():
        match = re.match(r"(\S+)\s+(no permissions|\S+)(.*)", line)
        if not match or line.startswith(("*", "List of devices", "adb")):
            continue
        serial, state, rest = match.groups()
        model = re.search(r"\bmodel:(\S+)", rest)
        rows.append(Listed(serial, state, model.group(1) if model else ""))
    return rows


def find_adb(env: Mapping[str, str] | None = None) -> Path:
    """The adb program: $ADB, PATH, the Android SDK's, the one in the adbutils wheel. Raises ToolMissing."""
    env = os.environ if env is None else env
    if named := env.get("ADB"):
        found = which(named, path=env.get("PATH"))
        if found is None:
            raise ToolMissing("no such program", where=f"environment ADB={named}")
        return found
    if found := which("adb", path=env.get("PATH")):
        return found
    for variable in ("ANDROID_HOME", "ANDROID_SDK_ROOT"):
        if (folder := env.get(variable)) and (found := which(f"{folder}/platform-tools/adb")):
            return found
    spec = importlib.util.find_spec("adbutils")
    if spec is not None and spec.origin and (found := which(f"{Path(spec.origin).parent}/binaries/adb")):
        return found
    raise ToolMissing(
        "no adb to reach Android devices with",
        fix="Debian/Ubuntu: apt-get install adb, or pip install 'buildtool[adb]', or set ADB to its path",
    )


class Adb:
    """Runs adb commands with a time limit. Raises ToolMissing without adb."""

    def __init__(self, program: Path | None = None) -> None:
        self.program = program or find_adb()
        self._checked = False

    def argv(self, serial: str | None, words: Sequence[str | os.PathLike[str]]) -> list[str]:
        self._check_server()
        chosen = ["-s", serial] if serial else []
        return [str(self.program), *chosen, *(os.fspath(word) for word in words)]

    def __call__(
        self, *words: str | os.PathLike[str], serial: str | None = None, timeout: float = QUICK_SECONDS
    ) -> Completed:
        return run(self.argv(serial, words), timeout=timeout, check=False)

    def devices(self) -> list[Listed]:
        """All devices, in any state."""
        done = self("devices", "-l", timeout=START_SECONDS)
        if not done.ok:
            raise UsageError(
                "the adb server does not start or does not answer",
                where=f"{self.program} devices -l",
                fix="adb kill-server, then again",
                details=done.tail(5),
            )
        return parse_devices(done.stdout)

    def state(self, serial: str) -> str | None:
        """The device's state, None when it is not there."""
        return next((d.state for d in self.devices() if d.serial == serial), None)

    def wait_online(self, serial: str, seconds: float) -> bool:
        """Wait until the device can be used; a network device is connected again."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.state(serial)
            if state == ONLINE:
                return True
            if time.monotonic() > deadline:
                return False
            if state is None and re.fullmatch(r".+:\d+", serial):
                self("connect", serial)
            time.sleep(0.3)

    def _check_server(self) -> None:
        """A client of another version would end the running server, and with it other people's sessions."""
        if self._checked or "ADB_SERVER_SOCKET" in os.environ:
            return
        port = _server_port()
        server = server_version(port)
        if server is None:
            # In a step of its own, so that the first real command gets its whole time limit.
            run([self.program, "start-server"], timeout=START_SECONDS, check=False)
        else:
            text = run([self.program, "version"], timeout=QUICK_SECONDS, check=False).stdout
            match = re.search(r"version 1\.0\.(\d+)", text)
            if match and int(match.group(1)) != server:
                raise UsageError(
                    "this adb is of another version than the running adb server and would end it",
                    where=f"{self.program}, server on port {port}",
                    expected=f"1.0.{match.group(1)} (this client)",
                    found=f"1.0.{server} (the server)",
                    fix="set ADB to the adb that started the server, or end that one: adb kill-server",
                )
        self._checked = True


def _server_port() -> int:
    text = os.environ.get("ANDROID_ADB_SERVER_PORT", "")
    if not text:
        return DEFAULT_PORT
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise UsageError("not a port", where=f"environment ANDROID_ADB_SERVER_PORT={text}")
    return int(text)


def server_version(port: int) -> int | None:
    """The version of the adb server on that loopback port (41 for 1.0.41), None without a server.

    Asked by the server's own protocol: adb has no command that asks without starting or ending one.
    """
    with socket.socket() as link:
        link.settimeout(5.0)
        try:
            link.connect(("127.0.0.1", port))
            link.sendall(b"000chost:version")
            answer = b""
            while len(answer) < 12 and (part := link.recv(64)):
                answer += part
        except OSError:
            return None
    if not re.fullmatch(rb"OKAY0004[0-9a-fA-F]{4}", answer):
        raise UsageError(
            "another service than an adb server answers on its port",
            where=f"127.0.0.1:{port}",
            fix="end that service, or set ANDROID_ADB_SERVER_PORT to a free port",
        )
    return int(answer[8:], 16)


def choose(devices: Sequence[Listed], wanted: str | None, *, where: str) -> Listed:
    """The usable device ``wanted`` (a serial), or the only usable one.

    Raises UsageError that lists all devices with their states and says what to do.
    """
    rows = [f"{d.serial}  {d.state}  {d.model}".rstrip() for d in devices]
    usable = [d for d in devices if d.state == ONLINE]
    if wanted is not None:
        found = next((d for d in devices if d.serial == wanted), None)
        if found is None:
            fix = "name one of these" if rows else _PLUG
            raise UsageError(f"no Android device {wanted}", where=where, fix=fix, details=rows)
        if found.state != ONLINE:
            raise not_usable(found.serial, found.state)
        return found
    if len(usable) == 1:
        return usable[0]
    if usable:
        fix = "choose one: --device SERIAL, or set ANDROID_SERIAL"
        raise UsageError(f"{len(usable)} Android devices and none chosen", where=where, fix=fix, details=rows)
    if len(devices) == 1:
        raise not_usable(devices[0].serial, devices[0].state)
    if devices:
        fixes = "; ".join(f"{s}: {_FIXES[s]}" for s in sorted({d.state for d in devices}) if s in _FIXES)
        raise UsageError("no Android device can be used", where=where, fix=fixes or _PLUG, details=rows)
    raise UsageError("no Android device is connected", where=where, fix=_PLUG)


def not_usable(serial: str, state: str | None) -> UsageError:
    """The error for a device in another state than ``device``."""
    if state is None:
        return UsageError(f"the Android device {serial} is not connected", fix=_PLUG)
    fix = _FIXES.get(state, "see the phone's screen").replace("SERIAL", serial)
    return UsageError(
        f"the Android device {serial} can't be used: {state}", expected="device", found=state, fix=fix
    )
