"""Files written whole or not at all, locks that name their holder, and digests."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from buildtool.core.errors import BuildFailed, UsageError

_CHUNK = 1 << 20


def atomic_write(path: Path, data: str | bytes, *, mode: int = 0o644) -> None:
    """Write ``data`` to ``path`` by way of a temporary beside it, then rename.

    A reader sees the old content or the new, never a part; a failure leaves
    the old file and no temporary.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    blob = data.encode("utf-8") if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(blob)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def atomic_dir(target: Path) -> Iterator[Path]:
    """A new empty folder that takes ``target``'s place only when the block ends well.

    An existing ``target`` is kept until then and removed afterwards. On an
    error the new folder is removed and ``target`` is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        yield work
        os.chmod(work, 0o755)  # noqa: S103 - mkdtemp makes 0700; the content is no secret
        old = work.with_suffix(".old")
        if target.exists():
            os.rename(target, old)
        os.rename(work, target)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def sweep_temporaries(folder: Path, *, older_than: float = 3600.0) -> None:
    """Remove what killed runs left behind (``.*.tmp``, ``.*.old``), older than that many seconds."""
    import time

    limit = time.time() - older_than
    for pattern in (".*.tmp", ".*.old"):
        for stale in folder.glob(pattern):
            with contextlib.suppress(OSError):
                if stale.stat().st_mtime < limit:
                    shutil.rmtree(stale) if stale.is_dir() else stale.unlink()


@contextlib.contextmanager
def locked(path: Path, *, what: str, timeout: float = 0.0) -> Iterator[None]:
    """Hold an exclusive inter-process lock named by ``path`` (its folder is made).

    Waits ``timeout`` seconds (negative: for ever), then raises UsageError that
    names the holder's pid. The lock goes with the process, however it ends.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.with_name(path.name + ".owner")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=timeout)
    except Timeout as exc:
        holder = "another process"
        with contextlib.suppress(OSError):
            holder = f"process {owner.read_text().strip()}"
        raise UsageError(
            f"{what} is in use by {holder}",
            where=str(path),
            fix="wait for it to end, or end it, and run this again",
        ) from exc
    try:
        owner.write_text(f"{os.getpid()}\n")
        yield
    finally:
        with contextlib.suppress(OSError):
            owner.unlink()
        lock.release()


def sha256_file(path: Path) -> str:
    """The file's SHA-256 in lower-case hex."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON-able value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256_bytes(text.encode("ascii"))


def read_json(path: Path) -> Any:
    """The file's JSON; raises BuildFailed that names the file when it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as exc:
        raise BuildFailed(f"not a JSON file: {exc}", where=str(path)) from exc


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as sorted, indented JSON, whole or not at all."""
    atomic_write(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def human_size(count: float) -> str:
    """Bytes as people read them: ``4.41 MB`` (powers of 1000)."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1000
    raise AssertionError
