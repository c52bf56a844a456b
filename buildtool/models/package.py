"""A model as one tar archive, as tvmc writes it: the model folder's files."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from buildtool.core.errors import UsageError

_NAMES = ("mod.so", "mod.json", "mod.params", "model.json", "params.npz")


def is_package(path: Path) -> bool:
    """Whether ``path`` is a tar archive."""
    return path.is_file() and tarfile.is_tarfile(path)


def unpack(path: Path, folder: Path) -> Path:
    """Write the model's files in the archive to ``folder`` (made) and return it; others are left out.

    Raises UsageError for an archive that is damaged or without mod.so.
    """
    folder.mkdir()
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                # By name alone: nothing in an archive chooses where it is written.
                name = member.name.removeprefix("./")
                stream = archive.extractfile(member) if name in _NAMES and member.isfile() else None
                if stream is not None:
                    with (folder / name).open("wb") as target:
                        shutil.copyfileobj(stream, target)
    except (tarfile.TarError, EOFError, OSError) as exc:
        raise UsageError(f"not a readable archive: {exc}", where=str(path)) from exc
    if not (folder / "mod.so").is_file():
        raise UsageError(
            "no mod.so in this package",
            where=str(path),
            fix="export a shared library (tvmc compile --output-format so)",
        )
    return folder
