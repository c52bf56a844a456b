"""Where binaries run: the Device protocol and its transports. Knows nothing of TVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buildtool.core.errors import UsageError
from buildtool.devices.base import Device, Properties, Pushed, Ran, RemoteProcess

if TYPE_CHECKING:
    from buildtool.settings import Settings
    from buildtool.toolchains.model import Toolchain

__all__ = ["Device", "Properties", "Pushed", "Ran", "RemoteProcess", "open_device"]


def open_device(spec: str, *, settings: Settings, toolchain: Toolchain | None) -> Device:
    """The device that ``spec`` names: ``qemu`` (emulated) or ``local`` (this machine).

    ``qemu`` takes ABI and C library from ``toolchain``, aarch64 Linux without
    one; where the ABI is this machine's own, it runs natively. Raises
    UsageError for another word, ToolMissing when the emulator is not there.
    """
    if spec in ("qemu", "local"):
        return _emulated(spec, settings, toolchain)
    raise UsageError(f"unknown device {spec!r}", where="--device", fix="known: qemu, local, none")


def _emulated(spec: str, settings: Settings, toolchain: Toolchain | None) -> Device:
    from buildtool.build.layout import build_root
    from buildtool.core.types import Abi
    from buildtool.devices.qemu import QemuDevice, default_root, find_qemu
    from buildtool.toolchains.cross import find_sysroot, triple_of
    from buildtool.toolchains.host import host_abi

    host = host_abi()
    abi = host if spec == "local" else toolchain.abi if toolchain else Abi.ARM64
    root = default_root(spec, abi, str(build_root(settings)))
    if abi is host:
        return QemuDevice(root, abi=abi, sysroot=None, qemu=None)
    sysroot = toolchain.sysroot if toolchain else None
    if sysroot is None:
        sysroot = find_sysroot(triple_of(abi), explicit=settings.toolchains.sysroot)
    return QemuDevice(root, abi=abi, sysroot=sysroot, qemu=find_qemu(abi))
