"""Reading one ELF file into :class:`ElfFacts`, robust against any damage.

Everything that decides how long a read takes (table sizes, segment and section
extents) is held against the file's length before the tables are walked, so a
mutated header gives an error at once and never a long loop.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from buildtool.artifacts.facts import ElfFacts, Segment
from buildtool.core.errors import BuildFailed

_MAGIC = b"\x7fELF"
_MAX_TABLE = 4096
"""Most program or section headers a linker's output has; real ones have 10 to 60."""
_DF_TEXTREL, _DF_BIND_NOW = 0x4, 0x8
_DF_1_NOW, _DF_1_PIE = 0x1, 0x08000000
_PF_X, _PF_W, _PF_R = 1, 2, 4
_NT_GNU_BUILD_ID = 3
_NT_ANDROID_IDENT = 1


def is_elf(path: Path) -> bool:
    """Whether the file begins as an ELF file does. A missing file is an OSError."""
    with path.open("rb") as stream:
        return stream.read(4) == _MAGIC


def read_elf(path: Path) -> ElfFacts:
    """What the file at ``path`` says of itself.

    Raises BuildFailed that names the file when it can't be read, is no ELF
    file, or is damaged in a place that was looked at.
    """
    try:
        if not is_elf(path):
            raise BuildFailed(
                "not an ELF file", where=str(path), expected="a linked program or shared library"
            )
        with path.open("rb") as stream:
            return _read(stream, path.stat().st_size)
    except OSError as exc:
        raise BuildFailed(f"can't read the file: {exc.strerror or exc}", where=str(path)) from exc
    except BuildFailed:
        raise
    except Exception as exc:
        # pyelftools answers damage with whatever its parser stumbled over
        # (construct errors, KeyError, AttributeError, struct.error, ...).
        seen = str(exc) if isinstance(exc, _Damaged) else f"{type(exc).__name__}: {exc}"
        raise BuildFailed(
            f"damaged ELF file: {seen}",
            where=str(path),
            fix="build or copy the file again",
        ) from exc


class _Damaged(ValueError):
    pass


def _read(stream: Any, size: int) -> ElfFacts:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    elf = ELFFile(stream)
    _check_tables(elf, size)
    # A split-off debug file keeps its program headers, but not what they point to.
    segments = [] if _is_debug_only(elf) else list(elf.iter_segments())
    _check_segments(segments, size)
    kind = str(elf["e_type"])
    if kind not in ("ET_DYN", "ET_EXEC", "ET_REL"):
        raise _Damaged(f"e_type is {kind}")
    dynamic = _dynamic_tags(next((s for s in segments if isinstance(s, DynamicSegment)), None))
    interpreter = next((str(s.get_interp_name()) for s in segments if isinstance(s, InterpSegment)), None)
    stack = next((int(s["p_flags"]) for s in segments if s["p_type"] == "PT_GNU_STACK"), None)
    flags, flags_1 = dynamic.number("DT_FLAGS"), dynamic.number("DT_FLAGS_1")
    build_id, api, ndk = _notes(elf, segments)
    defined, undefined = _symbols(elf)
    return ElfFacts(
        elf_class=int(elf.elfclass),
        machine=str(elf["e_machine"]),
        type=kind,
        interpreter=interpreter,
        soname=dynamic.text("DT_SONAME"),
        needed=tuple(dynamic.texts("DT_NEEDED")),
        rpath=dynamic.text("DT_RPATH"),
        runpath=dynamic.text("DT_RUNPATH"),
        build_id=build_id,
        textrel=dynamic.has("DT_TEXTREL") or bool(flags & _DF_TEXTREL),
        bind_now=dynamic.has("DT_BIND_NOW") or bool(flags & _DF_BIND_NOW) or bool(flags_1 & _DF_1_NOW),
        relro=any(s["p_type"] == "PT_GNU_RELRO" for s in segments),
        pie=kind == "ET_DYN" and (interpreter is not None or bool(flags_1 & _DF_1_PIE)),
        # Without the header, loaders take the stack as executable.
        executable_stack=bool(segments) and (stack is None or bool(stack & _PF_X)),
        segments=tuple(_load(s) for s in segments if s["p_type"] == "PT_LOAD"),
        defined=defined,
        undefined=undefined,
        stripped=elf.get_section_by_name(".symtab") is None,
        has_debug=elf.get_section_by_name(".debug_info") is not None,
        android_api=api,
        ndk_version=ndk,
    )


def _check_tables(elf: Any, size: int) -> None:
    """Both header tables and every section must lie within the file."""
    for table, count, entry in (("e_phoff", "e_phnum", "e_phentsize"), ("e_shoff", "e_shnum", "e_shentsize")):
        number = int(elf[count])
        if number > _MAX_TABLE or int(elf[table]) + number * int(elf[entry]) > size:
            raise _Damaged(f"{number} headers at offset {int(elf[table])} in a file of {size} bytes")
    if elf["e_shoff"] and not elf["e_shnum"]:
        raise _Damaged("a section table without sections")
    for number in range(int(elf["e_shnum"])):
        header = elf._get_section_header(number)
        end = int(header["sh_offset"]) + int(header["sh_size"])
        if header["sh_type"] not in ("SHT_NOBITS", "SHT_NULL") and end > size:
            raise _Damaged(f"section {number} reaches past the end of the file (truncated?)")


def _check_segments(segments: list[Any], size: int) -> None:
    for segment in segments:
        if int(segment["p_offset"]) + int(segment["p_filesz"]) > size:
            raise _Damaged(f"segment {segment['p_type']} reaches past the end of the file (truncated?)")


def _is_debug_only(elf: Any) -> bool:
    text = elf.get_section_by_name(".text")
    return text is not None and text["sh_type"] == "SHT_NOBITS"


class _Tags:
    """The dynamic section's entries by name."""

    def __init__(self, tags: list[Any]) -> None:
        self._tags = tags

    def has(self, name: str) -> bool:
        return any(t.entry.d_tag == name for t in self._tags)

    def number(self, name: str) -> int:
        return next((int(t.entry.d_val) for t in self._tags if t.entry.d_tag == name), 0)

    def texts(self, name: str) -> list[str]:
        attribute = name.removeprefix("DT_").lower()
        return [str(getattr(t, attribute)) for t in self._tags if t.entry.d_tag == name]

    def text(self, name: str) -> str | None:
        return next(iter(self.texts(name)), None)


def _dynamic_tags(segment: Any) -> _Tags:
    return _Tags([] if segment is None else list(segment.iter_tags()))


def _load(segment: Any) -> Segment:
    bits = int(segment["p_flags"])
    letters = (("R", _PF_R), ("W", _PF_W), ("E", _PF_X))
    flags = "".join(letter if bits & bit else " " for letter, bit in letters)
    return Segment(int(segment["p_offset"]), int(segment["p_vaddr"]), int(segment["p_align"]), flags.strip())


def _symbols(elf: Any) -> tuple[frozenset[str], frozenset[str]]:
    """Exported names, and names wanted from elsewhere that must be found (weak ones need not)."""
    from elftools.elf.sections import SymbolTableSection

    table = elf.get_section_by_name(".dynsym")
    if table is None or table["sh_type"] == "SHT_NOBITS":  # a split-off debug file keeps none
        return frozenset(), frozenset()
    if not isinstance(table, SymbolTableSection):
        raise _Damaged(".dynsym is no symbol table")
    defined: set[str] = set()
    undefined: set[str] = set()
    for symbol in table.iter_symbols():
        if not symbol.name:
            continue
        bind = symbol["st_info"]["bind"]
        if symbol["st_shndx"] == "SHN_UNDEF":
            if bind != "STB_WEAK":
                undefined.add(str(symbol.name))
        elif bind != "STB_LOCAL":
            defined.add(str(symbol.name))
    return frozenset(defined), frozenset(undefined)


def _notes(elf: Any, segments: list[Any]) -> tuple[str | None, int | None, str | None]:
    """(build-id, Android API level, NDK name) from the note segments, or sections where there are none."""
    build_id = api = ndk = None
    endian = "<" if elf.little_endian else ">"
    sources = [s.data() for s in segments if s["p_type"] == "PT_NOTE"]
    sources += [s.data() for s in elf.iter_sections() if s["sh_type"] == "SHT_NOTE"]
    for data in sources:
        for owner, kind, desc in _iter_notes(data, endian):
            if owner == b"GNU" and kind == _NT_GNU_BUILD_ID:
                build_id = desc.hex()
            elif owner == b"Android" and kind == _NT_ANDROID_IDENT and len(desc) >= 4:
                api = int(struct.unpack_from(endian + "I", desc)[0])
                words = [desc[at : at + 64].split(b"\0")[0].decode("ascii", "replace") for at in (4, 68)]
                ndk = f"{words[0]} ({words[1]})" if words[1] else words[0] or None
    return build_id, api, ndk


def _iter_notes(data: bytes, endian: str) -> list[tuple[bytes, int, bytes]]:
    found: list[tuple[bytes, int, bytes]] = []
    at = 0
    while at + 12 <= len(data):
        name_size, desc_size, kind = struct.unpack_from(endian + "III", data, at)
        name_at = at + 12
        desc_at = name_at + (name_size + 3) // 4 * 4
        end = desc_at + desc_size
        if end > len(data):
            raise _Damaged("a note reaches past the end of its segment")
        found.append((data[name_at : name_at + name_size].rstrip(b"\0"), kind, data[desc_at:end]))
        at = desc_at + (desc_size + 3) // 4 * 4
    return found
