"""Linux boards, through the system's ssh and sftp."""

from __future__ import annotations

import contextlib
import os
import random
import re
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from buildtool.core.errors import BuildtoolError, ConfigError, ToolMissing, UsageError
from buildtool.core.process import Completed, run, spawn, stop, which
from buildtool.devices.base import DeviceLost, PortTaken
from buildtool.devices.shell import ShellDevice, undone

CONNECT_SECONDS = 15
_READY = "buildtool-ready"
_OTHER_PORTS = range(20000, 32000)
"""Below those that Linux gives to outgoing connections."""
_OPTIONS = {
    "BatchMode": "yes",  # never a prompt: keys or an agent
    "ConnectTimeout": str(CONNECT_SECONDS),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ExitOnForwardFailure": "yes",
    "LogLevel": "ERROR",
}
_FIXES = (
    ("Permission denied", "let a key of yours in: ssh-copy-id, or load it into the agent: ssh-add"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "the board was reinstalled, or another machine answers"),
    ("Host key verification failed", "log in once by hand with ssh, and compare the host key"),
    ("Could not resolve", "see the host's name"),
    ("refused", "start sshd there, or name its port: ssh:USER@HOST:PORT"),
    ("timed out", "see whether the board is on and in this network"),
    ("No route", "see whether the board is on and in this network"),
)


class SshDevice(ShellDevice):
    """A board behind sshd. ~/.ssh/config applies; one connection is kept and shared.

    ``options`` are further ssh options by name. Raises UsageError, with what to do, when ssh
    can't log in without a question.
    """

    def __init__(
        self,
        host: str,
        *,
        user: str | None = None,
        port: int | None = None,
        workdir: str | None = None,
        options: dict[str, str] | None = None,
    ) -> None:
        super().__init__(workdir)
        for tool in ("ssh", "sftp"):
            if which(tool) is None:
                raise ToolMissing(f"no {tool}", fix="Debian/Ubuntu: apt-get install openssh-client")
        self._target = f"{user}@{host}" if user else host
        self._port = port
        self._master: subprocess.Popen[bytes] | None = None
        # A socket's path may hold 107 bytes only, so it lies in the system's own temporary folder.
        self._folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bt-ssh-", dir="/tmp"))
        )
        self._options = {**_OPTIONS, "ControlPath": str(self._folder / "s"), **(options or {})}
        self._stack.callback(self._leave)
        try:
            self._connect()
        except BaseException:
            self._stack.close()
            raise

    @property
    def name(self) -> str:
        return self._target

    def _words(self, tool: str, *more: str) -> list[str]:
        words = [tool, *more]
        for key, value in self._options.items():
            words += ["-o", f"{key}={value}"]
        if self._port:
            words += ["-o", f"Port={self._port}"]
        return [*words, "--", self._target]

    def _connect(self) -> None:
        """Start the connection that all others go through.

        It lasts as long as the pipe to its standard input: also when we are killed outright, ssh
        and the ports that it holds go.
        """
        self._leave()
        (self._folder / "s").unlink(missing_ok=True)
        with tempfile.TemporaryFile() as errors:
            words = [*self._words("ssh", "-T", "-o", "ControlMaster=yes"), f"echo {_READY}; exec cat"]
            self._master = spawn(words, stdin=subprocess.PIPE, stderr=errors)
            if self._is_ready(self._master):
                return
            stop(self._master)
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").splitlines()
        raise UsageError(
            f"can't log in to {self._target} by ssh",
            where=f"ssh:{self._target}" + (f":{self._port}" if self._port else ""),
            fix=next((fix for word, fix in _FIXES if any(word in line for line in said)), None),
            details=said[-5:] or [f"no answer within {CONNECT_SECONDS * 2} s"],
        )

    @staticmethod
    def _is_ready(master: subprocess.Popen[bytes]) -> bool:
        """Whether the far end's shell spoke. What it prints before (a greeting) is passed over."""
        assert master.stdout is not None
        said = b""
        deadline = time.monotonic() + CONNECT_SECONDS * 2
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([master.stdout], [], [], left)[0]:
                return False
            part = os.read(master.stdout.fileno(), 1 << 16)
            said += part
            if not part or _READY.encode() in said:
                return bool(part)
        return False

    def _control(self, order: str, *words: str) -> Completed:
        return run(self._words("ssh", "-O", order, *words), timeout=20, check=False)

    def _leave(self) -> None:
        if self._master is not None:
            for pipe in (self._master.stdin, self._master.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
            stop(self._master)
            self._master = None

    def default_workdir(self) -> str:
        done = self.ask("cd && pwd -P")
        return f"{done.stdout.strip()}/.buildtool"

    def shell_argv(self, script: str) -> list[str]:
        # The login shell there may be of any kind: it sees one plain command.
        return [*self._words("ssh", "-T"), f"exec sh -c {shlex.quote(script)}"]

    def copy_in(self, local: Path, remote: str, *, timeout: float) -> Completed:
        return self._sftp(f"put -p {_sftp_word(str(local))} {_sftp_word(remote)}", timeout)

    def copy_out(self, remote: str, local: Path, *, timeout: float) -> Completed:
        return self._sftp(f"get -p {_sftp_word(remote)} {_sftp_word(str(local))}", timeout)

    def _sftp(self, order: str, timeout: float) -> Completed:
        words = self._words("sftp", "-q", "-b", "-")
        return run(words, stdin=f"{order}\n".encode(), timeout=timeout, check=False)

    def lost(self, what: str, said: str) -> BuildtoolError:
        alive = self._control("check").ok
        fix = "run this again" if alive else "see whether the board is on and in this network"
        found = "ssh's connection is there" if alive else "ssh's connection is gone"
        return DeviceLost(what, found=found, fix=fix, details=said.strip().splitlines()[-3:])

    def comes_back(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._control("check").ok:
                return True
            with contextlib.suppress(UsageError):
                self._connect()
                return True
            time.sleep(0.5)
        return False

    @contextlib.contextmanager
    def reverse(self, device_port: int, host_port: int) -> Iterator[int]:
        """Where ``device_port`` is taken there, another one; the port is yielded."""
        # Not ssh's own choice (port 0): what it chose can't be given up again by its number.
        for port in (device_port, *random.sample(_OTHER_PORTS, 5)):
            spec = f"127.0.0.1:{port}:127.0.0.1:{host_port}"
            done = self._control("forward", "-R", spec)
            if done.ok:
                break
        else:
            raise self.refused(f"{self.name} opens no port for us (AllowTcpForwarding in its sshd?)", done)
        with undone(lambda: self._control("cancel", "-R", spec)):
            yield port

    @contextlib.contextmanager
    def forward(self, device_port: int) -> Iterator[int]:
        spec = f"127.0.0.1:{device_port}:127.0.0.1:{device_port}"
        done = self._control("forward", "-L", spec)
        if not done.ok:
            raise PortTaken(f"port {device_port} is in use on this machine", where=spec, details=done.tail(3))
        with undone(lambda: self._control("cancel", "-L", spec)):
            yield device_port


def _sftp_word(path: str) -> str:
    """A path as one word of an sftp batch. Raises ConfigError for what would be a second line."""
    if "\n" in path or "\r" in path:
        raise ConfigError(f"a file name with a line break can't be copied by sftp: {path!r}")
    # Within quotes sftp itself keeps *, ? and [ from being globbed.
    escaped = re.sub(r'([\\"])', r"\\\1", path)
    return f'"{escaped}"'
