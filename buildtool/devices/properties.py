"""What a device says of itself, read by one shell script that Android and plain Linux both run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from buildtool.core.errors import ConfigError
from buildtool.core.types import Abi
from buildtool.devices.base import Properties

_GETPROP = (
    "ro.product.cpu.abilist",
    "ro.product.cpu.abi",
    "ro.product.model",
    "ro.build.version.sdk",
    "ro.soc.manufacturer",
    "ro.soc.model",
    "ro.board.platform",
    "ro.hardware.egl",
)
_OPENCL = (
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/system/lib64/libOpenCL.so",
    "/vendor/lib/libOpenCL.so",
    "/system/lib/libOpenCL.so",
)
_OPENCL_LINUX = ("/usr/lib/*/libOpenCL.so", "/usr/lib64/libOpenCL.so", "/usr/lib/libOpenCL.so")
_PUBLIC = "/vendor/etc/public.libraries*.txt /system/etc/public.libraries*.txt"

SCRIPT = f"""
echo machine=$(uname -m)
echo pages=$(getconf PAGESIZE 2>/dev/null || grep -m1 KernelPageSize /proc/self/smaps)
echo gpu=$(cat /sys/class/kgsl/kgsl-3d0/gpu_model 2>/dev/null)
if command -v getprop >/dev/null; then
  echo android=1
  for key in {" ".join(_GETPROP)}; do echo "$key=$(getprop $key)"; done
  for file in {" ".join(_OPENCL)}; do [ -e $file ] && echo opencl=$file; done
  cat {_PUBLIC} 2>/dev/null | sed -n 's/^libOpenCL.so.*/public=1/p'
else
  for file in {" ".join(_OPENCL_LINUX)}; do [ -e $file ] && echo opencl=$file; done
  echo model=$(tr -d '\\000' </proc/device-tree/model 2>/dev/null || uname -n)
  echo soc=$(cat /sys/devices/soc0/machine 2>/dev/null)
fi
echo disk
df -k @DIR@
"""
_MACHINES = {
    "aarch64": Abi.ARM64,
    "armv7l": Abi.ARM32,
    "armv8l": Abi.ARM32,
    "x86_64": Abi.X86_64,
    "i686": Abi.X86,
    "riscv64": Abi.RISCV64,
}
_ELF = {183: Abi.ARM64, 40: Abi.ARM32, 62: Abi.X86_64, 3: Abi.X86, 243: Abi.RISCV64}


def parse(text: str) -> Properties:
    """Properties from the output of :data:`SCRIPT`; what a device does not say stays None."""
    head, _, disk = text.replace("\r", "").partition("\ndisk\n")
    values: dict[str, str] = {}
    for line in head.splitlines():
        key, equal, value = line.partition("=")
        if equal and value.strip():
            values.setdefault(key, value.strip())
    android = "android" in values
    machine = _MACHINES.get(values.get("machine", ""))
    abis = values.get("ro.product.cpu.abilist") or values.get("ro.product.cpu.abi")
    soc = " ".join(values[k] for k in ("ro.soc.manufacturer", "ro.soc.model") if k in values)
    opencl = values.get("opencl")
    return Properties(
        abis=tuple(abis.split(",")) if abis else (machine.value,) if machine else (),
        model=values.get("ro.product.model") or values.get("model") or "unknown",
        system="android" if android else "linux",
        api_level=_number(values.get("ro.build.version.sdk")),
        soc=soc or values.get("ro.board.platform") or values.get("soc"),
        gpu=values.get("gpu") or values.get("ro.hardware.egl"),
        free_bytes=free_bytes(disk),
        page_size=_page_size(values.get("pages", "")),
        opencl=opencl,
        opencl_for_apps="public" in values if android and opencl else None,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


def _page_size(text: str) -> int | None:
    """Bytes, of ``4096`` or ``KernelPageSize: 4 kB``."""
    if match := re.search(r"(\d+) kB", text):
        return int(match.group(1)) * 1024
    return _number(text)


def free_bytes(df: str) -> int | None:
    """The free space in the output of ``df -k FOLDER``: the number before the percent sign."""
    match = re.search(r"(\d+)\s+\d+%", df)
    return int(match.group(1)) * 1024 if match else None


def mounted_noexec(folder: str, mounts: str) -> bool:
    """Whether the mount that ``folder`` lies on, in /proc/mounts' text, forbids to run programs."""
    best, options = "", ""
    inside = PurePosixPath(folder)
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        point = re.sub(r"\\(\d{3})", lambda m: chr(int(m.group(1), 8)), fields[1])
        # A later line lies over an earlier one.
        if inside.is_relative_to(point) and len(point) >= len(best):
            best, options = point, fields[3]
    return "noexec" in options.split(",")


def check_machines(files: Mapping[str, Path], abis: Sequence[str], device: str) -> None:
    """Raise ConfigError when a file is built for a machine that is none of the device's ABIs."""
    for path in files.values():
        with path.open("rb") as stream:
            head = stream.read(20)
        if len(head) < 20 or head[:4] != b"\x7fELF" or not abis:
            continue
        abi = _ELF.get(int.from_bytes(head[18:20], "little" if head[5] == 1 else "big"))
        if abi is None or abi.value not in abis:
            raise ConfigError(
                f"{path.name} is built for another machine than the device {device}",
                where=str(path),
                expected=" or ".join(abis),
                found=abi.value if abi else "an unknown machine",
                fix="build for the device's ABI, or choose another device",
            )
