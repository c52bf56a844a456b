"""From a spec to a TVM tree on disk, fetched when needed, pinned and read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from buildtool.core import files
from buildtool.core.errors import BuildFailed, ConfigError, UsageError
from buildtool.sources import cache
from buildtool.sources.model import Pin, TvmSource
from buildtool.sources.spec import Spec, parse_spec
from buildtool.sources.tree import examine, is_tvm_tree

if TYPE_CHECKING:
    from buildtool.settings import Settings
    from buildtool.sources.sdist import Progress

HOME_VARIABLE = "TVM_HOME"
LOCK_FILE = "buildtool.lock"


def default_spec(cwd: Path, env: Mapping[str, str]) -> str | None:
    """TVM_HOME, else the current folder when it is a TVM tree, else None."""
    named = env.get(HOME_VARIABLE)
    if named:
        return named
    return str(cwd) if is_tvm_tree(cwd) else None


def open_source(
    spec: str, *, sha256: str | None = None, pin: Pin | None = None, on_progress: Progress | None = None
) -> TvmSource:
    """The tree that ``spec`` names, fetched into the content cache when it is not there.

    ``sha256`` is the digest that an sdist or archive must have. With ``pin``
    anything but that very source is refused. ``on_progress`` sees a download's
    bytes so far and total. Raises ConfigError for a bad spec, UsageError for a
    tree that can't be built, BuildFailed when fetching fails.
    """
    wanted = parse_spec(spec)
    if sha256 is not None:
        sha256 = _checked_digest(sha256, wanted)
    if pin is not None and pin.kind != wanted.kind:
        raise _drift(wanted, pin, Pin(wanted.kind, "?"))
    root, found = _locate(wanted, sha256, pin, on_progress)
    if pin is not None and pin != found:
        raise _drift(wanted, pin, found)
    version, catalogue, capabilities, notes = examine(root)
    return TvmSource(root, spec, found, version, catalogue, capabilities, notes)


def _checked_digest(sha256: str, wanted: Spec) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", sha256):
        raise ConfigError("sha256 must be 64 hex digits", where="source.sha256", found=sha256)
    if wanted.kind not in ("sdist", "archive"):
        raise ConfigError(
            f"sha256 is for an sdist or an archive, not for a {wanted.kind}", where=f"source {wanted.text!r}"
        )
    return sha256.lower()


def _drift(wanted: Spec, pin: Pin, found: Pin) -> UsageError:
    return UsageError(
        "the source is not the one that was locked",
        where=f"source {wanted.text!r}",
        expected=f"{pin.kind} {pin.id}",
        found=f"{found.kind} {found.id}",
        fix=f"run buildtool source fetch --update to write {LOCK_FILE} anew, or go back to the locked source",
    )


def _locate(wanted: Spec, sha256: str | None, pin: Pin | None, progress: Progress | None) -> tuple[Path, Pin]:
    if wanted.kind == "path":
        assert wanted.path is not None
        return wanted.path, _pin_path(wanted.path)
    if wanted.kind == "git":
        return _locate_git(wanted, pin)
    if wanted.kind == "sdist":
        return _locate_sdist(wanted, sha256 or (pin.id if pin else None), progress)
    assert wanted.path is not None
    actual = files.sha256_file(wanted.path)
    if sha256 is not None and actual != sha256:
        raise BuildFailed("sha256 mismatch", where=str(wanted.path), expected=sha256, found=actual)
    found = Pin("archive", actual)
    from buildtool.sources import sdist

    return sdist.unpacked(wanted.path, wanted, found, strip=None) / "tree", found


def _locate_git(wanted: Spec, pin: Pin | None) -> tuple[Path, Pin]:
    commit = pin.id if pin else wanted.commit
    if commit and cache.usable(place := cache.entry(known := Pin("git", commit)), known):
        return place / "tree", known  # no network: the content is the locked one
    from buildtool.sources import git

    commit, ref = git.resolve(wanted)
    found = Pin("git", commit)
    if pin is not None and pin != found:
        raise _drift(wanted, pin, found)
    return git.fetch(wanted, commit, ref) / "tree", found


def _locate_sdist(wanted: Spec, sha256: str | None, progress: Progress | None) -> tuple[Path, Pin]:
    # A registry never changes a version's file, so a fetched one needs no network.
    cached = cache.by_spec(wanted.text)
    if cached and sha256 in (None, cached[1].id):
        return cached[0] / "tree", cached[1]
    from buildtool.sources import sdist

    place, found = sdist.fetch(wanted, sha256=sha256, progress=progress)
    return place / "tree", found


def _pin_path(root: Path) -> Pin:
    from buildtool.sources import git

    commit = git.describe(root)
    if commit is None:
        names = ("version.py", "CMakeLists.txt")
        digests = {n: files.sha256_file(root / n) for n in names if (root / n).is_file()}
        commit = files.digest_of(digests)
    return Pin("path", commit)


def fetch_for(
    settings: Settings, *, locked: bool = False, update: bool = False, on_progress: Progress | None = None
) -> TvmSource:
    """The tree that the settings, TVM_HOME or the current folder name, as buildtool.lock pins it.

    The lock file lies beside buildtool.toml and holds that file's own source: one
    named by a flag or the environment is not written to it. ``locked`` refuses a
    source that the lock file lacks or that differs; ``update`` pins what is there now.
    """
    from buildtool.settings import lock

    spec = settings.source.spec or default_spec(Path.cwd(), os.environ)
    if spec is None:
        raise UsageError(
            "no TVM source is named",
            fix=f"give --source SPEC, set [source] spec in buildtool.toml, or set {HOME_VARIABLE}",
        )
    named_elsewhere = settings.origin("source.spec").startswith(("flag", "environment ", "built-in"))
    sha256 = settings.source.sha256
    path = settings.file.parent / LOCK_FILE if settings.file else None
    if path is None or (named_elsewhere and not locked):
        if locked:
            raise UsageError("--locked needs a buildtool.toml with its lock file", fix="run: buildtool init")
        return open_source(spec, sha256=sha256, on_progress=on_progress)
    pins = lock.read(path)
    key = _lock_key(spec, path.parent)
    entry = None if update else pins.get(key)
    if locked and entry is None:
        raise UsageError(
            "the source is not in the lock file",
            where=str(path),
            expected=key,
            fix="set it as [source] spec in buildtool.toml and run: buildtool source fetch",
        )
    pin = Pin(entry.kind, entry.id) if entry else None
    # A working tree changes all the time: it is held to its pin only when asked.
    follow = pin if locked or (pin and pin.kind != "path") else None
    source = open_source(spec, sha256=sha256, pin=follow, on_progress=on_progress)
    if pin != source.pin:
        lock.write(path, {**pins, key: lock.Locked(**asdict(source.pin))})
    return source


def _lock_key(spec: str, folder: Path) -> str:
    """The spec as it is written to the lock file: local paths relative to it, the same on every machine."""
    parsed = parse_spec(spec)
    if parsed.path is None:
        return spec
    name = Path(os.path.relpath(parsed.path, folder)).as_posix()
    return f"{name}#{parsed.subdir}" if parsed.subdir else name
