"""Every device there is, usable or not."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from buildtool.core.errors import BuildtoolError
from buildtool.devices.adb_client import ONLINE, Adb, not_usable
from buildtool.devices.base import Device, Properties
from buildtool.devices.choosing import open_device

if TYPE_CHECKING:
    from buildtool.settings import Settings


@dataclass(frozen=True)
class Row:
    """One device: ``spec`` is the word for --device; ``error`` says why it can't be used."""

    spec: str
    name: str
    kind: str
    state: str
    labels: tuple[str, ...] = ()
    properties: Properties | None = None
    error: BuildtoolError | None = None


def look(settings: Settings) -> tuple[list[Row], list[str]]:
    """All devices, those of the settings first, asked side by side; and remarks (no adb, …)."""
    looks: list[Callable[[], Row]] = []
    for name, device in settings.devices.items():
        looks.append(_looker(settings, name, device.kind, tuple(device.labels)))
    named = {d.serial for d in settings.devices.values() if d.kind == "adb"}
    remarks = []
    try:
        listed = Adb().devices()
    except BuildtoolError as exc:
        listed = []
        remarks.append(exc.what + (f": {exc.fix}" if exc.fix else ""))
    for found in listed:
        if found.serial in named:
            continue
        if found.state == ONLINE:
            looks.append(_looker(settings, f"adb:{found.serial}", "adb", ()))
        else:
            error = not_usable(found.serial, found.state)
            row = Row(f"adb:{found.serial}", found.serial, "adb", found.state, error=error)
            looks.append(lambda row=row: row)  # type: ignore[misc]
    if not any(device.kind == "qemu" for device in settings.devices.values()):
        looks.append(_looker(settings, "qemu", "qemu", ()))
    with ThreadPoolExecutor(max_workers=8) as pool:
        return [done.result() for done in [pool.submit(one) for one in looks]], remarks


def _looker(settings: Settings, spec: str, kind: str, labels: tuple[str, ...]) -> Callable[[], Row]:
    def look_at_it() -> Row:
        device: Device | None = None
        try:
            device = open_device(spec, settings=settings, toolchain=None)
            return Row(spec, device.name, kind, ONLINE, labels, device.properties())
        except BuildtoolError as exc:
            state = exc.found if exc.found and exc.expected == ONLINE else "unusable"
            return Row(spec, device.name if device else spec, kind, state, labels, error=exc)
        finally:
            if device is not None:
                device.close()

    return look_at_it
