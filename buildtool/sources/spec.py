"""The grammar of source specs: what a user may write after ``--source``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.errors import ConfigError

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar", ".zip")

_SDIST = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9.+!_-]+)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# What git check-ref-format refuses, and a leading dash that git would take for a flag.
_BAD_REF = re.compile(r"^-|\.\.|[\x00-\x20\x7f~^:?*\[\\]|@\{|//|^/|/$|\.lock$|\.$")
_GIT_SCHEMES = ("http://", "https://", "ssh://", "git://", "file://")

GRAMMAR = "a folder, git+URL@REF, sdist:NAME==VERSION#SUBDIR, or an archive (.tar.gz, .tar.xz, .zip)[#SUBDIR]"


@dataclass(frozen=True)
class Spec:
    """A parsed spec. ``kind`` is path, git, sdist or archive; only its own fields are set."""

    kind: str
    text: str
    path: Path | None = None
    """The folder (path) or file (archive), absolute."""
    url: str = ""
    ref: str = ""
    name: str = ""
    version: str = ""
    subdir: str = ""
    """The only folder to unpack, with forward slashes; empty for everything."""

    @property
    def commit(self) -> str | None:
        """The commit, when the ref is a whole one."""
        return self.ref if _COMMIT.fullmatch(self.ref) else None


def parse_spec(text: str, *, cwd: Path | None = None) -> Spec:
    """What ``text`` names. Relative paths start at ``cwd``. Raises ConfigError saying what is wrong."""
    if text.startswith("sdist:"):
        return _sdist(text)
    if text.startswith("git+"):
        return _git(text, text[len("git+") :])
    if _SCHEME.match(text):
        if ".git@" in text:
            return _git(text, text)
        raise _refuse(text, "a URL must be a git repository with a ref", fix="write git+URL@REF")
    return _local(text, (cwd or Path.cwd()).absolute())


def _refuse(text: str, what: str, *, fix: str | None = None) -> ConfigError:
    return ConfigError(what, where=f"source {text!r}", expected=GRAMMAR, fix=fix)


def _sdist(text: str) -> Spec:
    wanted, _, subdir = text[len("sdist:") :].partition("#")
    match = _SDIST.fullmatch(wanted.strip())
    if match is None:
        raise _refuse(text, "an sdist must be given as NAME==VERSION, so that it stays the same one")
    return Spec("sdist", text, name=match["name"], version=match["version"], subdir=_subdir(text, subdir))


def _git(text: str, rest: str) -> Spec:
    url, at, ref = rest.rpartition("@")
    scp_like = re.match(r"[^/@:]+@[^/:]+:", rest)
    # In ssh://git@host/x or git@host:x the only @ parts the user from the host.
    if not at or re.fullmatch(r"[A-Za-z+.-]+://[^/]*", url) or (scp_like and rest.count("@") == 1):
        raise _refuse(text, "a git source must name a tag, branch or commit", fix=f"write {text}@REF")
    if _SCHEME.match(url):
        if not url.startswith(_GIT_SCHEMES):
            raise _refuse(text, f"git sources can't use {url.partition('://')[0]}://")
    elif url.startswith("-") or "::" in url or not url:
        raise _refuse(text, "not a git URL")
    if not ref or _BAD_REF.search(ref):
        raise _refuse(text, f"not a git tag, branch or commit: {ref!r}")
    return Spec("git", text, url=url, ref=ref)


def _local(text: str, cwd: Path) -> Spec:
    if not text:
        raise _refuse(text, "the source is empty")
    whole = cwd / Path(text).expanduser()
    if whole.is_dir():
        return Spec("path", text, path=whole)
    file, _, subdir = (
        (text, "", "") if whole.is_file() else text.rpartition("#") if "#" in text else (text, "", "")
    )
    path = cwd / Path(file).expanduser()
    if path.is_file():
        if not path.name.lower().endswith(ARCHIVE_SUFFIXES):
            raise _refuse(
                text, "the source is a file of an unknown kind", fix=f"known: {' '.join(ARCHIVE_SUFFIXES)}"
            )
        return Spec("archive", text, path=path, subdir=_subdir(text, subdir))
    raise ConfigError("no such source", where=str(path), expected=GRAMMAR)


def _subdir(text: str, subdir: str) -> str:
    parts = [part for part in subdir.split("/") if part not in ("", ".")]
    if subdir.startswith("/") or ".." in parts or "\\" in subdir or "\0" in subdir:
        raise _refuse(text, f"the subdirectory must stay inside the archive: {subdir!r}")
    return "/".join(parts)
