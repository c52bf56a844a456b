"""The LLVM that TVM's compiler is built with: which ones are here, and which one will do."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from buildtool.core.errors import BuildtoolError, ToolMissing
from buildtool.core.process import run, which

_MINIMUM = re.compile(r"\$\{TVM_LLVM_VERSION\}\s+LESS\s+(\d+)")
_CHECKED_IN = ("cmake/utils/FindLLVM.cmake", "cmake/modules/LLVM.cmake")
NEWEST_TRIED = 19
"""Newest major that a TVM host compiler was built with here; newer ones are taken only when alone."""


@dataclass(frozen=True)
class Llvm:
    """One installed LLVM with its development files."""

    config: Path
    version: str
    include: Path
    targets: tuple[str, ...]

    @property
    def major(self) -> int:
        return int(self.version.split(".")[0])

    def value(self, *, static: bool = False) -> str:
        """What USE_LLVM is set to."""
        return f"{self.config} --ignore-libllvm --link-static" if static else str(self.config)


def minimum_of(tree: Path) -> int:
    """The oldest LLVM major that the tree's own CMake files accept (0: they don't say)."""
    found = 0
    for name in _CHECKED_IN:
        try:
            text = (tree / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        # Theirs is major and minor run together: 150 is 15.0.
        found = max([found, *(int(number) // 10 for number in _MINIMUM.findall(text))])
    return found


def read_llvm(config: Path) -> Llvm:
    """What ``llvm-config`` says. Raises ToolMissing when it does not run or has no headers."""

    def ask(word: str) -> str:
        done = run([config, word], timeout=30, check=False)
        if not done.ok:
            raise ToolMissing(f"{config} {word} failed", found="; ".join(done.tail(2)))
        return done.stdout.strip()

    version, include = ask("--version"), Path(ask("--includedir"))
    if not (include / "llvm" / "Config" / "llvm-config.h").is_file():
        raise ToolMissing(
            f"LLVM {version} has no headers",
            where=str(config),
            expected=f"{include}/llvm/Config/llvm-config.h",
            fix=f"Debian/Ubuntu: apt-get install llvm-{version.split('.')[0]}-dev",
        )
    return Llvm(config, version, include, tuple(ask("--targets-built").split()))


def unfit(llvm: Llvm, *, minimum: int, compiler: str) -> str | None:
    """Why this LLVM can't be used for the tree and compiler, None when it can."""
    if llvm.major < minimum:
        return f"this TVM needs LLVM {minimum} or newer"
    if "AArch64" not in llvm.targets:
        return "it was built without the AArch64 target, so it can't compile for Adreno boards and phones"
    if "clang" not in compiler.lower() and (llvm.include / "cxxabi.h").is_file():
        # g++ would take libc++abi's cxxabi.h for its own: conflicting declarations.
        return (
            f"its include folder holds libc++abi's cxxabi.h, which g++ can't read "
            f"(remove libc++abi-{llvm.major}-dev, or build with CXX=clang++-{llvm.major})"
        )
    return None


def candidates() -> list[Path]:
    """Every llvm-config on PATH and under /usr/lib/llvm-NN, newest major first."""
    found: dict[Path, int] = {}
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    programs = [p for folder in folders for p in folder.glob("llvm-config*")]
    for program in [*programs, *Path("/usr/lib").glob("llvm-*/bin/llvm-config")]:
        match = re.fullmatch(r"llvm-config(?:-(\d+))?", program.name)
        if match is None or not os.access(program, os.X_OK):
            continue
        real = program.resolve()
        named = match[1] or (re.search(r"llvm-(\d+)", str(real)) or [None, "0"])[1]
        found.setdefault(real, int(named or 0))
    return sorted(found, key=lambda path: (found[path] <= NEWEST_TRIED, found[path]), reverse=True)


def find_llvm(tree: Path, compiler: str, *, explicit: str | None = None) -> tuple[Llvm, list[str]]:
    """The LLVM to build with, and a note for each one that was passed over.

    ``explicit`` (settings or a flag) is used or refused, never replaced. Raises ToolMissing,
    saying what was found and which package to install.
    """
    minimum = minimum_of(tree)
    if explicit is not None:
        program = which(explicit)
        if program is None:
            raise ToolMissing(f"no such program: {explicit}", where="toolchains.llvm_config")
        llvm = read_llvm(program)
        if reason := unfit(llvm, minimum=minimum, compiler=compiler):
            raise ToolMissing(f"LLVM {llvm.version} can't be used: {reason}", where=str(program))
        return llvm, []
    notes: list[str] = []
    for config in candidates():
        try:
            llvm = read_llvm(config)
        except BuildtoolError as exc:
            notes.append(f"{config} passed over: {exc.what}")
            continue
        reason = unfit(llvm, minimum=minimum, compiler=compiler)
        if reason is None:
            return llvm, notes
        notes.append(f"LLVM {llvm.version} ({config}) passed over: {reason}")
    raise ToolMissing(
        "no LLVM to build TVM's compiler with",
        expected=f"llvm-config of LLVM {minimum or 'any'} or newer, with headers and the AArch64 target",
        fix="Debian/Ubuntu: apt-get install llvm-16-dev zlib1g-dev libzstd-dev libxml2-dev; "
        "or name one: [toolchains] llvm_config",
        details=notes,
    )
