"""Emulated phones for the real adb client and server.

A :class:`Phone` speaks adb's transport protocol on a loopback port. Its shell and files are in a root
folder, network and process list of its own; programs of its ABI run under qemu. :class:`AdbServer` is a
private adb server that sees only the phones connected to it.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pytest

from buildtool.core.errors import BuildtoolError
from buildtool.core.types import Abi
from buildtool.devices.qemu import find_qemu
from buildtool.rpc.ports import free_port
from buildtool.toolchains.cross import find_sysroot, triple_of
from buildtool.toolchains.host import host_abi

_HERE = Path(__file__).parent
_MACHINES = {Abi.ARM64: 183, Abi.ARM32: 40, Abi.X86_64: 62}


def _unshare() -> list[str]:
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
    return words if os.geteuid() == 0 else [*words, "--user", "--map-root-user"]


@functools.cache
def why_not() -> str | None:
    """Why this machine can't emulate phones, or None."""
    for tool in ("unshare", "adb", "cc", "setsid"):
        if shutil.which(tool) is None:
            return f"no {tool} on this machine"
    if platform.system() != "Linux":
        return "emulated phones need Linux namespaces"
    done = subprocess.run(
        [*_unshare(), "sh", "-c", "mount -t tmpfs none /mnt && mount -t proc proc /proc"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {done.stderr.strip()}" if done.returncode else None


def need_phones() -> None:
    """Skip the test, saying why, where phones can't be emulated."""
    if reason := why_not():
        pytest.skip(reason)


@functools.cache
def _shim(machine: int) -> Path:
    output = Path(tempfile.mkdtemp(prefix="adbd-shim-")) / "shim.so"
    flags = [f"-DHOST_MACHINE={_MACHINES[host_abi()]}", f"-DPHONE_MACHINE={machine}"]
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", *flags, "-o", output, _HERE / "shim.c", "-ldl"], check=True
    )
    return output


class Phone:
    """One emulated phone; a context manager. ``files`` are extra files (path there: text).

    ``state``: ``device``, ``offline`` or ``unauthorized``. ``size``: of its /data, as tmpfs counts.
    """

    def __init__(
        self,
        folder: Path,
        name: str = "phone",
        *,
        abi: Abi = Abi.ARM64,
        api: int = 34,
        size: str = "256m",
        noexec: bool = False,
        state: str = "device",
        features: str = "shell_v2,cmd",
        files: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self._folder = folder / name
        (self._folder / "root").mkdir(parents=True)
        self._config = {
            "root": str(self._folder / "root"),
            "state": state,
            "size": size,
            "noexec": noexec,
            "features": features,
            "files": files or {},
            "shim": "",
            "props": {
                "ro.product.model": name,
                "ro.product.cpu.abilist": abi.value,
                "ro.product.cpu.abi": abi.value,
                "ro.build.version.sdk": str(api),
                "ro.soc.manufacturer": "QTI",
                "ro.soc.model": "SM8550",
                "ro.hardware.egl": "adreno",
            },
        }
        if abi is not host_abi():
            self._emulate(abi)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def _emulate(self, abi: Abi) -> None:
        try:
            qemu, sysroot = find_qemu(abi), find_sysroot(triple_of(abi), explicit=None)
        except BuildtoolError as exc:
            pytest.skip(exc.what)
        shim = str(_shim(_MACHINES[abi]))
        self._config |= {"qemu": str(qemu), "sysroot": str(sysroot), "shim": shim}

    @property
    def serial(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Phone:
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._config))
        self._control, theirs = socket.socketpair()
        fds = (self._listener.fileno(), theirs.fileno())
        # The shell is process 1 there: it collects the ended processes that nobody waits for.
        words = ["sh", "-c", '"$@" & wait', "sh", sys.executable, str(_HERE / "daemon.py"), str(config)]
        with (self._folder / "daemon.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*_unshare(), *words, *map(str, fds)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        theirs.close()
        self._lines = self._control.makefile("rw", encoding="utf-8")
        if self._lines.readline() != "ready\n":
            self.__exit__(None, None, None)
            raise RuntimeError((self._folder / "daemon.log").read_text())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None and self._control is not None
        self._control.close()
        self._process.kill()  # unshare --kill-child: process 1 goes too, and with it all others
        self._process.wait()
        self._listener.close()

    def order(self, **faults: object) -> None:
        """Let something go wrong: ``unplugged``, ``drop_after`` (bytes), ``slow`` (s a packet),
        ``frozen``, ``state``."""
        print(json.dumps(faults), file=self._lines, flush=True)
        assert self._lines.readline() == "done\n"


class AdbServer:
    """A private adb server: its own port, HOME and keys; a context manager."""

    def __init__(self, folder: Path, adb: str = "adb") -> None:
        self.adb_path = adb
        self.port = free_port()
        self.home = folder / "adb-home"
        self.home.mkdir()
        self.env = {"ANDROID_ADB_SERVER_PORT": str(self.port), "HOME": str(self.home)}

    def __enter__(self) -> AdbServer:
        self.adb("start-server")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.adb("kill-server", check=False)

    def adb(self, *words: str, check: bool = True, timeout: float = 60) -> str:
        """What adb says on stdout."""
        done = subprocess.run(
            [self.adb_path, *words],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"adb {words}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def connect(self, phone: Phone) -> str:
        """Plug a phone in; returns its serial."""
        self.adb("connect", phone.serial, check=False)
        return phone.serial

    def leftovers(self, *phones: Phone) -> list[str]:
        """What is open or running because of us: forwards here, reverses and processes on the phones."""
        found = self.adb("forward", "--list").split("\n")
        for phone in phones:
            found += self.adb("-s", phone.serial, "reverse", "--list").split("\n")
            found += self.processes(phone)
        return [line for line in found if line.strip()]

    def processes(self, phone: Phone) -> list[str]:
        """Programs that run on the phone, but for its own daemon and the shell that looks."""
        text = self.adb("-s", phone.serial, "shell", "ps -e -o pid=,args=")
        own = ("daemon.py", "ps -e -o")
        return [line for line in text.splitlines() if not any(word in line for word in own)]

    def wait_for(self, phone: Phone, state: str, seconds: float = 15) -> None:
        deadline = time.monotonic() + seconds
        while f"{phone.serial}\t{state}" not in self.adb("devices"):
            assert time.monotonic() < deadline, self.adb("devices")
            time.sleep(0.1)
