"""Unpacking archives that nobody vouches for: in one pass, one subdirectory, nothing outside it.

Refused with one error, before anything could be used: absolute names, ``..``,
links that leave the folder, devices and pipes, sizes and counts that no source
tree has, and archives cut short.
"""

from __future__ import annotations

import fnmatch
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from buildtool.core.errors import BuildFailed

MAX_FILES = 300_000
MAX_BYTES = 8 << 30
"""Limits on an archive: about ten times a TVM tree with all submodules."""


@dataclass
class Unpacker:
    """Takes members one by one. ``strip``: leading folders to drop (None: found from the first match)."""

    archive: Path
    dest: Path
    subdir: str = ""
    exclude: Sequence[str] = ()
    """Folder patterns, relative to the subdirectory, that are left out."""
    strip: int | None = None
    max_files: int = MAX_FILES
    max_bytes: int = MAX_BYTES
    seen: int = 0
    """Members so far, those outside the subdirectory too: the limits are on the whole archive."""
    size: int = 0
    files: int = 0
    """Files and links unpacked."""
    _links: list[tuple[Path, str]] = field(default_factory=list)

    def refuse(self, what: str, name: str) -> BuildFailed:
        return BuildFailed(
            f"the archive is refused: {what}", where=f"{self.archive}: {name!r}", fix="get it from its author"
        )

    def place(self, name: str) -> Path | None:
        """Where a member goes; None when it is outside the subdirectory or excluded."""
        if name.startswith("/") or "\\" in name or "\0" in name or name[1:2] == ":":
            raise self.refuse("absolute or foreign path", name)
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self.refuse("path that leaves the folder", name)
        wanted = self.subdir.split("/") if self.subdir else []
        for strip in (0, 1) if self.strip is None else (self.strip,):
            if len(parts) > strip and parts[strip : strip + len(wanted)] == wanted:
                rest = parts[strip + len(wanted) :]
                if not rest:
                    return self.dest
                if wanted:
                    self.strip = strip
                return None if self._excluded(rest) else self.dest.joinpath(*rest)
        return None

    def _excluded(self, parts: list[str]) -> bool:
        heads = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        return any(fnmatch.fnmatchcase(head, pattern) for head in heads for pattern in self.exclude)

    def count(self, name: str, size: int) -> None:
        self.seen += 1
        self.size += size
        if self.seen > self.max_files:
            raise self.refuse(f"more than {self.max_files} files", name)
        if size < 0 or self.size > self.max_bytes:
            raise self.refuse(f"more than {self.max_bytes >> 20} MB", name)

    def write(self, target: Path, stream: IO[bytes], *, executable: bool, size: int, name: str) -> None:
        if target == self.dest or target.exists():
            raise self.refuse("the same name twice", name)
        self._parent(target, name)
        with target.open("wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)
            # A zip may hold more than its directory admits.
            if out.tell() != size:
                raise self.refuse(f"{out.tell()} bytes where {size} were announced", name)
        target.chmod(0o755 if executable else 0o644)
        self.files += 1

    def _parent(self, target: Path, name: str) -> None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise self.refuse("a file where a folder is needed", name) from None

    def link(self, target: Path, to: str, name: str) -> None:
        """Note a symbolic link; all are made at the end, so that no file is written through one."""
        if not to or to.startswith("/") or "\\" in to or "\0" in to:
            raise self.refuse(f"link to an absolute or foreign path {to!r}", name)
        self._links.append((target, to))

    def hard_link(self, target: Path, source: Path | None, name: str) -> None:
        if source is None or not source.is_file():
            raise self.refuse("hard link to a file that is not in the folder", name)
        self._parent(target, name)
        if target.exists():
            raise self.refuse("the same name twice", name)
        shutil.copy2(source, target)
        self.files += 1

    def finish(self) -> None:
        """Make the links; every one must end inside the folder once all are there."""
        root = self.dest.resolve()
        for target, to in self._links:
            name = target.relative_to(self.dest).as_posix()
            if os.path.lexists(target):
                raise self.refuse("the same name twice", name)
            if os.path.realpath(target.parent) != str(root / target.parent.relative_to(self.dest)):
                raise self.refuse("path through a link", name)
            self._parent(target, name)
            target.symlink_to(to)
            self.files += 1
        for target, to in self._links:
            if not Path(os.path.realpath(target)).is_relative_to(root):
                name = target.relative_to(self.dest).as_posix()
                raise self.refuse(f"link that leaves the folder, to {to!r}", name)
        if self.files == 0:
            raise BuildFailed(
                f"the archive has no folder {self.subdir!r}" if self.subdir else "the archive is empty",
                where=str(self.archive),
            )


def unpack(
    archive: Path, dest: Path, *, subdir: str = "", exclude: Sequence[str] = (), strip: int | None = None
) -> int:
    """Unpack ``subdir`` of an archive into the empty folder ``dest``; returns the number of files.

    Raises BuildFailed for a damaged or hostile archive; the caller removes ``dest``.
    """
    unpacker = Unpacker(archive, dest, subdir, exclude, strip)
    try:
        if _is_zip(archive):
            _zip(unpacker)
        else:
            _tar(unpacker)
    except (
        EOFError,
        zlib.error,
        lzma.LZMAError,
        tarfile.TarError,
        zipfile.BadZipFile,
        NotImplementedError,
        UnicodeDecodeError,
    ) as exc:
        raise BuildFailed(
            f"the archive is damaged or cut short: {exc}", where=str(archive), fix="get it again"
        ) from exc
    unpacker.finish()
    return unpacker.files


def _is_zip(archive: Path) -> bool:
    with archive.open("rb") as stream:
        return stream.read(2) == b"PK"


def _tar(unpacker: Unpacker) -> None:
    with tarfile.open(unpacker.archive, "r|*") as tar:
        for member in tar:
            unpacker.count(member.name, member.size)
            target = unpacker.place(member.name)
            if target is None or member.isdir():
                continue
            if member.issym():
                unpacker.link(target, member.linkname, member.name)
            elif member.islnk():
                unpacker.hard_link(target, unpacker.place(member.linkname), member.name)
            elif member.isreg() and (stream := tar.extractfile(member)) is not None:
                executable = bool(member.mode & 0o100)
                unpacker.write(target, stream, executable=executable, size=member.size, name=member.name)
                os.utime(target, (member.mtime, member.mtime))
            else:
                raise unpacker.refuse("neither file, folder nor link", member.name)


def _zip(unpacker: Unpacker) -> None:
    with zipfile.ZipFile(unpacker.archive) as bundle:
        for member in bundle.infolist():
            unpacker.count(member.filename, member.file_size)
            target = unpacker.place(member.filename)
            if target is None or member.is_dir():
                continue
            mode = member.external_attr >> 16
            kind = stat.S_IFMT(mode)
            if member.flag_bits & 1:
                raise unpacker.refuse("encrypted", member.filename)
            if kind == stat.S_IFLNK:
                if member.file_size > 4096:
                    raise unpacker.refuse("link longer than any path", member.filename)
                unpacker.link(target, bundle.read(member).decode("utf-8"), member.filename)
            elif kind in (0, stat.S_IFREG):
                with bundle.open(member) as stream:
                    executable = bool(mode & 0o100)
                    unpacker.write(
                        target, stream, executable=executable, size=member.file_size, name=member.filename
                    )
            else:
                raise unpacker.refuse("neither file, folder nor link", member.filename)
