"""``qemu`` and ``local``: target programs on this machine, under user-mode emulation or natively.

User-mode emulation runs the target's own loader, C library and binaries, one
process each. It says nothing about a phone's drivers, kernel or bionic.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.files import atomic_write, sha256_file
from buildtool.core.process import run, spawn, stop, which
from buildtool.core.types import Abi
from buildtool.devices.base import Properties, Pushed, Ran
from buildtool.toolchains.cross import private_debian_root

if TYPE_CHECKING:
    from buildtool.devices.base import RemoteProcess
    from buildtool.devices.opencl import EmulatedOpenCl

_QEMU_NAMES = {
    Abi.ARM64: "qemu-aarch64",
    Abi.ARM32: "qemu-arm",
    Abi.X86_64: "qemu-x86_64",
    Abi.X86: "qemu-i386",
    Abi.RISCV64: "qemu-riscv64",
}
_ELF_MACHINES = {Abi.ARM64: 183, Abi.ARM32: 40, Abi.X86_64: 62, Abi.X86: 3, Abi.RISCV64: 243}
_PASSED = ("PATH", "HOME", "TMPDIR", "LANG", "USER")
_PUSHED = ".buildtool-pushed.json"


def find_qemu(abi: Abi) -> Path:
    """The user-mode emulator for ``abi``. Raises ToolMissing, naming the package that has it."""
    for name in (f"{_QEMU_NAMES[abi]}-static", _QEMU_NAMES[abi]):
        found = which(name) or which(str(private_debian_root() / "usr" / "bin" / name))
        if found is not None:
            return found
    raise ToolMissing(
        f"no {_QEMU_NAMES[abi]} to run {abi.value} programs with",
        fix="Debian/Ubuntu: apt-get install qemu-user-static, or run: buildtool doctor --install",
    )


class QemuDevice:
    """A folder of this machine that stands for a device.

    ``root`` holds what is pushed. ``sysroot`` has the target's C library; None
    runs static programs only (or the host's own). ``qemu`` None runs natively.
    ``opencl`` brings an OpenCL library, for emulation with a system root that takes
    the sysroot's place.
    """

    def __init__(
        self,
        root: Path,
        *,
        abi: Abi,
        sysroot: Path | None,
        qemu: Path | None,
        opencl: EmulatedOpenCl | None = None,
    ) -> None:
        self._folder = root.absolute() / "data" / "local" / "tmp" / f"buildtool-{getpass.getuser()}"
        self._abi = abi
        self._opencl = opencl
        self._sysroot = opencl.root if opencl and opencl.root else sysroot
        self._qemu = qemu
        self._running: list[LocalProcess] = []

    @property
    def name(self) -> str:
        return "qemu" if self._qemu else "local"

    @property
    def workdir(self) -> PurePosixPath:
        return PurePosixPath(self._folder)

    def properties(self) -> Properties:
        self._folder.mkdir(parents=True, exist_ok=True)
        model = "this machine"
        if self._qemu:
            words = run([self._qemu, "--version"], timeout=30).stdout.split()
            model = f"{self._qemu.name} {words[2] if len(words) > 2 else '?'}"
        return Properties(
            abis=(self._abi.value,),
            model=model,
            system="emulated" if self._qemu else "linux",
            soc=platform.processor() or platform.machine(),
            free_bytes=shutil.disk_usage(self._folder).free,
            page_size=os.sysconf("SC_PAGE_SIZE"),
            opencl=str(self._opencl.library) if self._opencl else None,
        )

    def push(self, files: Mapping[str, Path]) -> Pushed:
        """Copy ``files`` (name on the device: local path); equal ones (SHA-256 and mode) are left alone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        known = self._pushed()
        sent = size = 0
        for name, local in files.items():
            target = self._inside(name)
            mark = [sha256_file(local), local.stat().st_mode & 0o777]
            if known.get(name) == [*mark, *_stamp(target)]:
                continue
            self._copy(local, target)
            known[name] = [*mark, *_stamp(target)]
            sent, size = sent + 1, size + local.stat().st_size
        if sent:
            atomic_write(self._folder / _PUSHED, json.dumps(known, sort_keys=True))
        return Pushed(sent, size, len(files) - sent)

    def _pushed(self) -> dict[str, list[object]]:
        try:
            data = json.loads((self._folder / _PUSHED).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _inside(self, name: str) -> Path:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ConfigError(f"a pushed file must lie below the device's folder: {name!r}")
        return self._folder / name

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        """By a rename, so that a running program keeps its old file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent)
        os.close(handle)
        try:
            shutil.copy(source, name)
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise

    def pull(self, remote: str, local: Path) -> None:
        path = Path(remote) if PurePosixPath(remote).is_absolute() else self._inside(remote)
        if not path.is_file():
            raise ConfigError(f"no file {remote} on the device {self.name}")
        self._copy(path, local)

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Ran:
        begun = time.monotonic()
        words, host_env = self._command(argv, env or {})
        done = run(words, cwd=self._folder, env=host_env, timeout=timeout, check=False)
        return Ran(
            tuple(argv), done.returncode, done.stdout, done.stderr, time.monotonic() - begun, done.timed_out
        )

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> RemoteProcess:
        words, host_env = self._command(argv, env or {})
        process = LocalProcess(words, self._folder, host_env)
        self._running.append(process)
        return process

    def _command(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """The words to run here, and the environment to run them in."""
        self._folder.mkdir(parents=True, exist_ok=True)
        program = argv[0]
        path = Path(program) if PurePosixPath(program).is_absolute() else self._inside(program)
        self._check_program(path)
        host_env = {name: os.environ[name] for name in _PASSED if name in os.environ}
        variables = dict(env)
        if self._opencl is not None:
            for name, value in self._opencl.env.items():
                both = [variables.get(name, ""), value] if name == "LD_LIBRARY_PATH" else [value]
                variables[name] = ":".join(part for part in both if part)
        if self._qemu is None:
            return [str(path), *argv[1:]], {**host_env, **variables}
        words = [str(self._qemu)]
        if self._sysroot is not None:
            words += ["-L", str(self._sysroot)]
            libraries = [variables.get("LD_LIBRARY_PATH", ""), str(self._sysroot / "lib")]
            variables["LD_LIBRARY_PATH"] = ":".join(part for part in libraries if part)
        for name, value in variables.items():
            # By -E, because in qemu's own environment LD_* would hold for qemu too. But -E splits
            # at commas; a value with one goes by qemu's environment, which the guest inherits.
            if "," in value:
                host_env[name] = value
            else:
                words += ["-E", f"{name}={value}"]
        return [*words, str(path), *argv[1:]], host_env

    def _check_program(self, path: Path) -> None:
        """qemu's own words for these ("Invalid ELF image") name neither file nor cure."""
        if not path.is_file():
            raise ConfigError(
                f"no program {path.name} on the device {self.name}", where=str(path), fix="push it first"
            )
        with path.open("rb") as stream:
            head = stream.read(20)
            if head[:4] == b"\x7fELF":
                machine = int.from_bytes(head[18:20], "little")
                if machine != _ELF_MACHINES[self._abi]:
                    raise ConfigError(
                        f"{path.name} is built for another machine",
                        expected=f"{self._abi.value} (ELF machine {_ELF_MACHINES[self._abi]})",
                        found=f"ELF machine {machine}",
                    )
                self._check_loader(path, stream)
        if not os.access(path, os.X_OK):
            raise ConfigError(
                f"{path.name} is not executable", where=str(path), fix="chmod +x the file, push again"
            )

    def _check_loader(self, path: Path, stream: BinaryIO) -> None:
        """A program's loader must be in the sysroot (or on this machine, where qemu looks next)."""
        loader = _interpreter(path, stream) if self._qemu is not None else None
        if loader is None or Path(loader).exists():
            return
        if self._sysroot is None or not (self._sysroot / loader.lstrip("/")).exists():
            raise ConfigError(
                f"{path.name} needs the loader {loader}, which the device {self.name} has not",
                where=f"sysroot {self._sysroot}" if self._sysroot else "no sysroot",
                fix="name a root folder of the target that has it: sysroot of [devices.NAME] with kind "
                "qemu, or toolchains.sysroot (Debian: libc6-arm64-cross); or link the program statically",
            )

    @contextlib.contextmanager
    def reverse(self, device_port: int, host_port: int) -> Iterator[int]:
        """This device shares the host's loopback: its port is the host's."""
        yield host_port

    @contextlib.contextmanager
    def forward(self, device_port: int) -> Iterator[int]:
        yield device_port

    def remove(self, names: Iterable[str]) -> None:
        known = self._pushed()
        for name in names:
            self._inside(name).unlink(missing_ok=True)
            known.pop(name, None)
        if self._folder.is_dir():
            atomic_write(self._folder / _PUSHED, json.dumps(known, sort_keys=True))

    def close(self) -> None:
        for process in self._running:
            process.stop()
        self._running.clear()


def _stamp(path: Path) -> list[int]:
    """Size and time of change of a pushed file: another file in its place has others."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]


def _interpreter(path: Path, stream: BinaryIO) -> str | None:
    """The loader that an ELF program names, None for a static one. Raises ConfigError for a damaged file."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    try:
        segments = ELFFile(stream).iter_segments("PT_INTERP")
        names = [s.get_interp_name() for s in segments if isinstance(s, InterpSegment)]
    except Exception as exc:  # the parser's errors are of many kinds
        raise ConfigError(
            f"{path.name} is a damaged ELF file: {exc}", where=str(path), fix="build it again"
        ) from exc
    return names[0] if names else None


class LocalProcess:
    """A program that goes on running; its output goes to an unnamed file, so it never blocks on us."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._log = tempfile.TemporaryFile(prefix="buildtool-")  # noqa: SIM115 - lives as long as it
        self._process = spawn(command, cwd=cwd, env=env, stdout=self._log, stderr=subprocess.STDOUT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def output(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode("utf-8", "replace")

    def stop(self) -> int:
        return stop(self._process)


def default_root(kind: str, abi: Abi, scope: str) -> Path:
    """The folder of this user's emulated device; ``scope`` (a build folder) keeps two projects apart."""
    from buildtool.core.paths import cache_dir

    mark = hashlib.sha256(scope.encode()).hexdigest()[:12]
    return cache_dir() / "devices" / f"{kind}-{abi.value}-{mark}"
