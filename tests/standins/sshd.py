"""A private sshd on the loopback interface: the real server, with keys, port and home of its own."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pytest

from buildtool.rpc.ports import LOOPBACK, free_port

_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host-key
AuthorizedKeysFile {folder}/allowed
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding {forwarding}
SetEnv HOME={folder}/home
Subsystem sftp internal-sftp
"""


def _programs() -> dict[str, str]:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = {name: shutil.which(name, path=path) for name in ("sshd", "ssh", "sftp", "ssh-keygen")}
    if missing := [name for name, place in found.items() if place is None]:
        pytest.skip(f"no {', '.join(missing)} on this machine (Debian: openssh-server openssh-client)")
    return {name: place for name, place in found.items() if place}


# Brings the loopback interface up, then serves the connection on stdin and stdout.
_ISOLATED = """\
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
os.execv(sys.argv[1], sys.argv[1:])
"""


class Sshd:
    """A running sshd; a context manager. ``options`` let a client in, and nobody else's keys do."""

    def __init__(self, folder: Path, *, forwarding: bool = True) -> None:
        self._programs = _programs()
        self._folder = folder
        self.port = free_port()
        self.user = getpass.getuser()
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        for name in ("host-key", "key", "other-key"):
            words = [self._programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(words, check=True)
        shutil.copy(folder / "key.pub", folder / "allowed")
        host_key = (folder / "host-key.pub").read_text()
        (folder / "known").write_text(f"[{LOOPBACK}]:{self.port} {host_key}")
        text = _CONFIG.format(port=self.port, folder=folder, forwarding="yes" if forwarding else "no")
        (folder / "sshd_config").write_text(text)
        self.options = self.options_with()
        self._process: subprocess.Popen[bytes] | None = None

    def options_with(self, *, key: str = "key", known: str = "known") -> dict[str, str]:
        return {
            "IdentityFile": str(self._folder / key),
            "UserKnownHostsFile": str(self._folder / known),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "IdentityAgent": "none",
        }

    def isolated_options(self) -> dict[str, str]:
        """Options that reach an sshd whose ports are not this machine's, as a real board's are not.

        Each connection has its own network there; skips the test where that needs rights we lack.
        """
        unshare = shutil.which("unshare")
        if unshare is None or os.geteuid() != 0:
            pytest.skip("a network of its own for sshd needs unshare and root")
        words = [unshare, "--net", sys.executable, "-c", _ISOLATED]
        words += [self._programs["sshd"], "-i", "-e", "-f", str(self._folder / "sshd_config")]
        return {**self.options, "ProxyCommand": " ".join(map(shlex.quote, words)).replace("%", "%%")}

    def __enter__(self) -> Sshd:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # its privilege separation wants it
        log = self._folder / "sshd.log"
        with log.open("wb") as stream:
            words = [self._programs["sshd"], "-D", "-e", "-f", str(self._folder / "sshd_config")]
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
            )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection((LOOPBACK, self.port), timeout=1).close()
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"sshd did not start: {log.read_text()}") from None
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self.cut()
        self._process.kill()
        self._process.wait()

    def cut(self) -> None:
        """End every connection at once, as a pulled cable does."""
        for pid in self._connections():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _connections(self) -> list[int]:
        """The sshd processes below the listening one (what they started is none of them)."""
        assert self._process is not None
        table: dict[int, tuple[str, int]] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            table[int(entry.name)] = (name, int(rest.split()[1]))
        found: list[int] = []
        parents = {self._process.pid}
        while parents:
            parents = {pid for pid, (name, up) in table.items() if up in parents and "sshd" in name}
            found += parents
        return found
