"""numpy's .npz files without numpy: read any plain one, write what every rtvm can read.

What is written is stored (not compressed), in C order and little-endian: the relay-era rtvm
aborts on compressed files and takes Fortran order for C order.
"""

from __future__ import annotations

import ast
import io
import math
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.errors import UsageError

_CODES = {
    "bool": "|b1",
    "int8": "|i1",
    "uint8": "|u1",
    **{f"{kind}{bits}": f"<{kind[0]}{bits // 8}" for kind in ("int", "uint") for bits in (16, 32, 64)},
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
}
_NAMES = {code: name for name, code in _CODES.items()}
_MAGIC = b"\x93NUMPY"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal arrays give equal files


def item_size(dtype: str) -> int:
    """Bytes of one element."""
    return int(_CODES[dtype][2:])


def is_dtype(name: str) -> bool:
    """Whether numpy's files can hold this element type."""
    return name in _CODES


@dataclass(frozen=True)
class Array:
    """An array as its bytes: C order, little-endian. ``dtype`` is numpy's name (``float32``)."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        assert len(self.data) == item_size(self.dtype) * math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def floats(values: list[float], shape: tuple[int, ...]) -> Array:
    """A float32 array of these values (rounded to the nearest)."""
    return Array("float32", shape, struct.pack(f"<{len(values)}f", *values))


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write ``arrays`` as .npz, whole or not at all."""
    from buildtool.core.files import atomic_write

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), _npy(array))
    atomic_write(path, buffer.getvalue())


def _npy(array: Array) -> bytes:
    header = f"{{'descr': '{_CODES[array.dtype]}', 'fortran_order': False, 'shape': {array.shape!r}, }}"
    header += " " * (-(len(_MAGIC) + 4 + len(header) + 1) % 64) + "\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1") + array.data


def read(path: Path) -> dict[str, Array]:
    """Every array of an .npz file, in the file's order.

    Compressed files and Fortran order are fine. Raises UsageError that names file and
    array for anything else than plain numbers: objects, text, structures, big-endian, damage.
    """
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if name in arrays:
                    raise UsageError(f"array {name!r} is there twice", where=str(path))
                arrays[name] = _parse(archive.read(member), f"{path}, array {name!r}")
    except FileNotFoundError:
        raise UsageError("no such .npz file", where=str(path)) from None
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as exc:
        raise UsageError(
            f"not a readable .npz file: {exc}", where=str(path), fix="write it with numpy.savez"
        ) from exc
    return arrays


def _parse(content: bytes, where: str) -> Array:
    if not content.startswith(_MAGIC) or len(content) < 12:
        raise UsageError("not an .npy array", where=where)
    width = "<H" if content[6] == 1 else "<I"
    start = 8 + struct.calcsize(width)
    (length,) = struct.unpack_from(width, content, 8)
    try:
        header = ast.literal_eval(content[start : start + length].decode("utf-8"))
        descr, fortran, shape = header["descr"], header["fortran_order"], tuple(header["shape"])
    except (SyntaxError, ValueError, KeyError, TypeError) as exc:
        raise UsageError("damaged array header", where=where) from exc
    dtype = _NAMES.get(descr if isinstance(descr, str) else "")
    if dtype is None:
        raise UsageError(
            "an element type that models can't take",
            where=where,
            found=str(descr),
            expected="little-endian bool, int, uint or float",
        )
    data = content[start + length :]
    if not all(isinstance(n, int) and n >= 0 for n in shape) or len(data) != item_size(dtype) * math.prod(
        shape
    ):
        raise UsageError("damaged array: its size does not fit its shape", where=where)
    return Array(dtype, shape, _c_order(data, shape, item_size(dtype)) if fortran else data)


def _c_order(data: bytes, shape: tuple[int, ...], size: int) -> bytes:
    """Bytes in Fortran order (first index fastest) put into C order (last index fastest)."""
    if len(shape) < 2 or not data:
        return data
    items = [data[at : at + size] for at in range(0, len(data), size)]
    rest = math.prod(shape[1:])
    # Peel the first axis off: it is the fastest one in Fortran order.
    rows = (b"".join(items[row :: shape[0]]) for row in range(shape[0]))
    return b"".join(_c_order(row, shape[1:], size) for row in rows) if rest else data


def parse_dtype(text: str) -> str | None:
    """``float32`` of TVM's ``float32`` or ``float32x1``; None for a type that files can't hold."""
    match = re.fullmatch(r"([a-z]+\d*)(?:x1)?", text)
    name = match.group(1) if match else ""
    return name if is_dtype(name) else None
