"""Small real ELF files for tests, made by this machine's compilers."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from buildtool.artifacts import Artifact, ArtifactSet, ElfFacts
from buildtool.build.model import BuildPlan, BuildResult, Launcher
from buildtool.core.files import sha256_file
from buildtool.core.types import Abi, Option
from buildtool.profiles.model import Profile
from buildtool.sources.model import Capabilities, Catalogue, Pin, TvmSource
from buildtool.toolchains.model import Toolchain

HOST_CC = "gcc"
ARM_CC = "aarch64-linux-gnu-gcc"
ARM_SYSROOT = Path("/usr/aarch64-linux-gnu")
ADD = "int add(int a, int b) { return a + b; }\n"
MAIN = "int main(void) { return 0; }\n"


# A program and its child, with their process ids; the child ignores SIGTERM, so that only the end of
# the whole group ends both.
FAMILY = r"""
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  int child = fork();
  if (child == 0) {
    signal(SIGTERM, SIG_IGN);
    for (;;) pause();
  }
  printf("family %d %d\n", getpid(), child);
  fflush(stdout);
  for (;;) pause();
}
"""


def compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def compile_c(folder: Path, name: str, code: str, *flags: str, cc: str = HOST_CC) -> Path:
    """Compile ``code`` to ``folder/name``; ``.so`` names become shared libraries with their SONAME."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name}.c"
    source.write_text(code, encoding="utf-8")
    output = folder / name
    words: Sequence[str] = ()
    if name.endswith(".o"):
        words = ("-c",)
    elif ".so" in name:
        words = ("-shared", "-fPIC", f"-Wl,-soname,{name}")
    argv = [compiler(cc), *words, str(source), *flags, "-o", str(output)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stderr}"
    source.unlink()
    return output


def host_toolchain(**changes: object) -> Toolchain:
    """The host's gcc as a Toolchain (of whatever machine the tests run on)."""
    triple = subprocess.run(
        [compiler(HOST_CC), "-dumpmachine"], capture_output=True, text=True, check=True
    ).stdout.strip()
    abi = {"x86_64": Abi.X86_64, "aarch64": Abi.ARM64}[triple.split("-")[0]]
    values: dict[str, object] = {
        "name": "host",
        "abi": abi,
        "triple": triple,
        "system": "Linux",
        "cc": Path(compiler(HOST_CC)),
        "cxx": Path(compiler("g++")),
        "version": "gcc of the tests",
        "strip": Path(compiler("strip")),
        "objcopy": Path(compiler("objcopy")),
    }
    return Toolchain(**{**values, **changes})  # type: ignore[arg-type]


def arm_toolchain(**changes: object) -> Toolchain:
    """Debian's cross gcc for aarch64."""
    values: dict[str, object] = {
        "name": "gcc",
        "abi": Abi.ARM64,
        "triple": "aarch64-linux-gnu",
        "system": "Linux",
        "cc": Path(compiler(ARM_CC)),
        "cxx": Path(compiler("aarch64-linux-gnu-g++")),
        "version": "cross gcc of the tests",
        "sysroot": ARM_SYSROOT,
        "strip": Path(compiler("aarch64-linux-gnu-strip")),
        "objcopy": Path(compiler("aarch64-linux-gnu-objcopy")),
    }
    return Toolchain(**{**values, **changes})  # type: ignore[arg-type]


def artifact(path: Path, role: str | None = None, debug: Path | None = None) -> Artifact:
    guessed = "library" if ".so" in path.name else "executable"
    return Artifact(path.name, path, role or guessed, path.stat().st_size, sha256_file(path), debug)


def with_facts(original: Artifact, elf: ElfFacts) -> Artifact:
    """The artifact as if its ELF headers said ``elf``."""
    copy = dataclasses.replace(original)
    copy.__dict__["elf"] = elf  # where the cached property keeps what it read
    return copy


def artifact_set(toolchain: Toolchain, *artifacts: Artifact, **changes: object) -> ArtifactSet:
    """Files as if they had been collected from a build by ``toolchain``."""
    root = artifacts[0].path.parent
    values: dict[str, object] = {
        "root": root,
        "profile": "test",
        "abi": toolchain.abi,
        "triple": toolchain.triple,
        "artifacts": artifacts,
        "manifest": root / "manifest.json",
        "version": "0.0",
        "toolchain": toolchain.identity(),
    }
    return ArtifactSet(**{**values, **changes})  # type: ignore[arg-type]


def build_result(toolchain: Toolchain, build_dir: Path, *outputs: Path) -> BuildResult:
    """A build that left ``outputs``, of a tree called 0.25.dev0."""
    capabilities = Capabilities(frozenset({"tvm_runtime"}), True, False, True, False, False, False)
    source = TvmSource(
        Path("/src/tvm"), "sdist:x==1", Pin("sdist", "feed"), "0.25.dev0", Catalogue(), capabilities
    )
    profile = Profile(
        "demo", "host", toolchain.abi, ("tvm_runtime",), (Option("USE_RPC", "ON", "test"),), (), ""
    )
    plan = BuildPlan(
        source, toolchain, profile, build_dir, "Release", Launcher("none"), 1, Path("cmake"), Path("ninja")
    )
    return BuildResult(plan, True, 1, 0.1, outputs, (), build_dir / "log")
