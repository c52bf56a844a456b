"""A Device that is a folder of this machine: runs host programs, for tests of what uses devices."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from buildtool.devices.base import Properties, Pushed, Ran

_ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}


class LocalDevice:
    name = "local"

    def __init__(self, folder: Path, *, opencl: Path | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.closed = False
        self.opencl = opencl

    @property
    def workdir(self) -> PurePosixPath:
        return PurePosixPath(self.folder)

    def properties(self) -> Properties:
        abis = (_ABIS[platform.machine()],)
        opencl = str(self.opencl) if self.opencl else None
        return Properties(abis=abis, model="this machine", system="linux", opencl=opencl)

    def push(self, files: Mapping[str, Path]) -> Pushed:
        sent = size = 0
        for name, path in files.items():
            target = self.folder / name
            if not target.exists() or target.read_bytes() != path.read_bytes():
                shutil.copy2(path, target)
                sent, size = sent + 1, size + path.stat().st_size
        return Pushed(sent, size, len(files) - sent)

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Ran:
        begun = time.monotonic()
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(tuple(argv), done.returncode, done.stdout, done.stderr, time.monotonic() - begun)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        self.closed = True
