"""Checks on the files alone: what their ELF headers promise a loader."""

from __future__ import annotations

import re
from collections.abc import Sequence

from buildtool.artifacts import ElfFacts
from buildtool.verify.check import Check, Context, passed, skipped, verdict
from buildtool.verify.closure import closure, unresolved
from buildtool.verify.model import FFI, RUNTIME, Outcome

PAGE_16K = 16384
PAGE_4K = 4096
_SHOWN = 5


def first_few(words: list[str]) -> str:
    """A list for people, cut after a few."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


class ElfAbi(Check):
    id = "elf-abi"
    title = "class and machine are the ABI's"

    def run(self, context: Context) -> Outcome:
        abi, elf = context.artifacts.abi, context.file.elf
        return verdict(
            elf.machine == abi.elf_machine and elf.elf_class == abi.bits,
            f"{elf.machine}, {elf.elf_class} bit",
            f"{abi.elf_machine}, {abi.bits} bit ({abi.value})",
            fix="a file of another machine got into the build: remove the build folder and build again",
        )


class ElfType(Check):
    id = "elf-type"
    title = "a position-independent program or a shared library"

    def run(self, context: Context) -> Outcome:
        elf = context.file.elf
        if context.file.role == "executable":
            return verdict(
                elf.pie,
                "PIE" if elf.pie else f"{elf.type}, not PIE",
                "PIE",
                fix="link with -pie, compile with -fPIE",
            )
        return verdict(elf.type == "ET_DYN", elf.type, "ET_DYN", fix="link with -shared")


class Needed(Check):
    id = "needed"
    title = "every needed library is shipped or the system's own"

    def run(self, context: Context) -> Outcome:
        elf = context.file.elf
        if not context.system.folders:
            return skipped(context.system.reason)
        shipped = {a.name for a in context.artifacts.artifacts}
        missing = [n for n in elf.needed if n not in shipped and ("/" in n or context.system.find(n) is None)]
        origin = "public NDK libraries" if context.android else "the sysroot"
        ours = [n for n in elf.needed if n in shipped]
        return verdict(
            not missing,
            f"missing: {', '.join(missing)}"
            if missing
            else f"{len(ours)} shipped, {len(elf.needed) - len(ours)} of the system's",
            f"each of {len(elf.needed)} in the shipped files or {origin}",
            evidence=f"{context.file.name} needs {', '.join(elf.needed) or 'nothing'}",
            fix="ship the library beside the others, or link it statically",
        )


class Symbols(Check):
    id = "symbols"
    title = "every undefined symbol is exported by a needed library"

    def run(self, context: Context) -> Outcome:
        if not context.system.folders:
            return skipped(context.system.reason)
        elf = context.file.elf
        shipped = {a.name: a.elf for a in context.artifacts.artifacts}
        libraries = closure(elf, shipped, context.system)
        nowhere = unresolved(elf, libraries.values())
        fix = "link the library that exports it, so that it is in NEEDED"
        if context.android:
            fix += ", or build for the API level that has it"
        found = f"{len(elf.undefined) - len(nowhere)} of {len(elf.undefined)} found"
        return verdict(
            not nowhere,
            f"not found: {first_few(nowhere)}" if nowhere else found,
            "all found",
            evidence=f"looked in {', '.join(sorted(libraries)) or 'no library'}",
            fix=fix,
        )


class RunPath(Check):
    id = "runpath"
    title = "library search path holds no folder of the build machine"

    def run(self, context: Context) -> Outcome:
        paths = [p for p in (context.file.elf.rpath, context.file.elf.runpath) if p is not None]
        entries = [entry for path in paths for entry in path.split(":")]
        bad = [e for e in entries if not re.match(r"\$(ORIGIN|\{ORIGIN\})(/|$)", e)]
        return verdict(
            not bad,
            ":".join(entries) if entries else "none",
            "none, or only $ORIGIN",
            fix="configure with CMAKE_SKIP_BUILD_RPATH=ON",
        )


class TextRel(Check):
    id = "textrel"
    title = "no relocations in code"

    def run(self, context: Context) -> Outcome:
        has = context.file.elf.textrel
        return verdict(not has, "TEXTREL" if has else "none", "none", fix="compile everything with -fPIC")


class ExecStack(Check):
    id = "exec-stack"
    title = "stack and writable memory are not executable"

    def run(self, context: Context) -> Outcome:
        elf = context.file.elf
        both = [s for s in elf.segments if "W" in s.flags and "E" in s.flags]
        bad = [*(["executable stack"] if elf.executable_stack else []), *("writable code" for _ in both)]
        return verdict(
            not bad,
            ", ".join(bad) or "neither",
            "neither",
            fix="link with -z noexecstack; mark assembly with .note.GNU-stack",
        )


class Relro(Check):
    id = "relro"
    title = "relocated data is read-only after loading"

    def run(self, context: Context) -> Outcome:
        elf = context.file.elf
        measured = ("full (BIND_NOW)" if elf.bind_now else "partial (lazy binding)") if elf.relro else "none"
        good = elf.relro and (elf.bind_now or not context.android)
        expected = "full RELRO" if context.android else "RELRO"
        return verdict(good, measured, expected, fix="link with -z relro -z now")


class BuildId(Check):
    id = "build-id"
    title = "carries a build-id"

    def run(self, context: Context) -> Outcome:
        found = context.file.elf.build_id
        # The linkers write 8 (fast), 16 (md5, uuid) or 20 bytes (sha1).
        good = found is not None and len(found) >= 16 and set(found) != {"0"}
        return verdict(good, found or "none", "a build-id", fix="link with -Wl,--build-id=sha1")


def _misplaced(elf: ElfFacts, page: int) -> list[str]:
    return [
        f"LOAD at offset {s.offset:#x}, address {s.vaddr:#x}, align {s.align:#x}"
        for s in elf.segments
        if s.align < page or (s.offset - s.vaddr) % page
    ]


class PageSize(Check):
    id = "page-size"
    title = "LOAD segments fit the target's page size"

    def run(self, context: Context) -> Outcome:
        elf = context.file.elf
        strict = context.android and context.artifacts.abi.bits == 64
        page = PAGE_16K if strict else PAGE_4K
        bad = _misplaced(elf, page)
        if not elf.segments:
            bad = ["no LOAD segment"]
        also = "" if strict else f"; 16 KB pages: {'no' if _misplaced(elf, PAGE_16K) else 'yes'}"
        aligns = sorted({s.align for s in elf.segments})
        worst = f"{bad[0]}; {len(bad)} of {len(elf.segments)}" if bad else ""
        fix = f"link with -Wl,-z,max-page-size={page}"
        if context.file.role == "runtime":  # the NDK's own file: no flag of ours changes it
            fix = "take a newer NDK (r28 aligns everything to 16 KB), or build with --stl c++_static"
        return verdict(
            not bad,
            (worst or f"{len(elf.segments)} LOAD, align {', '.join(map(str, aligns))}") + also,
            f"p_align >= {page}, p_offset = p_vaddr modulo {page}",
            fix=fix,
        )


class NoBuildPaths(Check):
    id = "no-build-paths"
    title = "holds no path of the build machine"

    def run(self, context: Context) -> Outcome:
        files = context.artifacts
        folders = (files.source_dir, files.build_dir, files.ndk_dir or "")
        wanted = [folder for folder in folders if folder.count("/") > 1]
        if not wanted:
            return skipped("the manifest names no folder of the build machine to look for")
        data = context.file.path.read_bytes()
        hits: list[str] = []
        for folder in wanted:
            pattern = re.escape(folder.encode()) + rb"(?=[/\0 :;\"'])[^\0\n]{0,200}"
            hits += [m.group().decode("utf-8", "replace") for m in re.finditer(pattern, data)]
        unique = sorted(set(hits))
        return verdict(
            not hits,
            f"{len(hits)} strings, such as {unique[0]}" if hits else f"none in {len(data)} bytes",
            "none",
            evidence=f"looked for {', '.join(wanted)}" + (f"; found {first_few(unique)}" if hits else ""),
            fix="compile with -ffile-prefix-map=FOLDER=. (logging macros keep __FILE__)"
            if not any("(lambda at" in text for text in _before(data, hits))
            else "this clang leaves the paths of lambdas in __PRETTY_FUNCTION__ unmapped (14 does, 19 does "
            "not): use a newer NDK or clang, or --skip no-build-paths",
        )


def _before(data: bytes, hits: Sequence[str]) -> list[str]:
    """The few characters that stand before each hit."""
    starts = [data.find(hit.encode("utf-8", "replace")) for hit in hits]
    return [data[max(0, start - 12) : start].decode("utf-8", "replace") for start in starts]


# Names that compiled kernels and clients bind to, the same in all trees of their generation
# (v0.11 to v0.20 for the first, v0.21 to v0.26 for the second).
RELAY_EXPORTS = (
    "TVMFuncCall", "TVMFuncGetGlobal", "TVMModLoadFromFile", "TVMGetLastError", "TVMAPISetLastError",
    "TVMBackendGetFuncFromEnv", "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace",
    "TVMBackendParallelLaunch", "TVMBackendParallelBarrier",
)  # fmt: skip
FFI_EXPORTS = (
    "TVMFFIFunctionCall", "TVMFFIFunctionGetGlobal", "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIErrorMoveFromRaised",
)  # fmt: skip
FFI_RUNTIME_EXPORTS = (
    "TVMBackendAllocWorkspace", "TVMBackendFreeWorkspace", "TVMBackendParallelLaunch",
    "TVMBackendParallelBarrier",
)  # fmt: skip


class Exports(Check):
    id = "exports"
    title = "the runtime exports what kernels and clients bind to"
    each_file = False

    def run(self, context: Context) -> Outcome:
        exported = {a.name: a.elf.defined for a in context.artifacts.artifacts}
        if RUNTIME not in exported:
            names = ", ".join(exported) or "nothing"
            return skipped(
                f"no {RUNTIME} among the shipped files ({names}): a static build, or no runtime target"
            )
        wanted: dict[str, tuple[str, ...]]
        if not context.artifacts.tvm_ffi and "TVMFFIFunctionCall" not in exported[RUNTIME]:
            wanted = {RUNTIME: RELAY_EXPORTS}
        elif context.artifacts.tvm_ffi:
            wanted = {FFI: FFI_EXPORTS, RUNTIME: FFI_RUNTIME_EXPORTS}
        else:  # v0.21 keeps the FFI inside the runtime
            wanted = {RUNTIME: FFI_EXPORTS + FFI_RUNTIME_EXPORTS}
        missing = [
            f"{symbol} ({file})"
            for file, symbols in wanted.items()
            for symbol in symbols
            if symbol not in exported.get(file, frozenset())
        ]
        total = sum(map(len, wanted.values()))
        if not missing:
            return passed(f"{total} of {total} exported", f"{total} entry points", f"by {', '.join(wanted)}")
        return verdict(
            False,
            f"missing: {first_few(missing)}",
            f"{total} entry points",
            fix="do not hide symbols (-fvisibility, version scripts) when building the runtime",
        )


CHECKS: tuple[Check, ...] = (
    ElfAbi(),
    ElfType(),
    Needed(),
    Symbols(),
    RunPath(),
    TextRel(),
    ExecStack(),
    Relro(),
    BuildId(),
    PageSize(),
    NoBuildPaths(),
    Exports(),
)
