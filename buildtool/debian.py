"""Installing what a bare Debian or Ubuntu machine lacks, with or without root.

Without root the packages are fetched by ``apt-get download`` (which needs no
rights) and unpacked below the user's cache folder, where the toolchain and
device look for them too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from buildtool.core.console import screen
from buildtool.core.errors import ToolMissing
from buildtool.core.files import atomic_dir, sha256_file
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


OPENCL_PACKAGES = ("pocl-opencl-icd", "ocl-icd-libopencl1", "libstdc++6")
"""A CPU's OpenCL (PoCL) with all it needs: some 65 arm64 packages, 85 MB to fetch, 470 MB unpacked."""
_NOT_NEEDED = ("share/doc", "share/man", "share/info", "share/locale", "bin", "include")


def missing_packages() -> list[str]:
    """The packages whose program is not on PATH."""
    return [package for program, package in PACKAGES.items() if which(program) is None]


def _apt(words: list[str], *, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> Completed:
    env = {**os.environ, **(more or {}), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
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


def install_opencl(root: Path) -> list[str]:
    """Unpack an arm64 system with PoCL into ``root``, for the emulated device; [] when it is there.

    A private apt configuration reads this system's own package sources for arm64; nothing is
    installed and no right is needed. ``packages.txt`` there lists each package with version and
    digest. Raises ToolMissing without apt, ProcessFailed with apt's words (a source without arm64).
    """
    if (root / _LIST).is_file():
        return []
    apt, dpkg = which("apt-get"), which("dpkg-deb")
    if apt is None or dpkg is None:
        raise ToolMissing("no apt-get and dpkg-deb here: emulated OpenCL is made of Debian packages")
    screen.step(f"fetch OpenCL for the emulated device into {root}")
    with atomic_dir(root) as work:
        state = work / ".apt"
        config = _private_apt(state, "arm64")
        _apt([str(apt), "update"], more=config)
        words = ["-y", "--download-only", "--no-install-recommends", "install"]
        _apt([str(apt), *words, *OPENCL_PACKAGES], more=config)
        archives = sorted((state / "archives").glob("*.deb"))
        listed = [f"{archive.name} sha256:{sha256_file(archive)}\n" for archive in archives]
        for archive in archives:
            run([dpkg, "-x", archive, work], timeout=300)
        for name in _NOT_NEEDED:
            shutil.rmtree(work / "usr" / name, ignore_errors=True)
        shutil.rmtree(state)
        library = work / "usr" / "lib" / "aarch64-linux-gnu" / "libOpenCL.so"
        library.symlink_to("libOpenCL.so.1")  # TVM opens the unversioned name
        (work / _LIST).write_text("".join(listed), encoding="utf-8")
    return [f"unpacked {len(listed)} arm64 packages into {root}"]


_LIST = "packages.txt"


def _private_apt(state: Path, architecture: str) -> dict[str, str]:
    """An apt of its own below ``state``: this system's sources, nothing installed, one architecture."""
    for name in ("lists/partial", "archives/partial", "log"):
        (state / name).mkdir(parents=True)
    (state / "status").touch()
    lines = [
        f'APT::Architecture "{architecture}";',
        f'APT::Architectures {{ "{architecture}"; }};',
        f'Dir::State "{state}";',
        f'Dir::State::lists "{state}/lists";',
        f'Dir::State::status "{state}/status";',
        f'Dir::Cache "{state}";',
        f'Dir::Cache::archives "{state}/archives";',
        f'Dir::Log "{state}/log";',
        'Debug::NoLocking "true";',
        'APT::Sandbox::User "";',  # the folder is this user's
        "",
    ]
    (state / "apt.conf").write_text("\n".join(lines), encoding="utf-8")
    return {"APT_CONFIG": str(state / "apt.conf")}
