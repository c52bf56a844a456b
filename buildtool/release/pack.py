"""Making a release, and checking one that was received."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildtool.artifacts import ArtifactSet, read_elf
from buildtool.core.errors import BuildFailed
from buildtool.core.files import atomic_write, locked, sha256_bytes, sha256_file, sweep_temporaries
from buildtool.core.process import run
from buildtool.release import archive, contents, papers
from buildtool.release.archive import Entry

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Release:
    """The archives that were made, and the file of their digests."""

    archives: tuple[Path, ...]
    sums: Path


def make(
    sets: Sequence[ArtifactSet],
    folder: Path,
    *,
    formats: Sequence[str] = ("tar.gz",),
) -> Release:
    """Archives of every set in every format, debug archives, and SHA256SUMS.

    A file appears whole or not at all, and SHA256SUMS last: a release without it is unfinished.
    Raises BuildFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".release.lock", what=f"the release folder {folder}"):
        sweep_temporaries(folder, older_than=0)
        made: list[Path] = []
        for artifacts in sets:
            entries, epoch = _entries(artifacts)
            top = contents.top_folder(artifacts)
            debug = contents.debug_files(artifacts)
            for kind in formats:
                made.append(archive.write(folder / f"{top}.{kind}", top, entries, epoch=epoch))
                if debug:
                    name = f"{top}-debug"
                    made.append(archive.write(folder / f"{name}.{kind}", name, debug, epoch=epoch))
        sums = folder / SUMS
        atomic_write(sums, _sums_text(folder, made))
    return Release(tuple(made), sums)


def finish(release: Release, more: Sequence[Path], *, sign: Sequence[str] = ()) -> Release:
    """The release with ``more`` files in its SHA256SUMS, which the user's command ``sign`` then signs:
    its path is the command's last word."""
    atomic_write(release.sums, _sums_text(release.sums.parent, more))
    if sign:
        run([*sign, release.sums], timeout=600, what=f"signing with {sign[0]}")
    return Release((*release.archives, *more), release.sums)


def _sums_text(folder: Path, made: Iterable[Path]) -> str:
    """Digests of the new archives beside those of earlier ones that are still there."""
    known: dict[str, str] = {}
    if (folder / SUMS).is_file():
        for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
            digest, _, name = line.partition("  ")
            if (folder / name).is_file():
                known[name] = digest
    known |= {path.name: sha256_file(path) for path in made}
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(known.items()))


def _entries(artifacts: ArtifactSet) -> tuple[dict[str, Entry], int]:
    epoch = contents.source_epoch(artifacts)
    entries = contents.gather(artifacts)
    record = contents.record(artifacts, entries, epoch)
    entries[contents.RECORD] = Entry((json.dumps(record, indent=2) + "\n").encode())
    entries[papers.SBOM] = Entry(papers.sbom(record).encode())
    entries[papers.PROVENANCE] = Entry(papers.provenance(record).encode())
    return entries, epoch


def check(path: Path, *, sums: Path | None = None) -> tuple[list[str], dict[str, Any]]:
    """Check a received archive; returns what was found good, a line each, and its build record.

    Its digest against SHA256SUMS (``sums``, else the one beside it), every file against the record,
    SBOM and provenance against their forms and the record, each program's ELF header against the record.
    Raises BuildFailed at the first thing that is wrong.
    """
    good = [_check_sum(path, sums)]
    files = archive.read(path)
    tops = {name.split("/")[0] for name in files}
    if len(tops) != 1:
        raise BuildFailed("a release has one top folder", where=str(path), found=", ".join(sorted(tops)[:5]))
    top = tops.pop()
    inside = {name[len(top) + 1 :]: data for name, (data, _) in files.items()}
    record = _record(inside, path)
    papers_names = {contents.RECORD, papers.SBOM, papers.PROVENANCE}
    found = {name: sha256_bytes(data) for name, data in inside.items() if name not in papers_names}
    wrong = sorted(n for n in {*found, *record["files"]} if found.get(n) != record["files"].get(n))
    if wrong:
        raise BuildFailed(
            "the archive's files are not those of its record", where=str(path), found=", ".join(wrong[:5])
        )
    good.append(f"{len(found)} files equal to the record")
    papers.check_sbom(inside[papers.SBOM].decode(), record)
    good.append("SBOM fits CycloneDX 1.6 and names these files")
    papers.check_provenance(inside[papers.PROVENANCE].decode(), record)
    good.append("provenance is an in-toto statement (SLSA v1) about these files")
    good.append(_check_elf(inside, record, path))
    return good, record


def _check_sum(path: Path, sums: Path | None) -> str:
    place = sums or path.with_name(SUMS)
    if not path.is_file() or not place.is_file():
        missing = place if path.is_file() else path
        raise BuildFailed("no such file", where=str(missing), fix="name the file of digests with --sums")
    listed = {
        name: digest
        for digest, _, name in (line.partition("  ") for line in place.read_text("utf-8").splitlines())
    }
    if path.name not in listed:
        raise BuildFailed(f"{path.name} is not listed", where=str(place))
    actual = sha256_file(path)
    if actual != listed[path.name]:
        raise BuildFailed("sha256 mismatch", where=str(path), expected=listed[path.name], found=actual)
    return f"sha256 {actual} as in {place.name}"


def _record(inside: dict[str, bytes], path: Path) -> dict[str, Any]:
    missing = [n for n in (contents.RECORD, papers.SBOM, papers.PROVENANCE) if n not in inside]
    if missing:
        raise BuildFailed(f"the release has no {', '.join(missing)}", where=str(path))
    try:
        record = json.loads(inside[contents.RECORD])
        if record["format"] != contents.RECORD_FORMAT or not isinstance(record["files"], dict):
            raise ValueError(f"format {record['format']!r}")
    except (ValueError, LookupError, TypeError) as exc:
        raise BuildFailed(f"the build record can't be read: {exc}", where=str(path)) from exc
    return dict(record)


def _check_elf(inside: dict[str, bytes], record: dict[str, Any], path: Path) -> str:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="buildtool-release-") as folder:
        for name, wanted in record["elf"].items():
            local = Path(folder) / "file"
            local.write_bytes(inside[name])
            elf = read_elf(local)
            seen = {
                "machine": elf.machine,
                "needed": list(elf.needed),
                "build_id": elf.build_id,
                "android_api": elf.android_api,
            }
            if seen != wanted:
                raise BuildFailed(f"{name} is not what the record says", where=str(path), found=str(seen))
    return f"{len(record['elf'])} ELF files as the record says"
