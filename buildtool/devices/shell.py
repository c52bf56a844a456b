"""A device behind a POSIX shell: what adb and ssh have in common."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import TypeVar

from buildtool.core.errors import BuildtoolError, ConfigError, UsageError
from buildtool.core.files import human_size
from buildtool.core.process import Completed, run
from buildtool.devices import manifest, properties
from buildtool.devices.base import DeviceLost, Properties, Pushed, Ran
from buildtool.devices.session import MARK, RemoteSession, exit_code, run_script, strip_marks

T = TypeVar("T")
ASK_SECONDS = 30.0
"""For a small shell script of ours on a device that answers at all."""
TRANSFER_SECONDS, SLOWEST_BYTES = 60.0, 1e6
"""A file may take the first, and its size divided by the second (bytes/s)."""
BACK_SECONDS = 15.0
"""How long a lost device may take to come back before an operation that can be repeated fails."""


class ShellDevice(ABC):
    """What adb and ssh devices share; a transport gives the methods at the end."""

    def __init__(self, workdir: str | None) -> None:
        self._wanted_workdir = workdir
        self._place: PurePosixPath | None = None
        self._properties: Properties | None = None
        self._sessions: list[RemoteSession] = []
        self._mark = uuid.uuid4().hex[:8]
        self._stack = contextlib.ExitStack()

    @property
    def workdir(self) -> PurePosixPath:
        if self._place is None:
            self._place = self._prepare()
        return self._place

    def _prepare(self) -> PurePosixPath:
        """Make the folder, and refuse one whose file system forbids to run programs."""
        folder = self.default_workdir() if self._wanted_workdir is None else self._wanted_workdir
        done = self.ask(f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)} && pwd -P", check=False)
        place = done.stdout.strip()
        if not done.ok or not place.startswith("/"):
            raise self.refused(f"can't make the folder {folder} on {self.name}", done)
        mounts = self.ask("cat /proc/mounts", check=False).stdout
        if properties.mounted_noexec(place, mounts):
            raise UsageError(
                f"programs may not run from {place} on {self.name}: its file system is mounted noexec",
                fix="set workdir of that device in buildtool.toml to a folder that may "
                "(Android: below /data/local/tmp)",
            )
        return PurePosixPath(place)

    def properties(self) -> Properties:
        """What the device says of itself, asked once."""
        if self._properties is None:
            script = properties.SCRIPT.replace("@DIR@", shlex.quote(str(self.workdir)))
            self._properties = properties.parse(self.ask(script).stdout)
        return self._properties

    # -- files -------------------------------------------------------------------------

    def push(self, files: Mapping[str, Path]) -> Pushed:
        """Copy ``files`` (name on the device: local path), only those that are not there yet.

        A manifest on the device holds digest, mode, size and time of each pushed file. Files
        arrive beside their place, are compared by digest and then renamed: never half a file.
        Raises ConfigError for files of another machine, UsageError when there is no room.
        """
        wanted = {self._checked(name): manifest.Entry.of(path) for name, path in files.items()}
        properties.check_machines(files, self.properties().abis, self.name)
        return self.repeatable(lambda: self._push(files, wanted))

    def _push(self, files: Mapping[str, Path], wanted: Mapping[str, manifest.Entry]) -> Pushed:
        known, room = self._known(wanted)
        todo = [name for name, entry in wanted.items() if not entry.same_file(known.get(name))]
        if not todo:
            return Pushed(0, 0, len(files))
        size = sum(wanted[name].size for name in todo)
        if room is not None and size > room:
            raise self._full(size, room)
        incoming = f"{self.workdir}/.incoming-{self._mark}"
        try:
            self._send({name: files[name] for name in todo}, wanted, incoming)
            known |= {name: wanted[name] for name in todo}
            self._commit(todo, known, incoming)
        finally:
            # Of a device that was gone by now, a later push removes the folder.
            with contextlib.suppress(BuildtoolError):
                self.ask(
                    f"cd {shlex.quote(str(self.workdir))} && rm -rf {shlex.quote(incoming)} && "
                    "find . -maxdepth 1 -name '.incoming-*' -mmin +60 -exec rm -rf {} +"
                )
        return Pushed(len(todo), size, len(files) - len(todo))

    def _known(self, names: Iterable[str]) -> tuple[dict[str, manifest.Entry], int | None]:
        """Manifest entries that still describe the files there, and the free bytes."""
        asked = list(names)
        quoted = " ".join(shlex.quote(f"./{name}") for name in asked)
        done = self.ask(
            f"cd {shlex.quote(str(self.workdir))}; cat {manifest.NAME} 2>/dev/null; echo {MARK}; df -k . ; "
            f"echo {MARK}; stat -c '%s %Y %a %n' {quoted or '.'} 2>/dev/null; true"
        )
        text, free, stats = done.stdout.split(f"{MARK}\n", 2)
        return manifest.alive(manifest.parse(text), asked, stats), properties.free_bytes(free)

    def _send(self, files: Mapping[str, Path], wanted: Mapping[str, manifest.Entry], incoming: str) -> None:
        self.ask(f"mkdir -p {shlex.quote(incoming)}")
        for number, path in enumerate(files.values()):
            limit = TRANSFER_SECONDS + path.stat().st_size / SLOWEST_BYTES
            done = self.copy_in(path, f"{incoming}/{number}", timeout=limit)
            if not done.ok:
                raise self._not_copied(f"can't copy {path.name} to {self.name}", done, path.stat().st_size)
        numbers = " ".join(str(n) for n in range(len(files)))
        said = self.ask(f"cd {shlex.quote(incoming)} && sha256sum {numbers}").stdout
        arrived = [line.split()[0] for line in said.splitlines() if line.strip()]
        if arrived != [wanted[name].sha256 for name in files]:
            raise DeviceLost(f"what arrived on {self.name} is not what was sent", found=said[:200])

    def _commit(self, names: Sequence[str], known: Mapping[str, manifest.Entry], incoming: str) -> None:
        lines = ["set -e", f"cd {shlex.quote(str(self.workdir))}"]
        for number, name in enumerate(names):
            source, target = shlex.quote(f"{incoming}/{number}"), shlex.quote(f"./{name}")
            lines += [f"mkdir -p {shlex.quote(str(PurePosixPath(name).parent))}"]
            lines += [f"chmod {known[name].mode:o} {source}", f"mv -f {source} {target}"]
        self.ask("\n".join([*lines, manifest.write_script(known, incoming)]))

    def _checked(self, name: str) -> str:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\n" in name:
            raise ConfigError(f"a pushed file must lie below the device's folder: {name!r}")
        return name

    def pull(self, remote: str, local: Path) -> None:
        """Copy one file from the device, whole or not at all."""
        path = remote if PurePosixPath(remote).is_absolute() else str(self.workdir / self._checked(remote))
        self.repeatable(lambda: self._pull(path, local))

    def _pull(self, path: str, local: Path) -> None:
        quoted = shlex.quote(path)
        said = self.ask(f"[ -f {quoted} ] && sha256sum <{quoted}", check=False).stdout.split()
        if not said:
            raise ConfigError(f"no file {path} on the device {self.name}")
        local.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{local.name}.", dir=local.parent) as folder:
            arrived = Path(folder) / "file"
            done = self.copy_out(path, arrived, timeout=TRANSFER_SECONDS * 10)
            if not done.ok or not arrived.is_file():
                raise self.refused(f"can't copy {path} from {self.name}", done)
            if manifest.Entry.of(arrived).sha256 != said[0]:
                raise DeviceLost(f"{path} did not arrive whole from {self.name}")
            arrived.chmod(0o644)
            os.replace(arrived, local)

    def remove(self, names: Iterable[str]) -> None:
        gone = [self._checked(name) for name in names]
        if gone:
            quoted = " ".join(shlex.quote(f"./{name}") for name in gone)
            self.ask(f"cd {shlex.quote(str(self.workdir))} && rm -f {quoted}")

    def _full(self, size: int, room: int) -> UsageError:
        return UsageError(
            f"the device {self.name} is full",
            where=str(self.workdir),
            expected=f"{human_size(size)} free",
            found=f"{human_size(room)} free",
            fix=f"free some space there, for example old files in {self.workdir}",
        )

    def _not_copied(self, what: str, done: Completed, size: int) -> BuildtoolError:
        if "No space left" in done.stdout + done.stderr:
            return self._full(size, properties.free_bytes(self.ask("df -k " + str(self.workdir)).stdout) or 0)
        return self.refused(what, done)

    # -- programs ----------------------------------------------------------------------

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Ran:
        """Run a program to its end. Raises DeviceLost when the connection ends before it."""
        begun = time.monotonic()
        session = self._session(argv, env, merge=False)
        try:
            in_time = session.wait(timeout)
        finally:
            code = session.stop()
            self._sessions.remove(session)
        if code == RemoteSession.LOST and in_time:
            raise self.lost(f"the connection to {self.name} was lost while {argv[0]} ran", session.errors())
        seconds = time.monotonic() - begun
        return Ran(tuple(argv), code, session.output(), session.errors(), seconds, not in_time)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> RemoteSession:
        return self._session(argv, env, merge=True)

    def _session(self, argv: Sequence[str], env: Mapping[str, str] | None, *, merge: bool) -> RemoteSession:
        script = run_script(str(self.workdir), argv, env or {})
        session = RemoteSession(self.shell_argv(script), self.name, merge=merge)
        self._sessions.append(session)
        return session

    def ask(self, script: str, *, timeout: float = ASK_SECONDS, check: bool = True) -> Completed:
        """Run a small script of ours to its end; ``check`` raises on another exit code than 0.

        Raises DeviceLost when the device does not answer.
        """
        text = f"(\n{script}\n)\nprintf '\\n{MARK} exit %s\\n' $? >&2"
        done = run(self.shell_argv(text), timeout=timeout, check=False)
        code = exit_code(done.stderr)
        if code is None:
            why = f"it did not answer within {timeout:g} s" if done.timed_out else "the connection was lost"
            raise self.lost(f"{self.name}: {why}", done.stderr)
        done = Completed(done.argv, code, done.stdout, strip_marks(done.stderr), done.seconds)
        if check and code != 0:
            raise self.refused(f"a command failed on {self.name}", done)
        return done

    def refused(self, what: str, done: Completed) -> BuildtoolError:
        """The error for something that the device (or its client here) refused."""
        if "No space left" in done.stdout + done.stderr:
            return UsageError(
                f"{what}: the device is full", fix="free some space there", details=done.tail(5)
            )
        if done.timed_out:
            return self.lost(f"{what}: no answer in time", done.stderr)
        return BuildtoolError(what, details=done.tail(5))

    def repeatable(self, action: Callable[[], T]) -> T:
        """Do something that may be done twice: once more when the device was lost and comes back."""
        try:
            return action()
        except DeviceLost:
            if not self.comes_back(BACK_SECONDS):
                raise
            return action()

    def close(self) -> None:
        for session in self._sessions:
            session.stop()
        self._sessions.clear()
        self._stack.close()

    # -- what a transport gives ----------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """Serial or host name."""

    @abstractmethod
    def default_workdir(self) -> str: ...

    @abstractmethod
    def shell_argv(self, script: str) -> list[str]:
        """The command that runs ``script`` in the device's shell, stdin and stdout passed through."""

    @abstractmethod
    def copy_in(self, local: Path, remote: str, *, timeout: float) -> Completed:
        """Copy a file there, its time of change kept."""

    @abstractmethod
    def copy_out(self, remote: str, local: Path, *, timeout: float) -> Completed: ...

    @abstractmethod
    def lost(self, what: str, said: str) -> BuildtoolError:
        """The error for a connection that ended, with what is known of the device now."""

    @abstractmethod
    def comes_back(self, seconds: float) -> bool:
        """Wait for the device to answer again; False when it does not."""

    @abstractmethod
    def reverse(self, device_port: int, host_port: int) -> AbstractContextManager[int]: ...

    @abstractmethod
    def forward(self, device_port: int) -> AbstractContextManager[int]: ...


def user_word(name: str) -> str:
    """A user's name as a part of a folder name that needs no quoting anywhere."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "user"


@contextlib.contextmanager
def undone(undo: Callable[[], object]) -> Iterator[None]:
    """Call ``undo`` at the end of the block; a device that is gone has nothing left to undo."""
    try:
        yield
    finally:
        with contextlib.suppress(BuildtoolError):
            undo()
