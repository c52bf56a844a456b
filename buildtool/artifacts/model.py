"""Built files and what their ELF headers say."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.core.types import Abi


@dataclass(frozen=True)
class Segment:
    """A LOAD program header: file offset, virtual address, alignment in bytes, flags as in ``R E``."""

    offset: int
    vaddr: int
    align: int
    flags: str


@dataclass(frozen=True)
class ElfFacts:
    """What one ELF file says of itself.

    Symbol versions are left off (``memcpy``, not ``memcpy@GLIBC_2.17``).
    """

    elf_class: int
    """32 or 64."""
    machine: str
    """e_machine as pyelftools names it: EM_AARCH64."""
    type: str
    """ET_DYN, ET_EXEC or ET_REL."""
    interpreter: str | None
    soname: str | None
    needed: tuple[str, ...]
    rpath: str | None
    runpath: str | None
    build_id: str | None
    textrel: bool
    bind_now: bool
    relro: bool
    pie: bool
    executable_stack: bool
    segments: tuple[Segment, ...]
    defined: frozenset[str]
    """Exported dynamic symbols."""
    undefined: frozenset[str]
    """Dynamic symbols it wants from elsewhere, weak ones left out."""
    stripped: bool
    """No .symtab."""
    has_debug: bool
    """Has .debug_info."""
    android_api: int | None = None
    """API level of .note.android.ident."""
    ndk_version: str | None = None
    """NDK name and build of .note.android.ident, as ``r22 (7026061)``."""


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
