"""read_elf: the facts of real files, and any damage as one clear error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildtool.artifacts import read_elf
from buildtool.core.errors import BuildFailed
from tests.standins.binaries import ADD, ARM_CC, MAIN, compile_c


def test_facts_of_a_shared_library(tmp_path: Path) -> None:
    code = "extern int elsewhere(void); __attribute__((weak)) int maybe(void);\n" + (
        "int add(int a, int b) { return a + b + elsewhere() + (maybe ? maybe() : 0); }\n"
        "static int hidden(void) { return 1; } int (*use)(void) = hidden;\n"
    )
    library = compile_c(
        tmp_path, "liba.so", code, "-g", "-Wl,--build-id=0x00112233445566778899aabbccddeeff", "-Wl,-z,now"
    )
    elf = read_elf(library)
    assert (elf.type, elf.soname, elf.interpreter, elf.pie) == ("ET_DYN", "liba.so", None, False)
    assert "add" in elf.defined and "use" in elf.defined
    assert "hidden" not in elf.defined and "add" not in elf.undefined
    assert "elsewhere" in elf.undefined
    assert "maybe" not in elf.undefined, "a weak symbol need not be found"
    assert elf.build_id == "00112233445566778899aabbccddeeff"
    assert elf.bind_now and elf.relro and not elf.textrel and not elf.executable_stack
    assert elf.has_debug and not elf.stripped
    assert any("E" in s.flags for s in elf.segments) and any("W" in s.flags for s in elf.segments)
    assert all((s.offset - s.vaddr) % s.align == 0 for s in elf.segments)


def test_symbol_versions_are_left_off(tmp_path: Path) -> None:
    elf = read_elf(compile_c(tmp_path, "prog", '#include <stdio.h>\nint main(void) { return puts("x"); }\n'))
    assert "puts" in elf.undefined
    assert not [s for s in elf.undefined if "@" in s]
    assert elf.pie and elf.interpreter is not None and elf.interpreter.startswith("/lib")
    assert "libc.so.6" in elf.needed


def test_facts_of_another_machine(tmp_path: Path) -> None:
    elf = read_elf(compile_c(tmp_path, "libarm.so", ADD, "-Wl,-rpath,/build/place", cc=ARM_CC))
    assert (elf.elf_class, elf.machine) == (64, "EM_AARCH64")
    assert elf.runpath == "/build/place" and elf.rpath is None


def test_old_style_rpath_and_fixed_address(tmp_path: Path) -> None:
    elf = read_elf(
        compile_c(tmp_path, "prog", MAIN, "-no-pie", "-Wl,--disable-new-dtags,-rpath,/x", "-Wl,-z,execstack")
    )
    assert elf.rpath == "/x" and elf.runpath is None
    assert elf.type == "ET_EXEC" and not elf.pie
    assert elf.executable_stack


def test_object_file(tmp_path: Path) -> None:
    elf = read_elf(compile_c(tmp_path, "a.o", ADD))
    assert elf.type == "ET_REL" and elf.segments == () and not elf.executable_stack


def test_android_note(tmp_path: Path) -> None:
    note = (
        '__attribute__((section(".note.android.ident"), used, aligned(4))) static const struct {\n'
        "  int n, d, t; char name[8]; int api; char ndk[64]; char build[64];\n"
        '} note = {8, 132, 1, "Android", 28, "r22", "7026061"};\n'
    )
    elf = read_elf(compile_c(tmp_path, "libn.so", ADD + note, cc=ARM_CC))
    assert elf.android_api == 28
    assert elf.ndk_version == "r22 (7026061)"


@pytest.mark.parametrize("content", [b"", b"\x7fEL", b"hello world, no ELF here", b"!<arch>\n" + b"x" * 99])
def test_not_an_elf_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(BuildFailed, match="not an ELF file") as caught:
        read_elf(path)
    assert str(path) in str(caught.value)


def test_missing_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BuildFailed, match="can't read") as caught:
            read_elf(path)
        assert str(path) in str(caught.value)


@pytest.fixture(scope="module")
def specimen(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compile_c(tmp_path_factory.mktemp("elf"), "libx.so", ADD, "-g").read_bytes()


def _read_mutated(path: Path, data: bytes) -> None:
    """Reads, or fails with the one error, and fast."""
    path.write_bytes(data)
    begun = time.monotonic()
    try:
        read_elf(path)
    except BuildFailed as exc:
        assert str(path) in str(exc)
    assert time.monotonic() - begun < 2.0


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_truncated_anywhere(specimen: bytes, tmp_path: Path, data: st.DataObject) -> None:
    length = data.draw(st.integers(4, len(specimen) - 1))
    path = tmp_path / "cut"
    path.write_bytes(specimen[:length])
    with pytest.raises(BuildFailed):  # the section table lies at the end: every cut shows
        read_elf(path)


@given(data=st.data())
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_mutated_anywhere(specimen: bytes, tmp_path: Path, data: st.DataObject) -> None:
    blob = bytearray(specimen)
    # Half of the hits go where they hurt: the file header, the program headers, the section table.
    places = st.one_of(
        st.integers(0, len(blob) - 1), st.integers(4, 0x400), st.integers(len(blob) - 2400, len(blob) - 1)
    )
    changes = data.draw(
        st.lists(st.tuples(places, st.sampled_from([0, 1, 2, 7, 0x7F, 0x80, 0xFF])), min_size=1, max_size=12)
    )
    for place, value in changes:
        blob[place] = value
    _read_mutated(tmp_path / "mutant", bytes(blob))


def test_huge_counts_are_refused_at_once(specimen: bytes, tmp_path: Path) -> None:
    for at in (0x38, 0x3C):  # e_phnum, e_shnum
        blob = bytearray(specimen)
        blob[at : at + 2] = b"\xff\xff"
        path = tmp_path / f"mutant{at}"
        path.write_bytes(blob)
        begun = time.monotonic()
        with pytest.raises(BuildFailed, match="headers at offset"):
            read_elf(path)
        assert time.monotonic() - begun < 0.5
