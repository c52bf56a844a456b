"""cmake, ninja and the compiler cache: which ones a build uses."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from buildtool.build.model import Launcher
from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.process import which

MEMORY_PER_JOB = 700 * 1000 * 1000
"""Bytes; the largest compile of the 0.25 runtime peaks at 426 MB, with room for the linker."""
COMPILER_MEMORY_PER_JOB = 1100 * 1000 * 1000
"""Bytes; the same for TVM's compiler, whose LLVM files are the largest."""
LINK_MEMORY = 2500 * 1000 * 1000
"""Bytes that linking libtvm_compiler takes with LLVM's static libraries."""


def _from_wheel(package: str, program: str) -> Path | None:
    """A program that a PyPI wheel brings, so that versions are the installed package's own."""
    from importlib.util import find_spec

    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    for candidate in (folder / "data" / "bin" / program, Path(sys.executable).parent / program):
        if candidate.is_file():
            return candidate
    return None


def find_cmake() -> Path:
    """The cmake wheel's program, else the one on PATH."""
    found = _from_wheel("cmake", "cmake") or which("cmake")
    if found is None:
        raise ToolMissing("no cmake", fix="pip install cmake")
    return found


def find_ninja() -> Path:
    """The ninja wheel's program, else the one on PATH."""
    found = _from_wheel("ninja", "ninja") or which("ninja")
    if found is None:
        raise ToolMissing("no ninja", fix="pip install ninja")
    return found


def find_launcher(kind: str) -> Launcher:
    """The compiler cache: ``auto`` takes ccache, then sccache, then none.

    Raises ToolMissing when a cache that was asked for by name is not there.
    """
    if kind == "none":
        return Launcher("none")
    kinds = ("ccache", "sccache") if kind == "auto" else (kind,)
    for name in kinds:
        if name not in ("ccache", "sccache"):
            raise ConfigError(
                f"unknown compiler cache {name!r}",
                where="build.cache or --cache",
                fix="known: auto, none, ccache, sccache",
            )
        program = which(name) or which(str(Path(sys.executable).parent / name))
        if program is not None:
            return Launcher(name, program.absolute())
    if kind == "auto":
        return Launcher("none")
    raise ToolMissing(
        f"the compiler cache {kind} is not installed",
        where="build.cache or --cache",
        fix="pip install 'buildtool[cache]', or --cache none" if kind == "ccache" else "--cache none",
    )


def available_memory() -> int | None:
    """Bytes of memory that can be used without swapping, None where the kernel does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def link_jobs(jobs: int) -> int:
    """Links at once: never more than memory holds, whatever the number of compiles."""
    memory = available_memory()
    return jobs if memory is None else max(1, min(jobs, memory // LINK_MEMORY))


def default_jobs(memory_per_job: int = MEMORY_PER_JOB) -> int:
    """One job a usable core, fewer when memory would not hold them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = available_memory()
    if memory is None:
        return cores
    return max(1, min(cores, memory // memory_per_job))
