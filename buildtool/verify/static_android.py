"""Checks on the files alone that only Android asks for."""

from __future__ import annotations

from pathlib import Path

from buildtool.artifacts import Artifact, read_elf
from buildtool.verify.check import Check, Context, passed, skipped, verdict
from buildtool.verify.model import FFI, TOOLCHAIN, Outcome
from buildtool.verify.static_elf import first_few

LIBCXX = "libc++_shared.so"


class _AndroidCheck(Check):
    def applies(self, context: Context) -> bool:
        return context.android


class Interpreter(_AndroidCheck):
    id = "android-linker"
    title = "programs name Android's own linker"

    def applies(self, context: Context) -> bool:
        return context.android and context.file.role == "executable"

    def run(self, context: Context) -> Outcome:
        expected = "/system/bin/linker64" if context.artifacts.abi.bits == 64 else "/system/bin/linker"
        found = context.file.elf.interpreter
        return verdict(
            found == expected,
            found or "none",
            expected,
            fix="this program was linked for another system (glibc): build with the NDK",
        )


class Ident(_AndroidCheck):
    id = "android-ident"
    title = "the Android note tells the API level and NDK asked for"

    def run(self, context: Context) -> Outcome:
        elf, toolchain = context.file.elf, context.artifacts.toolchain
        api, revision = toolchain.get("api_level"), toolchain.get("revision")
        if context.file.role == "runtime":
            # The NDK's own libraries are built for the lowest level it supports.
            good = elf.android_api is None or (isinstance(api, int) and elf.android_api <= api)
            measured = f"API {elf.android_api}" if elf.android_api else "no note (as some NDKs ship it)"
            return verdict(good, measured, f"API {api} or lower")
        same_ndk = _same_ndk(elf.ndk_version, revision)
        return verdict(
            elf.android_api == api and same_ndk,
            f"API {elf.android_api}, NDK {elf.ndk_version}" if elf.android_api else "no .note.android.ident",
            f"API {api}, NDK {revision}",
            fix="remove the build folder and build again with one NDK and one --platform",
        )


def _same_ndk(note: str | None, revision: object) -> bool:
    """Whether ``r22 (7026061)`` and Pkg.Revision ``22.0.7026061`` are the same NDK.

    The revision's last number is the build number that the note holds; a beta
    has a suffix. A revision that is not told can't be compared and is accepted.
    """
    if not isinstance(revision, str):
        return True
    if note is None:
        return False
    build = revision.split("-")[0].split(".")[-1]
    return f"({build})" in note


class LinkedToFfi(_AndroidCheck):
    id = "android-ffi-linked"
    title = "a library that calls tvm-ffi names libtvm_ffi.so as needed"

    def applies(self, context: Context) -> bool:
        return context.android and bool(_ffi_symbols(context.file))

    def run(self, context: Context) -> Outcome:
        symbols, elf = _ffi_symbols(context.file), context.file.elf
        return verdict(
            FFI in elf.needed,
            f"uses {len(symbols)} functions; needs {', '.join(elf.needed) or 'nothing'}",
            f"{FFI} in NEEDED",
            evidence=f"uses {first_few(symbols)}; bionic looks for them in the library's own NEEDED only",
            fix="link the library with -ltvm_ffi, or start the server with LD_PRELOAD=libtvm_ffi.so",
        )


def _ffi_symbols(artifact: Artifact) -> list[str]:
    return sorted(s for s in artifact.elf.undefined if s.startswith("TVMFFI"))


class SameLibcxx(_AndroidCheck):
    id = "android-libcxx"
    title = f"{LIBCXX} is the one of the NDK that built the rest"
    needs = frozenset({TOOLCHAIN})

    def applies(self, context: Context) -> bool:
        return context.android and context.file.name == LIBCXX

    def run(self, context: Context) -> Outcome:
        ours: Path | None = next((p for p in context.tools.runtime_libs if p.name == LIBCXX), None)
        if ours is None:
            return skipped(f"the toolchain {context.tools.name} ships no {LIBCXX} to compare with")
        reference, elf = read_elf(ours), context.file.elf
        same = (elf.defined, elf.undefined, elf.build_id) == (
            reference.defined,
            reference.undefined,
            reference.build_id,
        )
        measured = f"{len(elf.defined)} symbols, build-id {elf.build_id or 'none'}"
        if same:
            return passed(measured, f"the same as in NDK {context.tools.revision}")
        lost, wants = sorted(reference.defined - elf.defined), sorted(elf.undefined - reference.undefined)
        return verdict(
            False,
            measured,
            f"{len(reference.defined)} symbols, build-id {reference.build_id or 'none'}",
            evidence=f"lacks {first_few(lost) or 'nothing'}; wants {first_few(wants) or 'nothing'} besides",
            fix="ship the libc++_shared.so of the NDK that compiles: build again without replacing files",
        )


class Stripped(_AndroidCheck):
    id = "stripped"
    title = "shipped without debug information; a split-off debug file has the same build-id"

    def run(self, context: Context) -> Outcome:
        artifact = context.file
        if artifact.elf.has_debug or not artifact.elf.stripped:
            held = ".debug_info" if artifact.elf.has_debug else ".symtab"
            return verdict(False, f"holds {held}", "stripped", fix="collect with strip on")
        if artifact.debug is None:
            return passed("stripped; no debug file (built without -g)", "stripped")
        twin = read_elf(artifact.debug).build_id
        return verdict(
            twin is not None and twin == artifact.elf.build_id,
            f"stripped; {artifact.debug.name} has build-id {twin}",
            f"build-id {artifact.elf.build_id}",
            fix="split the debug file off the very file that is shipped",
        )


CHECKS: tuple[Check, ...] = (Interpreter(), Ident(), LinkedToFfi(), SameLibcxx(), Stripped())
