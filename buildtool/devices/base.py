"""The Device protocol: a place where target binaries run, whatever the transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from buildtool.core.errors import CheckFailed
from buildtool.core.process import Completed


class DeviceLost(CheckFailed):
    """The connection to a device ended in the middle of something."""


class PortTaken(CheckFailed):
    """A port that was asked for is in use, here or on the device."""


@dataclass(frozen=True)
class Properties:
    """What a device says of itself; None where it does not say."""

    abis: tuple[str, ...]
    """Supported ABIs, preferred one first, in Android's spelling."""
    model: str
    system: str
    """``android``, ``linux`` or ``emulated``."""
    api_level: int | None = None
    soc: str | None = None
    gpu: str | None = None
    free_bytes: int | None = None
    page_size: int | None = None
    opencl: str | None = None
    """Path of the device's OpenCL library."""
    opencl_for_apps: bool | None = None
    """Android: whether apps may load it (it is in public.libraries.txt); a shell always may."""


@dataclass(frozen=True)
class Pushed:
    """What a push did: files and bytes really sent, and files already there (equal digest)."""

    sent: int
    bytes: int
    kept: int


@dataclass(frozen=True)
class Ran(Completed):
    """A finished program on the device. ``timed_out``: it was ended at the time limit.

    ``returncode`` of a program that a signal N ended: -N on this machine, 128+N where a
    shell tells it (adb, ssh).
    """


class RemoteProcess(Protocol):
    """A program still running on the device."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def output(self) -> str:
        """All that it has printed so far (stdout and stderr)."""

    def stop(self) -> int:
        """End it and what it started; returns its exit code."""


class Device(Protocol):
    """A place to run target binaries. All remote paths are absolute or relative to :attr:`workdir`."""

    @property
    def name(self) -> str:
        """Serial, host name or ``qemu``."""

    @property
    def workdir(self) -> PurePosixPath:
        """The folder that this user's files go to."""

    def properties(self) -> Properties: ...

    def push(self, files: Mapping[str, Path]) -> Pushed:
        """Copy local files to ``workdir``/key, only those whose digest differs; the mode is kept."""

    def pull(self, remote: str, local: Path) -> None:
        """Copy one file from the device, whole or not at all."""

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Ran:
        """Run a program in ``workdir`` to its end; its exit code is in the result, not raised."""

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> RemoteProcess:
        """Start a program in ``workdir`` that goes on running."""

    def reverse(self, device_port: int, host_port: int) -> AbstractContextManager[int]:
        """Let the device reach ``127.0.0.1:host_port`` here; yields the device's port. Undone at exit."""

    def forward(self, device_port: int) -> AbstractContextManager[int]:
        """Let this host reach the device's port under the same number on 127.0.0.1; yields it.

        Undone at exit. Raises PortTaken when that number is in use here.
        """

    def remove(self, names: Iterable[str]) -> None:
        """Delete files below ``workdir``; absent ones are no error."""

    def close(self) -> None:
        """End what is still running there and give up ports; the pushed files stay."""
