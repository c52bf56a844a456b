"""From the words of ``--device`` to open devices."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.console import screen
from buildtool.core.errors import BuildtoolError, ConfigError, UsageError, did_you_mean
from buildtool.devices.base import Device

if TYPE_CHECKING:
    from buildtool.devices.adb_client import Adb
    from buildtool.settings import Settings
    from buildtool.settings.model import DeviceSettings
    from buildtool.toolchains.model import Toolchain

SPECS = "qemu, local, adb, adb:SERIAL, a serial, ssh:USER@HOST[:PORT], a name or label of [devices], all"
_SSH = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9a-zA-Z:.%]+\]|[^@:\s]+)(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Candidate:
    """A device that could be opened: serial, address or ``qemu``; the spec that names just it; how."""

    name: str
    spec: str
    open: Callable[[], Device]


def open_device(spec: str, *, settings: Settings, toolchain: Toolchain | None) -> Device:
    """The device that ``spec`` names; see :data:`SPECS`.

    ``qemu`` (emulated) takes ABI and C library from ``toolchain``, aarch64 Linux without one; where
    the ABI is this machine's own, it runs natively, as ``local`` always does. ``adb`` is the device
    that ANDROID_SERIAL names, or the only usable one. Raises UsageError for an unknown word, for a
    device that can't be used (and what to do), and for several where one is meant; ToolMissing when
    emulator, adb or ssh is not there.
    """
    found = candidates(spec, settings=settings, toolchain=toolchain)
    if len(found) > 1:
        names = ", ".join(c.name for c in found)
        raise UsageError(f"{spec} names several devices: {names}", where="--device", fix="name one of them")
    return found[0].open()


def open_devices(spec: str, *, settings: Settings, toolchain: Toolchain | None) -> list[Device]:
    """All devices that ``spec`` names: words joined by commas, a label, or ``all``.

    Opens all or none. ``all`` is every device of the settings and every other usable Android device.
    """
    opened: list[Device] = []
    try:
        for candidate in candidates(spec, settings=settings, toolchain=toolchain):
            opened.append(candidate.open())
    except BaseException:
        for device in opened:
            device.close()
        raise
    return opened


def candidates(spec: str, *, settings: Settings, toolchain: Toolchain | None) -> list[Candidate]:
    """What ``spec`` names, at least one, none twice. Nothing is opened, but adb may be asked."""
    found: dict[str, Candidate] = {}
    for word in [w.strip() for w in spec.split(",") if w.strip()] or [spec]:
        for candidate in _one_word(word, settings, toolchain):
            found.setdefault(candidate.name, candidate)
    return list(found.values())


def _one_word(word: str, settings: Settings, toolchain: Toolchain | None) -> list[Candidate]:
    if word in ("qemu", "local"):
        return [Candidate(word, word, lambda: _emulated(word, settings, toolchain))]
    kind, colon, rest = word.partition(":")
    if word == "adb" or (kind == "adb" and colon):
        return [_adb(rest or None)]
    if kind == "ssh" and colon:
        return [_ssh(rest)]
    if word == "all":
        return _all(settings, toolchain)
    if word in settings.devices:
        return [_named(word, settings, toolchain)]
    labelled = [name for name, device in settings.devices.items() if word in device.labels]
    if labelled:
        return [_named(name, settings, toolchain) for name in labelled]
    return [_bare_serial(word, settings)]


def _named(name: str, settings: Settings, toolchain: Toolchain | None) -> Candidate:
    device = settings.devices[name]
    if device.kind == "adb":
        return _adb(device.serial, device, name)
    if device.kind == "ssh":
        host = f"[{device.host}]" if ":" in (device.host or "") else device.host
        user = f"{device.user}@" if device.user else ""
        return _ssh(f"{user}{host}" + (f":{device.port}" if device.port else ""), device, name)
    if device.sysroot is None:
        return Candidate("qemu", name, lambda: _emulated("qemu", settings, toolchain))
    folder = settings.file.parent if settings.file else Path()
    root = (folder / Path(device.sysroot).expanduser()).absolute()
    if not root.is_dir():
        raise ConfigError("no such folder", where=f"[devices.{name}] sysroot = {root}")
    return Candidate(name, name, lambda: _emulated(name, settings, toolchain, sysroot=root))


def _all(settings: Settings, toolchain: Toolchain | None) -> list[Candidate]:
    """Every device that can be used; those that can't are told and left out."""
    from buildtool.devices.adb_client import ONLINE, choose, not_usable

    found: list[Candidate] = []
    refused: list[BuildtoolError] = []
    for name in settings.devices:
        try:
            found.append(_named(name, settings, toolchain))
        except BuildtoolError as exc:
            refused.append(exc)
    try:
        listed = _client().devices()
    except BuildtoolError as exc:
        listed = []
        refused.append(exc)
    found += [_adb(row.serial) for row in listed if row.state == ONLINE]
    refused += [not_usable(row.serial, row.state) for row in listed if row.state != ONLINE]
    if not found:
        if refused and not listed:
            raise refused[0]
        choose(listed, None, where="--device all")  # raises: none of them can be used
    for left in refused:
        screen.warn(f"left out: {left.what}" + (f" ({left.fix})" if left.fix else ""))
    return found


def _client() -> Adb:
    from buildtool.devices.adb_client import Adb

    return Adb()


def _adb(serial: str | None, device: DeviceSettings | None = None, spec: str | None = None) -> Candidate:
    """An Android device by its serial, or else $ANDROID_SERIAL, or else the only usable one."""
    from buildtool.devices.adb import AdbDevice
    from buildtool.devices.adb_client import choose

    client = _client()
    where = f"adb:{serial}" if serial else "--device adb"
    if serial is None and (serial := os.environ.get("ANDROID_SERIAL") or None):
        where = "environment ANDROID_SERIAL"
    chosen = choose(client.devices(), serial, where=where).serial
    workdir = device.workdir if device else None
    return Candidate(chosen, spec or f"adb:{chosen}", lambda: AdbDevice(chosen, adb=client, workdir=workdir))


def _bare_serial(word: str, settings: Settings) -> Candidate:
    from buildtool.devices.adb_client import choose

    labels = {label for device in settings.devices.values() for label in device.labels}
    known = {"qemu", "local", "adb", "all", *settings.devices, *labels}
    try:
        listed = _client().devices()
    except BuildtoolError as exc:
        listed, remark = [], [exc.what]
    else:
        remark = [f"{d.serial}  {d.state}" for d in listed]
    if word in {d.serial for d in listed}:
        choose(listed, word, where="--device")
        return _adb(word)
    near = did_you_mean(word, known | {d.serial for d in listed})
    raise UsageError(
        f"unknown device {word!r}",
        where="--device",
        fix=f"did you mean {near!r}?" if near else f"known: {SPECS}",
        details=remark,
    )


def _ssh(place: str, device: DeviceSettings | None = None, spec: str | None = None) -> Candidate:
    match = _SSH.fullmatch(place)
    if match is None or not 0 < int(match["port"] or 22) < 65536 or place.startswith("-"):
        raise UsageError("not an ssh address", where=f"ssh:{place}", expected="ssh:[USER@]HOST[:PORT]")
    from buildtool.devices.ssh import SshDevice

    host, port = match["host"].strip("[]"), int(match["port"]) if match["port"] else None
    workdir = device.workdir if device else None
    return Candidate(
        place, spec or f"ssh:{place}", lambda: SshDevice(host, user=match["user"], port=port, workdir=workdir)
    )


def _emulated(
    spec: str, settings: Settings, toolchain: Toolchain | None, *, sysroot: Path | None = None
) -> Device:
    """``sysroot``: a system of its own, emulated even where this machine could run it natively."""
    from buildtool.build.layout import build_root
    from buildtool.core.types import Abi
    from buildtool.devices import opencl
    from buildtool.devices.qemu import QemuDevice, default_root, find_qemu
    from buildtool.toolchains.cross import find_sysroot, triple_of
    from buildtool.toolchains.host import host_abi

    host = host_abi()
    abi = host if spec == "local" else toolchain.abi if toolchain else Abi.ARM64
    root = default_root(spec, abi, str(build_root(settings)))
    if abi is host and sysroot is None:
        found = opencl.for_abi(abi, native=True)
        return QemuDevice(root, abi=abi, sysroot=None, qemu=None, opencl=found)
    named = sysroot or settings.toolchains.sysroot
    sysroot = sysroot or (toolchain.sysroot if toolchain else None)
    if sysroot is None:
        sysroot = find_sysroot(triple_of(abi), explicit=settings.toolchains.sysroot)
    found = None
    if not named and sysroot == find_sysroot(triple_of(abi)):
        # The system that brings OpenCL takes the place of Debian's, never of one that was named.
        found = opencl.for_abi(abi, native=False)
    return QemuDevice(root, abi=abi, sysroot=sysroot, qemu=find_qemu(abi), opencl=found)
