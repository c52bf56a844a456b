"""Archives that have the same bytes whenever they have the same content, and reading them without trust."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from buildtool.core.errors import BuildFailed, ToolMissing, unknown

FORMATS = ("tar.gz", "tar.zst", "zip")
_ZIPS = ("zip", "aar", "whl")
OLDEST = 315_532_800
"""1980-01-01: a zip file knows no earlier time."""
_LIMIT = 4 * 10**9
"""Bytes of content that a release may unpack to; the largest measured is 60 MB."""


@dataclass(frozen=True)
class Entry:
    """One file of a release: its bytes, or where they are."""

    source: Path | bytes
    executable: bool = False

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    @property
    def mode(self) -> int:
        return 0o755 if self.executable else 0o644


def write(path: Path, top: str, entries: Mapping[str, Entry], *, epoch: int) -> Path:
    """Write ``entries`` below the folder ``top``, sorted, owned by nobody, all of time ``epoch`` (seconds).

    The format is that of the name. By way of a temporary: ``path`` is whole or not there.
    """
    kind = format_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if kind == "zip":
            _write_zip(part, top, entries, epoch)
        else:
            _write_tar(part, kind, top, entries, epoch)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def format_of(path: Path) -> str:
    for kind in (*FORMATS, *_ZIPS):
        if path.name.endswith(f".{kind}"):
            return "zip" if kind in _ZIPS else kind
    raise unknown("archive format", path.name, FORMATS, where=str(path))


def _write_tar(path: Path, kind: str, top: str, entries: Mapping[str, Entry], epoch: int) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(entries):
            data = entries[name].read()
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size, info.mtime, info.mode = len(data), epoch, entries[name].mode
            archive.addfile(info, io.BytesIO(data))
    if kind == "tar.gz":
        # The header's time is 0 and its name empty: both would differ between machines.
        with path.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed:
            packed.write(plain.getvalue())
    else:
        path.write_bytes(_zstandard().ZstdCompressor(level=19).compress(plain.getvalue()))


def _write_zip(path: Path, top: str, entries: Mapping[str, Entry], epoch: int) -> None:
    import time

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(f"{top}/{name}" if top else name, time.gmtime(max(epoch, OLDEST))[:6])
            info.create_system = 3  # Unix, wherever it is made
            info.external_attr = (0o100000 | entries[name].mode) << 16
            archive.writestr(info, entries[name].read(), zipfile.ZIP_DEFLATED, 9)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as exc:
        raise ToolMissing("tar.zst needs a package", fix="pip install 'buildtool[release]'") from exc
    return zstandard


def read(path: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of an archive: name to (bytes, mode). Nothing is written anywhere.

    Raises BuildFailed for what is no archive, for names outside of it, links, devices, two files
    of one name, and for more content than a release has.
    """
    found: dict[str, tuple[bytes, int]] = {}
    left = _LIMIT
    try:
        for name, mode, stream in _members(path, format_of(path)):
            if name.startswith("/") or "\\" in name or not name or ".." in PurePosixPath(name).parts:
                raise BuildFailed("an archive entry lies outside of it", where=str(path), found=name)
            if name in found:
                raise BuildFailed("the archive has two files of one name", where=str(path), found=name)
            # What a header says of the size is not trusted.
            data = stream.read(left + 1)
            left -= len(data)
            if left < 0:
                raise BuildFailed("the archive unpacks to more than a release has", where=str(path))
            found[name] = (data, mode)
    except BuildFailed:
        raise
    except Exception as exc:  # the formats' readers answer damage with errors of many kinds
        raise BuildFailed(f"the archive can't be read: {exc or type(exc).__name__}", where=str(path)) from exc
    return found


def _members(path: Path, kind: str) -> Iterator[tuple[str, int, IO[bytes]]]:
    if kind == "zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    with archive.open(info) as stream:
                        yield info.filename, info.external_attr >> 16 & 0o777, stream
        return
    with path.open("rb") as raw, _open_tar(raw, kind) as tar:
        for member in tar:
            if member.isdir():
                continue
            content = tar.extractfile(member) if member.isfile() else None
            if content is None:
                raise BuildFailed("a release holds files only", where=str(path), found=member.name)
            yield member.name, member.mode & 0o777, content


def _open_tar(raw: IO[bytes], kind: str) -> tarfile.TarFile:
    if kind == "tar.gz":
        return tarfile.open(fileobj=raw, mode="r|gz")
    return tarfile.open(fileobj=_zstandard().ZstdDecompressor().stream_reader(raw), mode="r|")
