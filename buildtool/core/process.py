"""Run programs: argument lists only, live lines, time limits, whole process groups cleaned up.

Every child gets a session of its own, so that a time limit, Ctrl-C or SIGTERM
ends the child *and* what it started. On Linux a child is also told to end when
this process is killed outright (prctl PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from buildtool.core.errors import ProcessFailed, ToolMissing

GRACE_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1

Argv = Sequence["str | os.PathLike[str]"]


@dataclass(frozen=True)
class Completed:
    """What a finished program left: its words, exit code, output and wall seconds."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.returncode == 0 and not self.timed_out

    def tail(self, lines: int = 20) -> list[str]:
        """The last lines of what it said, stderr after stdout."""
        text = "\n".join(part for part in (self.stdout, self.stderr) if part.strip())
        return text.splitlines()[-lines:]


def quote(argv: Argv) -> str:
    """The words as a person would type them in a POSIX shell (for display only)."""
    return " ".join(shlex.quote(os.fspath(word)) for word in argv)


def which(name: str, *, path: str | None = None) -> Path | None:
    """The program's path, or None. Looks in ``path`` or PATH."""
    found = shutil.which(name, path=path)
    return Path(found) if found else None


@functools.cache
def _die_with_parent() -> Callable[[], None]:
    # All look-ups happen before the fork; the child only makes the system call.
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    words = [ctypes.c_ulong(n) for n in (_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)]

    def call() -> None:  # pragma: no cover - runs in the forked child
        prctl(*words)

    return call


def _preexec() -> Callable[[], None] | None:
    # The kernel ties the signal to the *thread* that forked: a worker thread's
    # end would kill the child, so only the main thread asks for it.
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    return _die_with_parent()


def spawn(
    argv: Argv,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.PIPE,
    stderr: int | IO[bytes] | None = subprocess.PIPE,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; the caller ends it with :func:`stop`.

    Raises ToolMissing when the program does not exist or can't be executed.
    """
    words = [os.fspath(word) for word in argv]
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=_preexec(),  # noqa: PLW1509 - see _die_with_parent
        )
    except FileNotFoundError as exc:
        if cwd is not None and not cwd.is_dir():
            raise ToolMissing(f"no folder {cwd} to run {words[0]} in") from exc
        raise ToolMissing(f"program not found: {words[0]}", where=quote(words)) from exc
    except PermissionError as exc:
        raise ToolMissing(f"program may not be executed: {words[0]}", where=quote(words)) from exc


def _signal_group(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


def stop(process: subprocess.Popen[bytes], *, grace: float = GRACE_SECONDS) -> int:
    """End a program from :func:`spawn` and all it started; returns its exit code."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    # Also after a clean end: a forked server outlives its parent in the same group.
    _signal_group(process.pid, signal.SIGKILL)
    return process.wait()


@contextlib.contextmanager
def running(argv: Argv, **kwargs: object) -> Iterator[subprocess.Popen[bytes]]:
    """:func:`spawn` for the length of a ``with`` block, ended on every way out."""
    process = spawn(argv, **kwargs)  # type: ignore[arg-type]
    try:
        yield process
    finally:
        stop(process)


def _pump(stream: IO[bytes], sink: list[str], on_line: Callable[[str], None] | None) -> None:
    for raw in iter(stream.readline, b""):
        line = raw.decode("utf-8", "replace")
        sink.append(line)
        if on_line is not None:
            on_line(line.rstrip("\r\n"))
    stream.close()


def run(
    argv: Argv,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    stdin: bytes | None = None,
    on_line: Callable[[str], None] | None = None,
    merge: bool = False,
    check: bool = True,
    what: str | None = None,
) -> Completed:
    """Run a program to its end and return its output.

    ``timeout`` is in seconds; when it passes, the whole process group is ended
    and ``timed_out`` is set. ``on_line`` sees each line of output as it comes
    (from a worker thread; with ``merge`` stderr is folded into stdout).
    ``check`` raises ProcessFailed, named by ``what``, on any other code than 0.
    """
    begun = time.monotonic()
    process = spawn(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
    )
    out: list[str] = []
    err: list[str] = []
    pumps = [threading.Thread(target=_pump, args=(process.stdout, out, on_line), daemon=True)]
    if process.stderr is not None:
        pumps.append(threading.Thread(target=_pump, args=(process.stderr, err, on_line), daemon=True))
    if stdin is not None:
        pumps.append(threading.Thread(target=_feed, args=(process, stdin), daemon=True))
    timed_out = False
    try:
        for pump in pumps:
            pump.start()
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        # Grandchildren may hold the pipes open: end the group before draining.
        code = stop(process)
        for pump in pumps:
            if pump.ident is not None:
                pump.join(GRACE_SECONDS)
    words = tuple(os.fspath(word) for word in argv)
    done = Completed(words, code, "".join(out), "".join(err), time.monotonic() - begun, timed_out)
    if check and not done.ok:
        raise failure(done, what=what, timeout=timeout)
    return done


def _feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(data)
        process.stdin.close()


def failure(done: Completed, *, what: str | None = None, timeout: float | None = None) -> ProcessFailed:
    """The ProcessFailed that describes how ``done`` ended."""
    name = what or Path(done.argv[0]).name
    if done.timed_out:
        how = f"did not finish within {timeout:g} s" if timeout else "did not finish in time"
    elif done.returncode < 0:
        how = f"was ended by {signal.Signals(-done.returncode).name}"
    else:
        how = f"failed with exit code {done.returncode}"
    return ProcessFailed(
        f"{name} {how}",
        returncode=None if done.timed_out else done.returncode,
        where=quote(done.argv),
        details=done.tail(),
    )
