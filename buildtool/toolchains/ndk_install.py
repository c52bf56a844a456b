"""Download and unpack pinned NDK releases: resumed, verified before unpacking, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import ssl
import stat
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, ToolMissing, UsageError, unknown
from buildtool.core.files import atomic_dir, human_size, locked, sweep_temporaries
from buildtool.toolchains.ndk import install_dir, read_ndk

URL_VARIABLE = "BUILDTOOL_NDK_URL"
"""Another download folder than the vendor's (a mirror); https, or http on 127.0.0.1."""

_ATTEMPTS = 5
_CHUNK = 1 << 18
_TIMEOUT = 60.0
_MAX_RATIO = 20
"""Unpacked to packed size; real NDKs are below 5."""

# Not OSError: a full disk must not look like a bad connection.
_NETWORK_ERRORS = (
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    urllib.error.URLError,
    http.client.HTTPException,
)

Progress = Callable[[str, int, int], None]
"""Called with what is being done, bytes done and bytes in all."""


@dataclass(frozen=True)
class Archive:
    """One zip of a release. ``sources`` say where its size and digests were found confirmed."""

    file: str
    size: int
    sha1: str
    sha256: str | None
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Release:
    """An NDK release and its zip for each host system (linux, darwin, windows)."""

    name: str
    revision: str
    archives: Mapping[str, Archive]


@dataclass(frozen=True)
class Table:
    """The pinned releases, oldest first; ``default`` is what ``ndk install`` takes unasked."""

    url: str
    default: str
    releases: tuple[Release, ...]

    def get(self, name: str | None) -> Release:
        """By name (r27c, 27c) or revision; None is the default. Raises ConfigError for another."""
        wanted = name or self.default
        for release in self.releases:
            if wanted in (release.name, release.name[1:], release.revision):
                return release
        raise unknown("NDK release", wanted, [release.name for release in self.releases])


def table() -> Table:
    """The releases shipped with this version of buildtool."""
    data = json.loads(Path(__file__).with_name("ndk_releases.json").read_text(encoding="utf-8"))
    releases = tuple(
        Release(
            row["name"],
            row["revision"],
            {
                system: Archive(a["file"], a["size"], a["sha1"], a.get("sha256"), tuple(a["sources"]))
                for system, a in row["archives"].items()
            },
        )
        for row in data["releases"]
    )
    return Table(data["url"], data["default"], releases)


def host_system() -> str:
    """The name that NDK archives give to this operating system."""
    return {"win32": "windows", "darwin": "darwin"}.get(sys.platform, "linux")


def installed(release: Release) -> Path | None:
    """Where this release is installed in the cache, or None."""
    root = install_dir() / release.revision
    return root if (root / "source.properties").is_file() else None


def install(name: str | None = None, *, on_progress: Progress | None = None) -> Path:
    """Install a pinned release into the cache and return its folder; an installed one is kept.

    Raises ConfigError for an unknown release, ToolMissing when it has no
    archive for this host, UsageError for an unsafe address, and BuildFailed
    when the download or the archive is not what the table says. Nothing
    half-installed is left behind; an interrupted download is resumed.
    """
    releases = table()
    release = releases.get(name)
    archive = release.archives.get(host_system())
    if archive is None:
        have = [r.name for r in releases.releases if host_system() in r.archives]
        raise ToolMissing(
            f"no pinned archive of NDK {release.name} for {host_system()}",
            fix="install it by hand and set ANDROID_NDK_HOME, or take one of " + ", ".join(have),
        )
    root = install_dir() / release.revision
    with locked(
        install_dir() / f"{release.revision}.lock", what=f"installing NDK {release.name}", timeout=-1
    ):
        if installed(release) is not None:
            return root
        sweep_temporaries(install_dir())
        base = os.environ.get(URL_VARIABLE) or releases.url
        url = urllib.parse.urljoin(base.rstrip("/") + "/", archive.file)
        packed = install_dir() / "downloads" / archive.file
        download(url, archive, packed, on_progress)
        unpack(packed, root, release.revision, on_progress)
        packed.unlink()
    return root


def check_url(url: str) -> None:
    """Raises UsageError unless the address is https, or http on this machine (tests)."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname == "127.0.0.1"):
        return
    raise UsageError(
        "NDKs are downloaded by https only",
        where=url,
        fix=f"unset {URL_VARIABLE}, or set it to an https:// address",
    )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(  # type: ignore[no-untyped-def]  # noqa: PLR0917 - as in the base class
        self, req, fp, code, msg, headers, newurl
    ) -> urllib.request.Request | None:
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, archive: Archive, target: Path, on_progress: Progress | None = None) -> None:
    """Fetch ``url`` into ``target`` and verify size and digests.

    What an earlier run has fetched (``target``.part) is continued when the
    server can; a broken connection is retried as long as bytes arrive.
    """
    check_url(url)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():  # a run that ended between download and unpack
        _verify(target, archive, url)
        return
    part = target.with_name(target.name + ".part")
    failures = 0
    while (have := _size(part)) < archive.size:
        try:
            _fetch(url, part, have, archive, on_progress)
        except _NETWORK_ERRORS as exc:
            if isinstance(exc, urllib.error.HTTPError) and exc.code < 500 and exc.code != 416:
                raise BuildFailed(f"the server answered {exc.code} {exc.reason}", where=url) from exc
            failures = 1 if _size(part) > have else failures + 1
            if failures >= _ATTEMPTS:
                raise BuildFailed(
                    f"the download failed {failures} times: {exc}",
                    where=url,
                    found=f"{human_size(_size(part))} of {human_size(archive.size)}",
                    fix="check the network and proxy, then run this again: it goes on from there",
                ) from exc
            screen.trace(f"download interrupted ({exc}); attempt {failures + 1}")
            time.sleep(min(0.2 * 2**failures, 5.0))
    _verify(part, archive, url)
    os.replace(part, target)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _fetch(url: str, part: Path, have: int, archive: Archive, on_progress: Progress | None) -> None:
    """One request; appends to ``part``. Raises OSError when the connection ends early."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    handlers: list[urllib.request.BaseHandler] = [_SafeRedirects()]
    if url.startswith("http://"):
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        response = urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as exc:
        if exc.code == 416:  # what we have is no beginning of that file
            part.unlink(missing_ok=True)
        raise
    with response:
        resumed = response.status == 206 and str(response.headers.get("Content-Range", "")).startswith(
            f"bytes {have}-"
        )
        done = have if resumed else 0
        with part.open("ab" if resumed else "wb") as stream:
            while done < archive.size and (chunk := response.read(min(_CHUNK, archive.size - done))):
                stream.write(chunk)
                done += len(chunk)
                if on_progress is not None:
                    on_progress(f"downloading {archive.file}", done, archive.size)
    if done < archive.size:
        raise ConnectionError(f"the connection ended after {done} of {archive.size} bytes")


def _verify(path: Path, archive: Archive, url: str) -> None:
    """Compare size and every pinned digest; a file that differs is deleted."""
    sha1, sha256 = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha1.update(chunk)
            sha256.update(chunk)
    pairs = [
        ("bytes", str(archive.size), str(_size(path))),
        ("sha1", archive.sha1, sha1.hexdigest()),
        ("sha256", archive.sha256 or sha256.hexdigest(), sha256.hexdigest()),
    ]
    for what, expected, found in pairs:
        if expected != found:
            path.unlink()
            raise BuildFailed(
                f"the downloaded NDK is not the pinned one: {what} differs",
                where=url,
                expected=expected,
                found=found,
                fix="run this again; if it differs again, the server or a proxy changes the file",
            )


def unpack(packed: Path, root: Path, revision: str, on_progress: Progress | None = None) -> None:
    """Unpack an NDK zip (one top folder) as ``root``, keeping modes and symbolic links.

    Every entry is checked before the first byte is written. Raises BuildFailed
    for an entry that would leave ``root``, a link that points out of it, an
    archive that unpacks to far more than it should, or one that holds no
    complete NDK of ``revision``.
    """
    with zipfile.ZipFile(packed) as bundle, atomic_dir(root) as work:
        entries = _checked_entries(bundle, packed)
        total = sum(info.file_size for _, info in entries if not _is_link(info))
        free = shutil.disk_usage(work).free
        if total > free:
            raise BuildFailed(
                "not enough disk space to unpack the NDK",
                where=str(root.parent),
                expected=human_size(total),
                found=human_size(free),
            )
        done = 0
        links = []
        for path, info in entries:
            target = work / path
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if _is_link(info):
                links.append((target, info))
                continue
            with bundle.open(info) as source, target.open("xb") as stream:
                shutil.copyfileobj(source, stream, _CHUNK)
            target.chmod(_mode(info))
            done += info.file_size
            if on_progress is not None:
                on_progress(f"unpacking {packed.name}", done, total)
        # Links last, so that no file is ever written through one.
        for target, info in links:
            target.symlink_to(bundle.read(info).decode("utf-8"))
        found = read_ndk(work).revision
        if found != revision:
            raise BuildFailed(
                "the archive holds another NDK", where=str(packed), expected=revision, found=found
            )


def _checked_entries(bundle: zipfile.ZipFile, packed: Path) -> list[tuple[PurePosixPath, zipfile.ZipInfo]]:
    """Entries with the top folder taken off; raises BuildFailed for anything unsafe."""

    def refuse(why: str, name: str) -> BuildFailed:
        return BuildFailed(f"unsafe archive: {why}", where=str(packed), found=repr(name))

    entries: list[tuple[PurePosixPath, zipfile.ZipInfo]] = []
    seen: set[PurePosixPath] = set()
    links: set[PurePosixPath] = set()
    tops: set[str] = set()
    for info in bundle.infolist():
        path = PurePosixPath(info.filename)
        if (
            not path.parts
            or path.is_absolute()
            or ".." in path.parts
            or "\\" in info.filename
            or ":" in path.parts[0]
        ):
            raise refuse("an entry leaves the folder", info.filename)
        tops.add(path.parts[0])
        inner = PurePosixPath(*path.parts[1:])
        if not path.parts[1:]:
            continue
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            raise refuse("an entry is neither file, folder nor link", info.filename)
        if inner in seen:
            raise refuse("an entry comes twice", info.filename)
        seen.add(inner)
        if _is_link(info):
            links.add(inner)
            if info.file_size > 4096 or not _stays_inside(
                inner, bundle.read(info).decode("utf-8", "replace")
            ):
                raise refuse("a link points out of the folder", info.filename)
        entries.append((inner, info))
    if len(tops) != 1:
        raise refuse("not one top folder", ", ".join(sorted(tops)[:5]))
    for path, info in entries:
        if any(parent in links for parent in path.parents):
            raise refuse("an entry lies behind a link", info.filename)
    total = sum(info.file_size for _, info in entries)
    if total > _MAX_RATIO * _size(packed) + (1 << 20):
        raise refuse("it unpacks to far more than an NDK does", f"{human_size(total)} unpacked")
    return entries


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


def _stays_inside(link: PurePosixPath, target: str) -> bool:
    """Whether a link at ``link`` (relative to the root) with this target points into the root.

    ``..`` counts only at the front: after a name it could climb out of wherever
    another link leads.
    """
    parts = PurePosixPath(target).parts
    if not parts or target.startswith("/") or "\\" in target or "\0" in target:
        return False
    up = next((i for i, part in enumerate(parts) if part != ".."), len(parts))
    return up < len(link.parts) and ".." not in parts[up:]


def _mode(info: zipfile.ZipInfo) -> int:
    """Permission bits: the archive's, without write access for others."""
    bits = (info.external_attr >> 16) & 0o777
    return (bits & 0o755) | 0o600 if bits else 0o644
