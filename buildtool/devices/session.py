"""A program on a device, tied to the connection that carries its output.

It runs there in a session of its own beside a watcher that reads the connection's standard input.
When that ends (we close it, are killed, the cable is pulled), the watcher ends the program and all
that it started: nothing is left running there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from buildtool.core.process import spawn, stop

STOP_SECONDS = 8.0
MARK = "buildtool-shell"
_EXIT = re.compile(rf"\n?{MARK} exit (\d+)\n?")
_PID = re.compile(rf"\n?{MARK} pid (\d+)\n")

# $0 is the process group to end. The first kill is a request; the second is not.
# (dash knows no "kill -9 -- -PID".)
_WATCHER = "cat >/dev/null; kill -15 -$0; sleep 2; kill -9 -$0"


def run_script(folder: str, argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The shell script that runs ``argv`` in ``folder`` and ends it when its own stdin ends.

    It tells pid and exit code in marked lines on stderr: the clients' own exit codes can't be
    trusted (adb's is 0 after a dropped connection).
    """
    # A bare name is a pushed program, never one of the device's own.
    argv = [argv[0] if "/" in argv[0] else f"./{argv[0]}", *argv[1:]]
    words = ["env", *(f"{k}={v}" for k, v in env.items()), *argv] if env else list(argv)
    command = " ".join(shlex.quote(word) for word in words)
    return "\n".join(
        [
            f"cd {shlex.quote(folder)} || exit",
            "exec 3<&0",
            f"setsid {command} </dev/null 3<&- & p=$!",
            f"setsid sh -c {shlex.quote(_WATCHER)} $p <&3 >/dev/null 2>&1 3<&- & w=$!",
            "exec 3<&-",
            f"printf '\\n{MARK} pid %s\\n' $p >&2",
            # The shell's own remarks on jobs that were killed are none of the program's words.
            "exec 4>&2 2>/dev/null",
            "wait $p; c=$?",
            "kill -9 -$w $w; kill -9 -$p; wait",
            f"printf '\\n{MARK} exit %s\\n' $c >&4",
        ]
    )


def strip_marks(text: str) -> str:
    """A program's own words."""
    return _EXIT.sub("", _PID.sub("", text))


def exit_code(text: str) -> int | None:
    """The code in the last exit mark, None when there is none (the connection was lost)."""
    found = _EXIT.findall(text)
    return int(found[-1]) if found else None


class RemoteSession:
    """A program on the device, held by a client process here that carries its output."""

    LOST = -1
    """The "exit code" of a program whose connection was lost."""

    def __init__(self, argv: Sequence[str], name: str, *, merge: bool) -> None:
        self._name = name
        self._out = tempfile.TemporaryFile(prefix="buildtool-")  # noqa: SIM115 - lives as long as it
        self._err = self._out if merge else tempfile.TemporaryFile(prefix="buildtool-")  # noqa: SIM115
        err = subprocess.STDOUT if merge else self._err
        self._client = spawn(argv, stdin=subprocess.PIPE, stdout=self._out, stderr=err)

    @staticmethod
    def _read(stream: object) -> str:
        fd = stream.fileno()  # type: ignore[attr-defined]
        return os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", "replace")

    @property
    def pid(self) -> int:
        """Its process id on the device, 0 until that is known."""
        match = _PID.search(self._read(self._err))
        return int(match.group(1)) if match else 0

    def poll(self) -> int | None:
        if self._client.poll() is None:
            return None
        code = exit_code(self._read(self._err))
        return self.LOST if code is None else code

    def output(self) -> str:
        text = strip_marks(self._read(self._out))
        return f"{text}\n[connection to {self._name} lost]\n" if self.poll() == self.LOST else text

    def errors(self) -> str:
        return strip_marks(self._read(self._err))

    def wait(self, timeout: float | None) -> bool:
        """Whether it ended within ``timeout`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._client.wait(timeout)
            return True
        return False

    def stop(self) -> int:
        # The watcher over there does it, and the client ends with the program.
        assert self._client.stdin is not None
        with contextlib.suppress(OSError):
            self._client.stdin.close()
        self.wait(STOP_SECONDS)
        stop(self._client)
        code = self.poll()
        return self.LOST if code is None else code
