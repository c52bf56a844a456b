"""What one Android NDK has: revision, host, ABIs, API levels. Wrong folders are named as what they are."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.types import Abi

OLDEST_MAJOR = 19
"""The first NDK with per-API compiler wrappers and one sysroot; also the first able to build C++17."""

FIX = "set ANDROID_NDK_HOME or pass --ndk PATH to an NDK, or run: buildtool ndk install"

CLANG_TRIPLE = {
    Abi.ARM64: "aarch64-linux-android",
    Abi.ARM32: "armv7a-linux-androideabi",
    Abi.X86_64: "x86_64-linux-android",
    Abi.X86: "i686-linux-android",
    Abi.RISCV64: "riscv64-linux-android",
}
SYSROOT_TRIPLE = {**CLANG_TRIPLE, Abi.ARM32: "arm-linux-androideabi"}
_FIRST_64BIT_LEVEL = 21
_REVISION = re.compile(r"(\d+)\.(\d+)\.(\d+)(-\w+)?")


@dataclass(frozen=True)
class Ndk:
    """A complete NDK for this host.

    ``levels`` holds, for each ABI, the API levels that can be asked for;
    ``aliases`` the levels that stand for another one (25 is 24).
    """

    root: Path
    revision: str
    major: int
    host_tag: str
    clang_version: str
    levels: Mapping[Abi, tuple[int, ...]]
    aliases: Mapping[int, int] = field(default_factory=dict)

    @property
    def prebuilt(self) -> Path:
        return self.root / "toolchains" / "llvm" / "prebuilt" / self.host_tag

    @property
    def bin(self) -> Path:
        return self.prebuilt / "bin"

    @property
    def sysroot(self) -> Path:
        return self.prebuilt / "sysroot"

    @property
    def abis(self) -> tuple[Abi, ...]:
        return tuple(self.levels)

    def tool(self, name: str) -> Path:
        """Path of a program in ``bin`` (it need not exist)."""
        return self.bin / (name + (".exe" if self.host_tag.startswith("windows") else ""))

    def library_dir(self, abi: Abi) -> Path:
        """The sysroot's folder with libc++_shared.so and one folder of stub libraries a level."""
        return self.sysroot / "usr" / "lib" / SYSROOT_TRIPLE[abi]

    def stub_dir(self, abi: Abi, level: int) -> Path:
        """The stub libraries that say which symbols a device of ``level`` has."""
        return self.library_dir(abi) / str(level)


def host_tags() -> tuple[str, ...]:
    """The names under ``toolchains/llvm/prebuilt`` that run on this host, best first."""
    if sys.platform == "win32":
        return ("windows-x86_64",)
    if sys.platform == "darwin":
        return ("darwin-x86_64",)
    # There is no official NDK for arm64 Linux; re-packaged ones use these names.
    if platform.machine() in ("aarch64", "arm64"):
        return ("linux-aarch64", "linux-arm64", "linux-x86_64")
    return ("linux-x86_64",)


def side_by_side(folder: Path) -> list[Path]:
    """NDKs in a folder of NDKs, newest first."""
    found = [path.parent for path in folder.glob("[!.]*/source.properties")]
    return sorted(
        found, key=lambda root: _version_key(_properties(root).get("Pkg.Revision", "")), reverse=True
    )


def _version_key(revision: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", revision)[:3])


def _properties(root: Path) -> dict[str, str]:
    try:
        text = (root / "source.properties").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def read_ndk(root: Path, *, origin: str | None = None) -> Ndk:
    """Read what the NDK in ``root`` says of itself.

    Raises ToolMissing that says what the folder is instead, and where it was
    named (``origin``), when it is not a complete NDK for this host.
    """
    where = f"{root}" + (f" ({origin})" if origin else "")
    if ";" in str(root):
        raise ToolMissing("CMake can't use an NDK below a folder with ';' in its name", where=where)
    properties = _properties(root)
    if properties.get("Pkg.Desc") != "Android NDK":
        raise ToolMissing(
            f"not an Android NDK: {_what_is(root, properties)}",
            where=where,
            expected="a folder with source.properties (Pkg.Desc = Android NDK) and toolchains/llvm",
            fix=_better(root) or FIX,
        )
    revision = properties.get("Pkg.Revision", "")
    match = _REVISION.match(revision)
    if match is None:
        raise ToolMissing(
            f"the NDK's source.properties has no usable revision: {revision!r}",
            where=where,
            expected="Pkg.Revision = MAJOR.MINOR.BUILD",
        )
    major = int(match.group(1))
    if major < OLDEST_MAJOR:
        raise ToolMissing(
            f"NDK r{major} is too old",
            where=where,
            expected=f"r{OLDEST_MAJOR} or newer (C++17, one sysroot for all API levels)",
            found=revision,
            fix="run: buildtool ndk install",
        )
    host_tag = _host_tag(root, where)
    prebuilt = root / "toolchains" / "llvm" / "prebuilt" / host_tag
    try:
        levels, aliases = _levels(root, prebuilt / "sysroot"), _aliases(root)
    except (ValueError, TypeError) as exc:
        raise ToolMissing(f"the NDK is damaged: {exc}", where=f"{root / 'meta'} ({where})") from exc
    ndk = Ndk(root, revision, major, host_tag, _clang_version(prebuilt), levels, aliases)
    for needed in (
        ndk.tool("clang"),
        ndk.tool("clang++"),
        root / "build" / "cmake" / "android.toolchain.cmake",
        ndk.sysroot / "usr" / "include",
    ):
        if not needed.exists():
            raise ToolMissing(
                f"the NDK is incomplete: {needed.relative_to(root)} is missing",
                where=where,
                fix="unpack it again with a tool that keeps symbolic links, or run: buildtool ndk install",
            )
    if not levels:
        raise ToolMissing("the NDK is incomplete: its sysroot has no ABI", where=f"{ndk.sysroot} ({where})")
    return ndk


def _what_is(root: Path, properties: Mapping[str, str]) -> str:
    if not root.exists():
        return "the folder does not exist"
    if root.is_file():
        return "it is a file" + (" (an archive that is not unpacked)" if root.suffix == ".zip" else "")
    if any(
        (root / name).is_dir() for name in ("platform-tools", "build-tools", "ndk-bundle", "cmdline-tools")
    ):
        return "it is an Android SDK"
    if properties:
        return f"it is {properties.get('Pkg.Desc', 'another SDK package')!r}"
    if any(_properties(parent).get("Pkg.Desc") == "Android NDK" for parent in root.parents):
        return "it is a folder inside an NDK"
    if side_by_side(root):
        return "it is a folder that holds NDKs"
    try:
        if not any(root.iterdir()):
            return "the folder is empty"
    except OSError as exc:
        return f"the folder can't be read ({exc.strerror})"
    return "it has no source.properties"


def _better(root: Path) -> str | None:
    """A sentence that names the right folder when it lies near the wrong one."""
    if root.suffix == ".zip" and root.is_file():
        return "unpack it and name the folder inside, or run: buildtool ndk install"
    for parent in root.parents:
        if _properties(parent).get("Pkg.Desc") == "Android NDK":
            return f"use {parent}"
    near = [*side_by_side(root / "ndk"), *side_by_side(root)]
    near = [path for path in near if _properties(path).get("Pkg.Desc") == "Android NDK"]
    return "use " + " or ".join(str(path) for path in near[:3]) if near else None


def _host_tag(root: Path, where: str) -> str:
    folder = root / "toolchains" / "llvm" / "prebuilt"
    for tag in host_tags():
        if (folder / tag).is_dir():
            return tag
    have = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
    if have:
        raise ToolMissing(
            "the NDK is for another host",
            where=where,
            expected=f"toolchains/llvm/prebuilt/{host_tags()[0]}",
            found=", ".join(have),
            fix="download the package for this operating system, or run: buildtool ndk install",
        )
    raise ToolMissing(
        "the NDK is incomplete: toolchains/llvm/prebuilt is missing",
        where=where,
        fix="unpack it again, or run: buildtool ndk install",
    )


def _clang_version(prebuilt: Path) -> str:
    try:
        return (prebuilt / "AndroidVersion.txt").read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError):
        return "unknown"


def _meta(root: Path, name: str) -> dict[str, object]:
    """A file of the NDK's meta folder, empty when there is none. Raises ValueError when it is damaged."""
    path = root / "meta" / name
    if not path.is_file():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise TypeError(f"{name} holds no table")
    return value


def _levels(root: Path, sysroot: Path) -> dict[Abi, tuple[int, ...]]:
    """API levels for each ABI: the sysroot's folders, limited by meta/*.json where those exist."""
    declared = _meta(root, "abis.json")
    platforms = _meta(root, "platforms.json")
    low, high = int(str(platforms.get("min", 0))), int(str(platforms.get("max", 10_000)))
    levels: dict[Abi, tuple[int, ...]] = {}
    for abi in Abi:
        if declared and abi.value not in declared:
            continue
        folder = sysroot / "usr" / "lib" / SYSROOT_TRIPLE[abi]
        floor = max(low, _FIRST_64BIT_LEVEL if abi.bits == 64 else 0)
        numbers = sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())
        usable = tuple(n for n in numbers if floor <= n <= high)
        if usable:
            levels[abi] = usable
    return levels


def _aliases(root: Path) -> dict[int, int]:
    table = _meta(root, "platforms.json").get("aliases")
    if not isinstance(table, dict):
        return {}
    return {int(key): int(value) for key, value in table.items() if str(key).isdigit()}


def check_target(ndk: Ndk, abi: Abi, level: int) -> int:
    """The API level that ``level`` stands for in this NDK.

    Raises ConfigError with what the NDK has when it lacks the ABI or the level.
    """
    where = f"NDK {ndk.revision} in {ndk.root}"
    if abi not in ndk.levels:
        raise ConfigError(
            f"this NDK has no ABI {abi.value}",
            where=where,
            expected="one of " + ", ".join(a.value for a in ndk.abis),
            fix="choose another --abi, or an NDK that has it",
        )
    have = ndk.levels[abi]
    meant = ndk.aliases.get(level, level)
    if meant not in have:
        side = "low" if meant < have[0] else "high" if meant > have[-1] else "not there"
        raise ConfigError(
            f"API level {level} is {'too ' if side != 'not there' else ''}{side} for {abi.value} in this NDK",
            where=where,
            expected="one of " + ", ".join(str(n) for n in have),
            found=str(level),
            fix=f"--platform {have[0] if side == 'low' else have[-1]}, or an NDK that has level {level}",
        )
    return meant
