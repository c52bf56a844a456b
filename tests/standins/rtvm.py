"""Builds native/rtvm against a TVM build, and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core.paths import data_dir

if TYPE_CHECKING:
    from buildtool.build.model import BuildResult

NETMODEL = Path(__file__).with_name("netmodel.py")


@dataclass(frozen=True)
class Rtvm:
    """The program, the compiler-free model folder, and how to start programs of that machine."""

    program: Path
    smoke: Path
    prefix: tuple[str, ...]
    env: Mapping[str, str]

    def __call__(
        self, *words: object, env: Mapping[str, str] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, str(self.program), *map(str, words)],
            env={**os.environ, **self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def ok(self, *words: object, env: Mapping[str, str] | None = None) -> str:
        """The output of a run that must succeed."""
        done = self(*words, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout


def source_dir() -> Path:
    return data_dir("native") / "rtvm"


def build_rtvm(result: BuildResult, folder: Path, *, sanitize: str = "") -> Rtvm:
    """Configure and build rtvm and its smoke model in ``folder``, with the toolchain of ``result``."""
    plan = result.plan
    toolchain = plan.toolchain
    libraries = next(p.parent for p in result.outputs if p.name == "libtvm_runtime.so")
    define = {
        "CMAKE_MAKE_PROGRAM": plan.ninja,
        "CMAKE_BUILD_TYPE": "Debug" if sanitize else "Release",
        "TVM_SOURCE_DIR": plan.source.root,
        "TVM_LIB_DIR": libraries,
        "RTVM_SANITIZE": sanitize,
        "CMAKE_COMPILE_WARNING_AS_ERROR": "ON",
        **{option.name: option.value for option in toolchain.cmake_args},
    }
    if toolchain.toolchain_file is not None:
        define["CMAKE_TOOLCHAIN_FILE"] = toolchain.toolchain_file
    else:
        define |= {"CMAKE_C_COMPILER": toolchain.cc, "CMAKE_CXX_COMPILER": toolchain.cxx}
    words = [f"-D{name}={value}" for name, value in define.items()]
    env = {**os.environ, **dict(toolchain.env)}
    _run([plan.cmake, "-S", source_dir(), "-B", folder, "-G", "Ninja", *words], env)
    _run([plan.cmake, "--build", folder, "--target", "rtvm", "rtvm_smoke_model"], env)
    prefix: tuple[str, ...] = ()
    variables = {"LD_LIBRARY_PATH": str(libraries)}
    if toolchain.cross:
        root = toolchain.sysroot
        path = f"{libraries}:{root}/lib"
        qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64") or "qemu-aarch64"
        prefix = (qemu, "-L", str(root), "-E", f"LD_LIBRARY_PATH={path}")
        variables = {}
    return Rtvm(folder / "rtvm", folder / "smoke", prefix, variables)


def make_net(python: Path, net: str, folder: Path, *words: str) -> Path:
    """A model folder of netmodel.py, with in.npz and expected.npz in it."""
    _run([python, NETMODEL, "build", net, folder, *words], dict(os.environ))
    return folder


def compare(python: Path, found: Path, expected: Path, *words: str) -> str:
    """netmodel.py's table of differences; fails when they are too large."""
    return _run([python, NETMODEL, "compare", found, expected, *words], dict(os.environ))


def _run(argv: list[object], env: dict[str, str]) -> str:
    done = subprocess.run(list(map(str, argv)), env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join([*done.stdout.splitlines()[-20:], *done.stderr.splitlines()[-20:]])
    return done.stdout
