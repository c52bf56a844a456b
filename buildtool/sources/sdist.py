"""Fetching an sdist from a package registry: found by unearth, its digest checked, never built.

Which registry: pip's own configuration (environment and files), else unearth's default.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buildtool.core import files
from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, ConfigError
from buildtool.core.process import run
from buildtool.sources import cache
from buildtool.sources.model import Pin
from buildtool.sources.spec import Spec
from buildtool.sources.tree import NOT_FOR_RUNTIMES
from buildtool.sources.unpack import unpack

if TYPE_CHECKING:
    from unearth import PackageFinder

Progress = Callable[[int, "int | None"], None]
"""Called with bytes so far and the total (None when the server does not say)."""

_TRIES = 4
_PASSWORD = re.compile(r"://[^/\s'\"]*@")
_PIP_SECTIONS = ("global", "install", "download", ":env:")  # later ones win, as in pip
_FIX_NETWORK = "check the network and pip's index-url; run this again: it goes on where it stopped"


@dataclass(frozen=True)
class Found:
    """An sdist in a registry."""

    url: str
    shown: str
    """The URL without its password."""
    filename: str
    sha256: str | None


def _pip_config_lines() -> list[str]:
    """pip's own listing of its files and variables: ``section.option='value'``."""
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = run(argv, check=False, timeout=60)
    return done.stdout.splitlines() if done.ok else []


def pip_options() -> dict[str, str]:
    """pip's effective options (index-url, find-links …): its files and PIP_* variables."""
    tables: dict[str, dict[str, str]] = {section: {} for section in _PIP_SECTIONS}
    for line in _pip_config_lines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if section in tables:
            with contextlib.suppress(ValueError, SyntaxError):
                tables[section][option] = str(ast.literal_eval(value))
    # An environment without pip still has its variables.
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            tables[":env:"][name[len("PIP_") :].lower().replace("_", "-")] = value
    return {option: value for section in _PIP_SECTIONS for option, value in tables[section].items()}


def _finder() -> PackageFinder:
    import ssl

    from unearth import PackageFinder
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    options = pip_options()
    index: list[str] = []
    if options.get("no-index", "").lower() not in ("1", "true", "yes", "on"):
        # An empty finder holds unearth's default index.
        default = [str(source["url"]) for source in PackageFinder().sources]
        index = options.get("index-url", "").split() or default
        index += options.get("extra-index-url", "").split()
    links = [
        word if "://" in word else Path(word).expanduser().absolute().as_uri()
        for word in options.get("find-links", "").split()
    ]
    if not index and not links:
        raise ConfigError("pip is told to use no index and no find-links", where="pip config list")
    trusted = options.get("trusted-host", "").split()
    verify: Any = ssl.create_default_context(cafile=options["cert"]) if options.get("cert") else True
    client: Any = PyPIClient(trusted_hosts=trusted, verify=verify, timeout=_seconds(options))
    client.follow_redirects = True
    client.auth = MultiDomainBasicAuth(index_urls=index)
    return PackageFinder(
        session=client,
        index_urls=index,
        find_links=links,
        trusted_hosts=trusted,
        only_binary=(),
        no_binary=[":all:"],
        ignore_compatibility=True,
    )


@contextlib.contextmanager
def _transport_errors(what: str, where: str) -> Iterator[None]:
    """Whatever the HTTP library raises, as one BuildFailed; our own errors pass."""
    try:
        yield
    except Exception as exc:
        if not (
            type(exc).__module__.startswith(("httpx", "httpcore", "unearth")) or isinstance(exc, OSError)
        ):
            raise
        if isinstance(exc, OSError) and (exc.filename or exc.errno == errno.ENOSPC):
            raise  # a local file's trouble: disk full, no permission
        found = _PASSWORD.sub("://", f"{type(exc).__name__}: {exc}".splitlines()[0])
        raise BuildFailed(what, where=where, found=found, fix=_FIX_NETWORK) from exc


def _seconds(options: dict[str, str]) -> float:
    """pip's time limit for one answer of the registry."""
    text = options.get("timeout") or options.get("default-timeout") or "60"
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"pip's timeout is not a number: {text!r}", where="pip config list") from None


def find(spec: Spec, finder: PackageFinder) -> Found:
    """The sdist's link and digest. Raises BuildFailed without network, ConfigError when there is none."""
    where = ", ".join(_PASSWORD.sub("://", str(source["url"])) for source in finder.sources)
    with _transport_errors("can't reach the package registry", where):
        packages = list(finder.find_matches(f"{spec.name}=={spec.version}", True, True))
    for package in packages:
        link = package.link
        if not link.is_wheel:
            digests = (link.hash_option or {}).get("sha256") or []
            return Found(link.normalized, link.redacted, link.filename, digests[0] if digests else None)
    # unearth passes over an index that does not answer: "absent" must not hide that.
    for source in finder.sources:
        url = str(source["url"])
        if source["type"] == "index" and url.startswith("http"):
            with _transport_errors("can't reach the package registry", _PASSWORD.sub("://", url)):
                finder.session.get(f"{url.rstrip('/')}/{spec.name}/")
    raise ConfigError(
        f"no sdist of {spec.name}=={spec.version} in the package registry",
        where=where,
        fix="check the name and version, the network, and pip's index-url (pip config list)",
    )


def fetch(spec: Spec, *, sha256: str | None, progress: Progress | None = None) -> tuple[Path, Pin]:
    """The cache entry of the sdist's subdirectory and its pin; downloads and unpacks when needed.

    ``sha256``: the digest it must have, besides the registry's own.
    """
    finder = _finder()
    found = find(spec, finder)
    if sha256 and found.sha256 and sha256 != found.sha256:
        raise _mismatch(found.shown, sha256, found.sha256)
    expected = sha256 or found.sha256
    part = cache.folder() / "downloads" / f"{expected or files.sha256_bytes(found.url.encode())}.part"
    with cache.making(part):
        if expected and cache.usable(place := cache.entry(pin := Pin("sdist", expected), spec.subdir), pin):
            return place, pin
        screen.step(f"downloading {found.filename}")
        pin = Pin("sdist", _download(found, finder, part, expected, progress))
        try:
            place = unpacked(part, spec, pin, strip=1)
        except BuildFailed:
            part.unlink()
            raise
        part.unlink()
        return place, pin


def unpacked(archive: Path, spec: Spec, pin: Pin, *, strip: int | None) -> Path:
    """The cache entry of an archive whose digest is known; unpacks it when needed."""
    place = cache.entry(pin, spec.subdir)
    with cache.making(place):
        if cache.usable(place, pin) is None:
            screen.step(f"unpacking {spec.subdir or archive.name}")
            with files.atomic_dir(place) as work:
                tree = work / "tree"
                tree.mkdir()
                unpack(archive, tree, subdir=spec.subdir, exclude=NOT_FOR_RUNTIMES, strip=strip)
                if strip is None and not spec.subdir:
                    _lift(tree)
                cache.mark(work, spec=spec.text, pin=pin)
    return place


def _lift(tree: Path) -> None:
    """An archive's single top folder becomes the tree itself."""
    entries = list(tree.iterdir())
    if len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink():
        moved = tree.with_name("lifted")
        os.rename(entries[0], moved)
        tree.rmdir()
        os.rename(moved, tree)


def _download(
    found: Found, finder: PackageFinder, part: Path, expected: str | None, progress: Progress | None
) -> str:
    """Fill ``part``, going on with what is there; returns its digest, which is ``expected`` if given."""
    resumed = part.exists() and part.stat().st_size > 0
    if resumed and expected == files.sha256_file(part):
        return expected  # an earlier run was ended while it unpacked
    _transfer(found, finder, part, progress)
    actual = files.sha256_file(part)
    if expected and actual != expected and resumed:
        # What an earlier run left may have been another file: once more from the start.
        part.unlink()
        _transfer(found, finder, part, progress)
        actual = files.sha256_file(part)
    if expected and actual != expected:
        part.unlink()
        raise _mismatch(found.shown, expected, actual)
    return actual


def _mismatch(where: str, expected: str, found: str) -> BuildFailed:
    return BuildFailed(
        "sha256 mismatch",
        where=where,
        expected=expected,
        found=found,
        fix="don't use this file; check the registry, or the digest in buildtool.toml and buildtool.lock",
    )


def _transfer(found: Found, finder: PackageFinder, part: Path, progress: Progress | None) -> None:
    part.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(_TRIES):
        try:
            with _transport_errors("the download broke off", found.shown):
                _stream(found, finder, part, progress)
            return
        except BuildFailed:
            if attempt == _TRIES - 1:
                raise
            time.sleep(0.5 * 2**attempt)


def _stream(found: Found, finder: PackageFinder, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with finder.session.get_stream(found.url, headers=headers) as response:
        if response.status_code == 416:  # nothing beyond what is there: whole, or another file
            part.unlink()
            raise BuildFailed("the server has no more of the file", where=found.shown, fix=_FIX_NETWORK)
        response.raise_for_status()
        resuming = response.status_code == 206 and response.headers.get("content-range", "").startswith(
            f"bytes {have}-"
        )
        have = have if resuming else 0
        length = response.headers.get("content-length")
        total = have + int(length) if length else None
        with part.open("ab" if resuming else "wb") as out:
            # With a chunk size, what came of a chunk before the break would be lost.
            for chunk in response.iter_bytes():
                out.write(chunk)
                have += len(chunk)
                if progress is not None:
                    progress(have, total)
    if total is not None and have != total:
        raise BuildFailed(
            "the download is shorter than announced",
            where=found.shown,
            expected=f"{total} bytes",
            found=f"{have} bytes",
            fix=_FIX_NETWORK,
        )
