"""Installing what a bare Debian or Ubuntu machine lacks, with or without root.

Without root the packages are fetched by ``apt-get download`` (which needs no
rights) and unpacked below the user's cache folder, where the toolchain and
device look for them too.
"""

from __future__ import annotations

import os
from pathlib import Path

from buildtool.core.console import screen
from buildtool.core.errors import ToolMissing
from buildtool.core.files import atomic_dir
from buildtool.core.process import Completed, run, which

# What it brings -> the package. The first four make the phone-less line whole.
PACKAGES = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
    "make": "make",
    "git": "git",
}
# Enough to run aarch64 programs, compiled by zig, under emulation.
ROOTLESS_PACKAGES = (
    "qemu-user-static",
    "libc6-arm64-cross",
    "libgcc-s1-arm64-cross",
    "libstdc++6-arm64-cross",
    "libatomic1-arm64-cross",
)


def missing_packages() -> list[str]:
    """The packages whose program is not on PATH."""
    return [package for program, package in PACKAGES.items() if which(program) is None]


def _apt(words: list[str], *, cwd: Path | None = None) -> Completed:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    return run(words, cwd=cwd, env=env, timeout=1800, merge=True, what=" ".join(words[:3]))


def _privilege() -> list[str] | None:
    """The words that make apt-get run as root: none for root, sudo when it asks for no password."""
    if os.geteuid() == 0:
        return []
    sudo = which("sudo")
    if sudo is not None and run([sudo, "-n", "true"], check=False, timeout=10).ok:
        return [str(sudo), "-n"]
    return None


def install(private_root: Path, *, allow_root: bool = True) -> list[str]:
    """Install what is missing; returns a line for each thing done (empty: nothing was missing).

    Raises ToolMissing where there is no apt-get, ProcessFailed with apt's own
    words when it fails.
    """
    apt = which("apt-get")
    if apt is None:
        raise ToolMissing(
            "no apt-get here: this system is neither Debian nor Ubuntu",
            fix="install by its own means: " + ", ".join(PACKAGES),
        )
    privilege = _privilege() if allow_root else None
    if privilege is not None:
        wanted = missing_packages()
        if not wanted:
            return []
        screen.step(f"apt-get install {' '.join(wanted)}")
        _apt([*privilege, str(apt), "update"])
        _apt([*privilege, str(apt), "install", "-y", "--no-install-recommends", *wanted])
        return [f"installed {name}" for name in wanted]
    return _install_private(apt, private_root)


def _install_private(apt: Path, root: Path) -> list[str]:
    done: list[str] = []
    if not (root / "usr" / "bin" / "qemu-aarch64-static").exists():
        dpkg = which("dpkg-deb")
        if dpkg is None:
            raise ToolMissing("no dpkg-deb to unpack packages with")
        screen.step(f"fetch {' '.join(ROOTLESS_PACKAGES)} into {root}")
        with atomic_dir(root) as work:
            _apt([str(apt), "download", *ROOTLESS_PACKAGES], cwd=work)
            for archive in sorted(work.glob("*.deb")):
                run([dpkg, "-x", archive, work], timeout=300)
                archive.unlink()
                done.append(f"unpacked {archive.name.split('_')[0]}")
    from importlib.util import find_spec

    if find_spec("ziglang") is None and which("aarch64-linux-gnu-g++") is None:
        import sys

        screen.step("pip install ziglang")
        run([sys.executable, "-m", "pip", "install", "ziglang>=0.13"], timeout=1800, merge=True)
        done.append("installed ziglang")
    return done
