"""Built files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.artifacts.facts import ElfFacts
from buildtool.core.types import Abi


@dataclass(frozen=True)
class Artifact:
    """One shipped file. ``role`` is library, executable or runtime (shipped with the toolchain)."""

    name: str
    path: Path
    role: str
    size: int
    sha256: str
    debug: Path | None = None
    """Separate debug file, when one was split off."""

    @functools.cached_property
    def elf(self) -> ElfFacts:
        """Its ELF facts, read when first asked for. Raises BuildFailed for a damaged file."""
        from buildtool.artifacts.elf import read_elf

        return read_elf(self.path)


@dataclass(frozen=True)
class ArtifactSet:
    """Everything a device needs, in one folder, dependencies first."""

    root: Path
    profile: str
    abi: Abi
    triple: str
    artifacts: tuple[Artifact, ...]
    manifest: Path
    version: str = ""
    """TVM's version, as its tree says."""
    pin: str = ""
    """Exactly which source, as ``kind:id``."""
    tvm_ffi: bool = False
    """Built from a tree with a tvm-ffi sub-project (relax era)."""
    options: Mapping[str, str] = field(default_factory=dict)
    toolchain: Mapping[str, object] = field(default_factory=dict)
    """``Toolchain.identity()`` of the build."""
    source_dir: str = ""
    """The tree and the build folder on the machine that built this: for the leak check and
    for headers of smoke kernels. Not for release."""
    build_dir: str = ""
    ndk_dir: str | None = None
    """The NDK that built it, for NDK toolchains."""

    def find(self, name: str) -> Artifact | None:
        return next((a for a in self.artifacts if a.name == name), None)
