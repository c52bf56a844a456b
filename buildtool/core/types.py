"""Small value types that travel through every stage."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Abi(str, enum.Enum):
    """Instruction set and calling convention, spelled as Android spells them."""

    ARM64 = "arm64-v8a"
    ARM32 = "armeabi-v7a"
    X86_64 = "x86_64"
    X86 = "x86"
    RISCV64 = "riscv64"

    @property
    def bits(self) -> int:
        return 32 if self in (Abi.ARM32, Abi.X86) else 64

    @property
    def elf_machine(self) -> str:
        """The ELF header's e_machine, as pyelftools names it."""
        return {
            Abi.ARM64: "EM_AARCH64",
            Abi.ARM32: "EM_ARM",
            Abi.X86_64: "EM_X86_64",
            Abi.X86: "EM_386",
            Abi.RISCV64: "EM_RISCV",
        }[self]


@dataclass(frozen=True)
class Option:
    """A CMake option's wish: its name, value as text, and who asked for it.

    ``origin`` is for people: ``profile android``, ``buildtool.toml
    [profiles.android.options]``, ``--set``.
    """

    name: str
    value: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name}={self.value} ({self.origin})"
