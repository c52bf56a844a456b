"""A redistributable wheel of the host compiler, by the tree's own PEP 517 back-end."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from pathlib import Path

from buildtool.build.environment import build_environment
from buildtool.build.model import BuildPlan
from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, ConfigError
from buildtool.core.files import atomic_dir, atomic_write
from buildtool.core.process import run
from buildtool.host.environment import HostEnvironment, ffi_project, make_with_wheel, requirements

_SYSTEM = (
    *(f"lib{name}.so" for name in ("c", "m", "dl", "pthread", "rt", "stdc++", "gcc_s")),
    "ld-linux",
)
"""Libraries of every Linux system that a wheel may expect."""


def build_wheel(plan: BuildPlan, folder: Path) -> Path:
    """Build the wheel into ``folder`` and return it.

    CMake's folder is ``PLAN-wheel`` beside the profile's: the back-end configures in its own way, and
    the compiler cache saves the compiling. Raises ConfigError for a tree without such a back-end.
    """
    tree = plan.source.root
    text = (tree / "pyproject.toml").read_text("utf-8") if (tree / "pyproject.toml").is_file() else ""
    if "scikit_build_core.build" not in text:
        raise ConfigError(
            "this TVM tree has no scikit-build-core back-end to make a wheel with",
            where=str(tree / "pyproject.toml"),
            fix="v0.22 and later have one; older trees: use buildtool host env",
        )
    work = plan.build_dir.with_name(f"{plan.build_dir.name}-wheel")
    work.mkdir(parents=True, exist_ok=True)
    atomic_write(work / "config.cmake", plan.profile.text)
    env = {**build_environment(plan.toolchain), "CMAKE_GENERATOR": "Ninja"}
    env["CMAKE_BUILD_PARALLEL_LEVEL"] = str(plan.jobs)
    words = [
        "-C", f"build-dir={work}",
        "-C", f"cmake.build-type={plan.build_type}",
        "-C", f"cmake.define.CMAKE_MAKE_PROGRAM={plan.ninja}",
        "-C", f"cmake.define.CMAKE_C_COMPILER_LAUNCHER={plan.launcher.program or ''}",
        "-C", f"cmake.define.CMAKE_CXX_COMPILER_LAUNCHER={plan.launcher.program or ''}",
    ]  # fmt: skip
    screen.step(f"build the wheel (log: {work / 'wheel.log'})")
    with atomic_dir(folder / ".new") as made:
        done = run(
            [sys.executable, "-m", "pip", "wheel", "-v", "--no-deps", *words, "-w", str(made), str(tree)],
            env={**os.environ, **env},
            timeout=8 * 3600,
            check=False,
            merge=True,
        )
        atomic_write(work / "wheel.log", done.stdout)
        wheels = sorted(made.glob("*.whl"))
        if not done.ok or len(wheels) != 1:
            raise BuildFailed(
                "the wheel could not be built", where=str(work / "wheel.log"), details=done.tail(20)
            )
        target = folder / wheels[0].name
        os.replace(wheels[0], target)
    (folder / ".new").rmdir()
    check_contents(target)
    return target


def check_contents(wheel: Path) -> None:
    """Raise BuildFailed for a wheel without the compiler's library or with a path of this build in it."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as exc:
        raise BuildFailed(f"not a wheel: {exc}", where=str(wheel)) from exc
    libraries = [n for n in names if n.endswith(".so")]
    if not any("libtvm" in n for n in libraries):
        raise BuildFailed(
            "the wheel has no libtvm library in it",
            where=str(wheel),
            found=", ".join(libraries) or "no library",
        )
    odd = [n for n in names if n.startswith("/") or ".." in n.split("/")]
    if odd:
        raise BuildFailed("the wheel has entries outside its folder", where=str(wheel), found=odd[0])


def audit(wheel: Path) -> tuple[str, list[str]]:
    """The platform tag that auditwheel finds the wheel good for ("" without auditwheel), and the libraries
    that it takes from the system beyond the C and C++ ones: they must be where it is installed."""
    import tempfile

    from buildtool.artifacts import read_elf
    from buildtool.core.process import which

    wanted: set[str] = set()
    inside: set[str] = set()
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(prefix="buildtool-wheel-") as folder:
        for name in archive.namelist():
            if name.endswith(".so") or ".so." in name:
                path = Path(folder) / Path(name).name
                path.write_bytes(archive.read(name))
                inside.add(path.name)
                wanted |= set(read_elf(path).needed)
    outside = sorted(n for n in wanted - inside if not n.startswith(_SYSTEM))
    program = which("auditwheel") or which(str(Path(sys.executable).parent / "auditwheel"))
    if program is None:
        return "", outside
    done = run([program, "show", wheel], timeout=300, check=False)
    found = re.search(r'platform tag:\s*"([^"]+)"', " ".join(done.stdout.split()))
    if not done.ok or found is None:
        raise BuildFailed("auditwheel does not accept the wheel", where=str(wheel), details=done.tail(5))
    return found[1], outside


def try_in_clean_venv(wheel: Path, tree: Path, venv: Path) -> HostEnvironment:
    """Install the wheel and what it needs into a new environment at ``venv``."""
    ffi = ffi_project(tree)
    needed = [str(wheel), *requirements(tree)] + ([str(ffi)] if ffi else [])
    (venv / "buildtool-venv.json").unlink(missing_ok=True)  # a wheel of the same name may have other bytes
    return make_with_wheel(venv, needed)
