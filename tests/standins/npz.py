"""numpy's files made by hand, right or wrong in one place, and read back: no numpy needed."""

from __future__ import annotations

import ast
import io
import struct
import zipfile
from pathlib import Path


def npy(
    data: bytes,
    shape: tuple[int, ...],
    descr: str = "'<f4'",
    *,
    fortran: bool = False,
    version: int = 1,
    header: str | None = None,
) -> bytes:
    """The bytes of an .npy file; ``descr`` is the Python literal of the element type."""
    text = header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    width = "<H" if version == 1 else "<I"
    fixed = 8 + struct.calcsize(width)
    text += " " * (-(fixed + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack(width, len(text)) + text.encode("latin-1") + data


def npz(members: dict[str, bytes], *, compress: bool = False) -> bytes:
    """The bytes of an .npz file, its members as given (``.npy`` is added to the names)."""
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def read(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Each array's type, shape and bytes in C order. The checksums are verified by zipfile."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            (length,) = struct.unpack_from("<H", content, 8)
            header = ast.literal_eval(content[10 : 10 + length].decode("latin-1"))
            assert content.startswith(b"\x93NUMPY\x01\x00")
            assert (10 + length) % 64 == 0
            assert not header["fortran_order"]
            arrays[name.removesuffix(".npy")] = (header["descr"], header["shape"], content[10 + length :])
    return arrays
