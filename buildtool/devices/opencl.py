"""OpenCL for the devices of this machine: PoCL, which computes on the CPU.

``buildtool doctor --install --opencl`` unpacks it for arm64 below the user's cache; natively the system's
is taken. It shows that OpenCL kernels are right, and nothing about an Adreno driver.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.files import atomic_write
from buildtool.core.paths import cache_dir
from buildtool.core.process import which
from buildtool.core.types import Abi

TRIPLE = "aarch64-linux-gnu"
_LINKER_NAME = "aarch64-unknown-linux-gnu-ld"
"""PoCL's compiler, which runs under emulation, calls its linker by this name."""


# The linker runs on this machine, so the emulated compiler's absolute paths are the root's.
_WRAPPER = """\
#!/bin/sh
root={root}
for word; do
  shift
  case $word in
    -L/*) [ -e "$root${{word#-L}}" ] && word=-L$root${{word#-L}} ;;
    /*) [ -e "$root$word" ] && word=$root$word ;;
  esac
  set -- "$@" "$word"
done
exec {linker} --sysroot="$root" "$@"
"""


@dataclass(frozen=True)
class EmulatedOpenCl:
    """``root`` is a whole system root for the device, None for this machine's own."""

    library: Path
    env: Mapping[str, str]
    root: Path | None = None


def arm64_root() -> Path:
    """Where the arm64 system with PoCL lies, or would."""
    return cache_dir() / "opencl-arm64"


def find_linker() -> Path | None:
    """A linker of this machine for aarch64: an emulated process can start it, but not emulated programs."""
    for name in ("aarch64-linux-gnu-ld", "ld.lld"):
        if (found := which(name)) is not None:
            return found
    return None


def for_abi(abi: Abi, *, native: bool) -> EmulatedOpenCl | None:
    """The OpenCL of an emulated (or native) device of this machine, None where there is none."""
    if native:
        return _native()
    root = arm64_root()
    library = root / "usr" / "lib" / TRIPLE / "libOpenCL.so"
    linker = find_linker()
    if abi is not Abi.ARM64 or linker is None or not library.exists():
        return None
    tools = _folder(f"tools-{abi.value}")
    wrapper = tools / _LINKER_NAME
    text = _WRAPPER.format(root=shlex.quote(str(root)), linker=shlex.quote(str(linker)))
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        atomic_write(wrapper, text, mode=0o755)
    env = {
        "OCL_ICD_VENDORS": str(root / "etc" / "OpenCL" / "vendors"),
        "POCL_CACHE_DIR": str(_folder(f"kernels-{abi.value}")),
        # PoCL looks for its kernel library beside itself with access(), whose paths qemu leaves as they are.
        "LD_LIBRARY_PATH": str(library.parent),
        "PATH": f"{tools}:/usr/bin:/bin",
    }
    return EmulatedOpenCl(library, env, root)


def _native() -> EmulatedOpenCl | None:
    if not list(Path("/etc/OpenCL/vendors").glob("*.icd")):
        return None
    places = (f"lib/{platform.machine()}-linux-gnu", "lib64", "lib")
    found = [p for place in places if (p := Path("/usr") / place / "libOpenCL.so.1").exists()]
    if not found:
        return None
    # TVM opens the unversioned name, which only development packages have.
    link = _folder("native") / "libOpenCL.so"
    if not link.is_symlink() or link.resolve() != found[0].resolve():
        link.unlink(missing_ok=True)
        link.symlink_to(found[0])
    env = {"POCL_CACHE_DIR": str(_folder("kernels-native")), "LD_LIBRARY_PATH": str(link.parent)}
    return EmulatedOpenCl(link, env)


def _folder(name: str) -> Path:
    folder = cache_dir() / "opencl" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
