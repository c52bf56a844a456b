"""What an ELF file says of itself."""

from __future__ import annotations

from dataclasses import dataclass


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
