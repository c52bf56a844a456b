"""Where binaries run: the Device protocol and its transports. Knows nothing of TVM."""

from __future__ import annotations

from buildtool.devices.base import (
    Device,
    DeviceLost,
    PortTaken,
    Properties,
    Pushed,
    Ran,
    RemoteProcess,
)
from buildtool.devices.choosing import open_device, open_devices

__all__ = [
    "Device",
    "DeviceLost",
    "PortTaken",
    "Properties",
    "Pushed",
    "Ran",
    "RemoteProcess",
    "open_device",
    "open_devices",
]
