"""What was built: collected, stripped, read (ELF facts), listed in a manifest."""

from buildtool.artifacts.elf import is_elf, read_elf
from buildtool.artifacts.facts import ElfFacts, Segment
from buildtool.artifacts.model import Artifact, ArtifactSet
from buildtool.artifacts.store import collect, elf_summary, load

__all__ = [
    "Artifact",
    "ArtifactSet",
    "ElfFacts",
    "Segment",
    "collect",
    "elf_summary",
    "is_elf",
    "load",
    "read_elf",
]
