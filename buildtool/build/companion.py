"""buildtool's own ``rtvm``, built after TVM where the tree has no runner of its own.

A separate small CMake project (``native/rtvm``) that links the libraries of the
build just made, with the same toolchain, flags and compiler cache.
"""

from __future__ import annotations

from pathlib import Path

from buildtool.build.environment import build_environment
from buildtool.build.model import BuildPlan
from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed
from buildtool.core.files import atomic_write, digest_of, sha256_file
from buildtool.core.paths import data_dir
from buildtool.core.process import quote, run

NAME = "rtvm"
FOLDER = "buildtool-rtvm"
_MARK = "inputs.sha256"


def wanted(plan: BuildPlan) -> bool:
    """The profile asks for rtvm and the tree can't build it."""
    return NAME in plan.profile.targets and NAME not in plan.source.capabilities.targets


def build_rtvm(plan: BuildPlan, libraries: tuple[Path, ...], common: list[str]) -> Path:
    """Build ``rtvm`` against the TVM ``libraries``; returns the program.

    ``common`` are the cmake words shared with the TVM build (toolchain, build
    type, launcher). Raises BuildFailed with the compiler's own words.
    """
    runtime = next((path for path in libraries if path.name == "libtvm_runtime.so"), None)
    if runtime is None:
        raise BuildFailed(
            "rtvm needs the shared library libtvm_runtime.so",
            found=", ".join(path.name for path in libraries),
            fix="leave rtvm out of the profile's targets, or build the runtime as a shared library",
        )
    source, folder = data_dir("native") / NAME, plan.build_dir / FOLDER
    command = [
        str(plan.cmake),
        "-G",
        "Ninja",
        "-S",
        str(source),
        "-B",
        str(folder),
        f"-DTVM_SOURCE_DIR={plan.source.root}",
        f"-DTVM_LIB_DIR={runtime.parent}",
        *common,
    ]
    _configure(plan, command, folder, source)
    words = [str(plan.ninja), "-C", str(folder), "-j", str(plan.jobs), NAME]
    _run(plan, words, folder / "build.log", "compiling buildtool's rtvm failed")
    return folder / NAME


def _configure(plan: BuildPlan, command: list[str], folder: Path, source: Path) -> None:
    """Run cmake when its words or the set of sources changed; Ninja sees to changed files."""
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*") if path.is_file())
    digest = digest_of([command, names, sha256_file(source / "CMakeLists.txt")])
    mark = folder / _MARK
    if mark.is_file() and mark.read_text(encoding="ascii") == digest and (folder / "build.ninja").is_file():
        return
    screen.step(f"configure {plan.build_dir.name}: buildtool's own rtvm")
    mark.unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    _run(plan, command, folder / "configure.log", "cmake could not configure buildtool's rtvm")
    atomic_write(mark, digest)


def _run(plan: BuildPlan, words: list[str], log: Path, failure: str) -> None:
    done = run(words, env=build_environment(plan.toolchain), merge=True, check=False)
    atomic_write(log, f"$ {quote(words)}\n{done.stdout}")
    if not done.ok:
        raise BuildFailed(failure, where=str(log), details=done.tail())
