"""rtvm's file readers and number formats, built by the host's compiler under sanitizers; no TVM needed."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.standins.npz import floats, npy, npz, read
from tests.standins.rtvm import source_dir

COMPILER = shutil.which("g++") or shutil.which("clang++")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(COMPILER is None, reason="no g++ or clang++ on this machine"),
]

FLAGS = [
    *("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``fuzz`` and ``array_test``."""
    folder = tmp_path_factory.mktemp("rtvm")
    source = source_dir()
    needs_tvm = {"main.cc", "runtime.cc"}
    files = [p for p in sorted(source.glob("*.cc")) if p.name not in needs_tvm]
    files += [source / "fuzz" / "fuzz.cc", source / "test" / "array_test.cc"]

    def compile_one(path: Path) -> None:
        _compile("-c", str(path), "-I", str(source), "-o", str(folder / f"{path.stem}.o"))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, files))
    shared = [str(folder / f"{p.stem}.o") for p in files[:-2]]
    for name in ("fuzz", "array_test"):
        _compile(str(folder / f"{name}.o"), *shared, "-o", str(folder / name))
    return folder


def _compile(*words: str) -> None:
    assert COMPILER is not None
    done = subprocess.run([COMPILER, *FLAGS, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program, *map(str, words)], capture_output=True, text=True, check=False, timeout=600
    )
    assert "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    return done


def test_number_formats_and_statistics(programs: Path) -> None:
    done = _run(programs / "array_test")
    assert done.stdout == "0 differences\n", done.stdout
    assert done.returncode == 0


DESCRS = ["|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"]


@pytest.mark.parametrize("compress", [False, True], ids=["stored", "compressed"])
def test_every_type_and_header_comes_through(programs: Path, tmp_path: Path, compress: bool) -> None:
    members = {}
    for index, descr in enumerate(DESCRS):
        data = bytes(i % (2 if descr == "|b1" else 251) for i in range(6 * int(descr[2:])))
        members[descr[1:]] = npy(data, (2, 3), repr(descr), version=1 + index % 3)
    members["scalar"] = npy(floats(1.5), ())
    members["empty"] = npy(b"", (0, 4))
    members["vector"] = npy(floats(1, 2, 3), (3,), fortran=True)
    members["ünï/code"] = npy(floats(1), (1,))
    members["repetitive"] = npy(b"hello hello " * 1000, (12000,), "'|u1'")
    members["noise"] = npy(os.urandom(70000), (70000,), "'|u1'")
    (tmp_path / "in.npz").write_bytes(npz(members, compress=compress))
    (tmp_path / "plain.npz").write_bytes(npz({k: _version_1(v) for k, v in members.items()}))
    done = _run(programs / "fuzz", "copy", tmp_path / "in.npz", tmp_path / "out.npz")
    assert done.returncode == 0, done.stderr
    assert read(tmp_path / "out.npz") == read(tmp_path / "plain.npz")
    assert list(tmp_path.glob("*.part*")) == []


def _version_1(content: bytes) -> bytes:
    width, fixed = ("<H", 10) if content[6] == 1 else ("<I", 12)
    (length,) = struct.unpack_from(width, content, 8)
    header = content[fixed : fixed + length].decode().rstrip().replace("True", "False")
    return npy(content[fixed + length :], (), header=header)


def test_fortran_order_is_transposed(programs: Path, tmp_path: Path) -> None:
    # Of the array a[i][j][k] = 100 i + 10 j + k, the first index running fastest.
    shape = (2, 3, 4)
    fast_first = [100 * i + 10 * j + k for k in range(4) for j in range(3) for i in range(2)]
    fast_last = [100 * i + 10 * j + k for i in range(2) for j in range(3) for k in range(4)]
    (tmp_path / "in.npz").write_bytes(npz({"x": npy(floats(*fast_first), shape, fortran=True)}))
    assert _run(programs / "fuzz", "copy", tmp_path / "in.npz", tmp_path / "out.npz").returncode == 0
    assert read(tmp_path / "out.npz")["x"] == ("<f4", shape, floats(*fast_last))


def test_equal_arrays_give_equal_bytes(programs: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.npz").write_bytes(npz({"x": npy(floats(1, 2), (2,))}, compress=name == "b"))
        _run(programs / "fuzz", "copy", tmp_path / f"{name}.npz", tmp_path / f"{name}2.npz")
    assert (tmp_path / "a2.npz").read_bytes() == (tmp_path / "b2.npz").read_bytes()


def _edited(content: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    """``content`` with ``value`` written ``offset`` bytes after the first ``signature``."""
    at = content.index(signature) + offset
    return content[:at] + value + content[at + len(value) :]


GOOD = npz({"x": npy(floats(1, 2), (2,))})
PACKED = npz({"x": npy(b"\0" * 4000, (1000,))}, compress=True)
CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"

DAMAGED = {
    "empty file": (b"", "not an .npz file"),
    "text": (b"hello, this is no archive at all\n", "not an .npz file"),
    "bare npy": (npy(floats(1), (1,)), "not an .npz file"),
    "cut in the middle": (GOOD[: len(GOOD) // 2], "no directory at its end"),
    "cut at the end": (GOOD[:-1], "no directory at its end"),
    "data bytes changed": (GOOD.replace(floats(1, 2), floats(1, 3)), "its checksum differs"),
    "compressed data changed": (_edited(PACKED, b"x.npy", 9, b"\xff\xff\xff"), "damaged"),
    "compressed to far too much": (
        _edited(PACKED, CENTRAL, 24, b"\xf0\xff\xff\x7f"),
        "damaged compressed data",
    ),
    "unknown compression": (_edited(GOOD, CENTRAL, 10, b"\x0c\0"), "compression method 12 is not supported"),
    "encrypted": (_edited(GOOD, CENTRAL, 8, b"\x01"), "encrypted"),
    "zip64 size": (_edited(GOOD, CENTRAL, 20, b"\xff" * 8), "zip64"),
    "zip64 directory": (_edited(GOOD, END, 16, b"\xff" * 4), "zip64"),
    "directory outside": (_edited(GOOD, END, 16, b"\xf0\xff\xff\x7f"), "its directory lies outside"),
    "more members than there are": (_edited(GOOD, END, 10, b"\x05\0"), "its directory is cut off"),
    "member outside": (_edited(GOOD, CENTRAL, 42, b"\xf0\xff\xff\x7f"), "it ends too early"),
    "member not there": (_edited(GOOD, CENTRAL, 42, b"\x04"), "no data for"),
    "one part of several": (_edited(GOOD, END, 4, b"\x01"), "one part of several"),
    "two sizes": (_edited(GOOD, CENTRAL, 24, b"\x01"), "two sizes"),
    "not an array": (npz({"x": b"no numpy header here"}), "not an .npy array"),
    "unknown version": (npz({"x": npy(b"", (), version=1).replace(b"\x01\0", b"\x09\0", 1)}), "format 9"),
    "header cut off": (npz({"x": b"\x93NUMPY\x01\0\xff\xff{}"}), "truncated .npy header"),
    "header no dict": (npz({"x": npy(b"", (), header="[1, 2, 3]")}), "damaged .npy header"),
    "header of code": (npz({"x": npy(b"", (), header="{'descr': exit()}")}), "damaged .npy header"),
    "shape missing": (npz({"x": npy(b"", (), header="{'descr': '<f4', 'fortran_order': False}")}), "damaged"),
    "big-endian": (npz({"x": npy(floats(1), (1,), "'>f4'")}), "big-endian"),
    "objects": (npz({"x": npy(b"", (1,), "'|O'")}), "'|O' is not supported"),
    "text array": (npz({"x": npy(b"abcd", (1,), "'<U1'")}), "is not supported"),
    "complex": (npz({"x": npy(b"\0" * 8, (1,), "'<c8'")}), "is not supported"),
    "bfloat16 as raw bytes": (npz({"x": npy(b"\0\0", (1,), "'<V2'")}), "astype('float32')"),
    "structured": (npz({"x": npy(b"", (1,), "[('a', '<f4')]")}), "structured arrays"),
    "negative size": (npz({"x": npy(b"", (-4,))}), "negative or too large"),
    "size overflows": (npz({"x": npy(b"", (1 << 40, 1 << 40))}), "negative or too large"),
    "huge number": (npz({"x": npy(b"", (1 << 70,))}), "more than 18 digits"),
    "too many dimensions": (npz({"x": npy(floats(1), (1,) * 65)}), "more than 64 dimensions"),
    "data missing": (npz({"x": npy(floats(1), (2,))}), "expected 8 bytes, found 4"),
    "data left over": (npz({"x": npy(floats(1, 2, 3), (2,))}), "expected 8 bytes, found 12"),
    "other files": (GOOD.replace(b"x.npy", b"x.txt"), "expected only .npy members"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_file_is_refused(programs: Path, tmp_path: Path, case: str) -> None:
    content, message = DAMAGED[case]
    bad = tmp_path / "bad.npz"
    bad.write_bytes(content)
    done = _run(programs / "fuzz", "copy", bad, tmp_path / "out.npz")
    assert done.returncode == 2
    assert message in done.stderr
    assert str(bad) in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.npz").exists()


def test_name_twice_is_refused(programs: Path, tmp_path: Path) -> None:
    twice = npz({"x": npy(floats(1), (1,)), "y": npy(floats(1), (1,))}).replace(b"y.npy", b"x.npy")
    (tmp_path / "bad.npz").write_bytes(twice)
    done = _run(programs / "fuzz", "copy", tmp_path / "bad.npz", tmp_path / "out.npz")
    assert (done.returncode, "the name is there twice" in done.stderr) == (2, True)


def test_members_that_share_bytes_are_refused(programs: Path, tmp_path: Path) -> None:
    """A small file must not fill the memory by naming its one large member often."""
    content = npz({"x": npy(b"\0" * 40000, (10000,))})
    at, end = content.index(CENTRAL), content.index(END)
    entry = content[at:end]
    entries = b"".join(entry.replace(b"x.npy", b"%c.npy" % (97 + i)) for i in range(20))
    tail = bytearray(content[end:])
    struct.pack_into("<HHI", tail, 8, 20, 20, len(entries))
    (tmp_path / "bad.npz").write_bytes(content[:at] + entries + bytes(tail))
    done = _run(programs / "fuzz", "copy", tmp_path / "bad.npz", tmp_path / "out.npz")
    assert (done.returncode, "its members overlap" in done.stderr) == (2, True)


def test_thousands_of_mutated_files(programs: Path, tmp_path: Path) -> None:
    """Whatever the bytes: read, or refused in one line; never a crash, an overflow or a hang."""
    members = {d[1:]: npy(bytes(6 * int(d[2:])), (2, 3), repr(d)) for d in DESCRS}
    members["text"] = npy(b"hello hello " * 300, (3600,), "'|u1'")
    files = {
        "stored.npz": npz(members),
        "packed.npz": npz(members, compress=True),
        "fortran.npy": npy(floats(*range(24)), (2, 3, 4), fortran=True),
        "model.json": (source_dir() / "smoke" / "model.json").read_bytes(),
        "deep.json": json.dumps(
            {"a": [[{"b": 1.5e3, "c": "\u00e9\n\ud83d\ude00", "d": None}]], "e": True}
        ).encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / name for name in files]
    done = _run(programs / "fuzz", "mutate", 20261201, 10000, *paths)
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    taken, refused = int(words[2]), int(words[4])
    assert taken + refused == 10000
    # Both happen, so the mutations are neither harmless nor always fatal at the first byte.
    assert taken > 100
    assert refused > 5000
