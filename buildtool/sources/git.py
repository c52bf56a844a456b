"""Fetching a git tree: shallow, with its submodules, going on where an earlier run was ended."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from buildtool.core.console import screen
from buildtool.core.errors import BuildFailed, ConfigError, ProcessFailed, ToolMissing
from buildtool.core.process import Completed, run, which
from buildtool.sources import cache
from buildtool.sources.model import Pin
from buildtool.sources.spec import Spec
from buildtool.sources.tree import NOT_FOR_RUNTIMES

_LS_SECONDS = 120.0


class Git:
    """git in one folder, with no prompts and none of the caller's GIT_DIR."""

    def __init__(self, folder: Path, *, local: bool = False) -> None:
        if which("git") is None:
            raise ToolMissing("git is not installed", fix="install git (Debian: apt-get install git)")
        self.folder = folder
        # git refuses file:// submodules unless told: right for a remote tree, not for the user's own.
        self.flags = ["-c", "protocol.file.allow=always"] if local else []
        self.env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
        }
        self.env |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}

    def __call__(self, *words: str, check: bool = True, timeout: float | None = None) -> Completed:
        argv = ["git", *self.flags, "-C", str(self.folder), *words]
        return run(argv, env=self.env, check=check, timeout=timeout, what=f"git {words[0]}")


def _is_local(url: str) -> bool:
    return url.startswith("file://") or Path(url).expanduser().exists()


def _remote(url: str) -> str:
    """The URL as git takes it from any folder."""
    return str(Path(url).expanduser().absolute()) if "://" not in url and _is_local(url) else url


def resolve(spec: Spec) -> tuple[str, str]:
    """The commit that the ref names at the remote now, and the full ref to fetch it by.

    A tag wins over a branch of the same name. A whole commit is taken as it is.
    """
    if spec.commit:
        return spec.commit, spec.commit
    git = Git(Path.cwd(), local=_is_local(spec.url))
    done = git("ls-remote", "--", _remote(spec.url), check=False, timeout=_LS_SECONDS)
    if not done.ok:
        raise BuildFailed(
            "can't reach the git repository",
            where=spec.url,
            fix="check the address and the network; a tree already fetched works offline by its lock file",
            details=done.tail(5),
        )
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        commit, _, name = line.partition("\t")
        found[name] = commit
    for full in (f"refs/tags/{spec.ref}", f"refs/heads/{spec.ref}", spec.ref):
        if full in found:
            # name^{} is the commit that an annotated tag points at.
            return found.get(f"{full}^{{}}", found[full]), full
    names = sorted({re.sub(r"^refs/(tags|heads)/", "", name.removesuffix("^{}")) for name in found})
    raise _no_ref(spec, names)


def _no_ref(spec: Spec, names: Sequence[str]) -> ConfigError:
    from buildtool.core.errors import did_you_mean

    near = did_you_mean(spec.ref, names)
    return ConfigError(
        f"the repository has no tag, branch or commit {spec.ref!r}",
        where=spec.url,
        fix=f"did you mean {near!r}?" if near else "a commit must be given with all its 40 digits",
    )


def fetch(spec: Spec, commit: str, ref: str) -> Path:
    """The cache entry with ``commit`` checked out and its submodules filled; makes it when needed."""
    pin = Pin("git", commit)
    place = cache.entry(pin)
    with cache.making(place):
        if cache.usable(place, pin):
            return place
        # Not a temporary that is swept away: a killed run's objects are used by the next.
        part = place.with_name(f"{place.name}.partial")
        tree = part / "tree"
        tree.mkdir(parents=True, exist_ok=True)
        _fill(Git(tree, local=_is_local(spec.url)), spec, commit, ref)
        cache.mark(part, spec=spec.text, pin=pin)
        if place.exists():
            shutil.rmtree(place)
        os.rename(part, place)
    return place


def _fill(git: Git, spec: Spec, commit: str, ref: str) -> None:
    for stale in git.folder.glob(".git/**/*.lock"):
        stale.unlink()  # left by a killed git: this process holds the entry's own lock
    git("init", "--quiet")
    git("config", "remote.origin.url", _remote(spec.url))
    if not git("cat-file", "-e", f"{commit}^{{commit}}", check=False).ok:
        screen.step(f"fetching {spec.ref} of {spec.url}")
        _fetch_commit(git, spec, commit, ref)
    git("checkout", "--quiet", "--force", "--detach", commit)
    _fill_submodules(git)


def _fetch_commit(git: Git, spec: Spec, commit: str, ref: str) -> None:
    shallow = git("fetch", "--quiet", "--depth", "1", "--no-tags", "--", "origin", ref, check=False)
    if shallow.ok and git("cat-file", "-e", f"{commit}^{{commit}}", check=False).ok:
        return
    # The server gives no single commits (or the ref moved on): take the history.
    deepen = ["--unshallow"] if (git.folder / ".git/shallow").exists() else []
    full = git(
        "fetch",
        "--quiet",
        "--tags",
        *deepen,
        "--",
        "origin",
        "+refs/heads/*:refs/remotes/origin/*",
        check=False,
    )
    if not full.ok:
        raise BuildFailed(
            "can't fetch from the git repository",
            where=spec.url,
            fix="run this again: it goes on where it stopped",
            details=full.tail(5),
        )
    if not git("cat-file", "-e", f"{commit}^{{commit}}", check=False).ok:
        raise _no_ref(spec, ())


def _fill_submodules(git: Git) -> None:
    listing = git("config", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", check=False)
    wanted = False
    for line in listing.stdout.splitlines():
        key, _, path = line.partition(" ")
        unneeded = any(fnmatch.fnmatch(path, pattern) for pattern in NOT_FOR_RUNTIMES)
        wanted |= not unneeded
        if unneeded:
            git("config", key.removesuffix(".path") + ".update", "none")
    if not wanted:
        return
    screen.step("fetching submodules")
    words = ("submodule", "--quiet", "update", "--init", "--recursive", "--force")
    git("submodule", "--quiet", "sync", "--recursive", check=False)
    if git(*words, "--depth", "1", "--jobs", "4", check=False).ok:
        return
    try:
        git(*words)
    except ProcessFailed as exc:
        raise BuildFailed(
            "can't fetch the submodules",
            where=str(git.folder),
            fix="run this again: it goes on where it stopped",
            details=exc.details[-5:],
        ) from exc


def describe(root: Path) -> str | None:
    """The commit of a checkout, with ``-dirty`` when its tracked files are changed; None without one."""
    if not (root / ".git").exists() or which("git") is None:
        return None
    git = Git(root)
    head = git("rev-parse", "--verify", "--quiet", "HEAD", check=False)
    if not head.ok:
        return None
    status = git("status", "--porcelain", "--untracked-files=no", check=False)
    return head.stdout.strip() + ("-dirty" if status.stdout.strip() or not status.ok else "")
