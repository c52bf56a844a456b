"""Each static check on a real file that passes it and one that fails it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from buildtool.artifacts import Artifact, ArtifactSet, Segment
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Outcome, Status, verify
from tests.standins.binaries import (
    ADD,
    ARM_CC,
    MAIN,
    arm_toolchain,
    artifact,
    artifact_set,
    compile_c,
    host_toolchain,
    with_facts,
)


def check(
    identity: str, files: ArtifactSet, toolchain: Toolchain | None, models: Sequence[Path] = ()
) -> dict[str, Outcome]:
    """The check's outcome for each subject."""
    report = verify(files, toolchain, None, only=[identity], models=models)
    return {r.subject: r.outcome for r in report.results}


@pytest.fixture
def arm() -> Toolchain:
    return arm_toolchain()


def one(identity: str, path: Path, toolchain: Toolchain) -> Outcome:
    (outcome,) = check(identity, artifact_set(toolchain, artifact(path)), toolchain).values()
    return outcome


START = "void _start(void) { for (;;) {} }\n"

# (check, file name, code, flags that pass, flags that fail, words in the failing measurement)
FLAGS = [
    (
        "runpath",
        "liba.so",
        ADD,
        ("-Wl,-rpath,$ORIGIN/lib",),
        ("-Wl,-rpath,/home/me/build",),
        "/home/me/build",
    ),
    ("runpath", "liba.so", ADD, (), ("-Wl,-rpath,$ORIGIN:lib",), "lib"),
    ("runpath", "liba.so", ADD, ("-Wl,-rpath,${ORIGIN}",), ("-Wl,--disable-new-dtags,-rpath,/x",), "/x"),
    ("runpath", "liba.so", ADD, (), ("-Wl,-rpath,$ORIGINAL/lib",), "$ORIGINAL"),
    ("exec-stack", "liba.so", ADD, (), ("-Wl,-z,execstack",), "executable stack"),
    ("exec-stack", "prog", START, ("-nostdlib",), ("-nostdlib", "-static", "-Wl,-N"), "writable code"),
    ("relro", "liba.so", ADD, ("-Wl,-z,relro",), ("-Wl,-z,norelro",), "none"),
    ("build-id", "liba.so", ADD, ("-Wl,--build-id=sha1",), ("-Wl,--build-id=none",), "none"),
    ("elf-type", "prog", MAIN, ("-fPIE", "-pie"), ("-no-pie",), "not PIE"),
    (
        "page-size",
        "liba.so",
        ADD,
        ("-Wl,-z,max-page-size=4096",),
        ("-Wl,-z,max-page-size=1024",),
        "align 0x400",
    ),
]


@pytest.mark.parametrize(("identity", "name", "code", "good", "bad", "words"), FLAGS)
def test_flags(
    tmp_path: Path,
    arm: Toolchain,
    identity: str,
    name: str,
    code: str,
    good: tuple[str, ...],
    bad: tuple[str, ...],
    words: str,
) -> None:
    passing = one(identity, compile_c(tmp_path / "good", name, code, *good, cc=ARM_CC), arm)
    assert passing.status is Status.PASS, passing
    failing = one(identity, compile_c(tmp_path / "bad", name, code, *bad, cc=ARM_CC), arm)
    assert failing.status is Status.FAIL, failing
    assert words in failing.measured and failing.fix


def test_textrel(tmp_path: Path) -> None:
    # The x86 linker still makes text relocations when told to; aarch64's refuses.
    host = host_toolchain()
    code = "extern int there; int *get(void) { return &there; }\n"
    if host.abi.value != "x86_64":
        pytest.skip("needs an x86-64 linker to make a file with text relocations")
    assembly = (
        '__asm__(".text\\n.globl f\\nf: movabs $there, %rax\\nret\\n"\n'
        '".data\\n.globl there\\nthere: .quad 1\\n");\n'
    )
    bad = compile_c(tmp_path, "libbad.so", assembly, "-Wl,-z,notext")
    good = compile_c(tmp_path, "libgood.so", code)
    assert one("textrel", bad, host).status is Status.FAIL
    assert one("textrel", good, host).status is Status.PASS


def test_wrong_machine(tmp_path: Path, arm: Toolchain) -> None:
    host = host_toolchain()
    if host.abi is arm.abi:
        pytest.skip("the host is an aarch64 itself")
    ours, theirs = compile_c(tmp_path, "libarm.so", ADD, cc=ARM_CC), compile_c(tmp_path, "libhost.so", ADD)
    outcomes = check("elf-abi", artifact_set(arm, artifact(ours), artifact(theirs)), arm)
    assert outcomes["libarm.so"].status is Status.PASS
    assert outcomes["libhost.so"].status is Status.FAIL
    assert outcomes["libhost.so"].measured == "EM_X86_64, 64 bit"


@pytest.fixture
def pair(tmp_path: Path, arm: Toolchain) -> tuple[Artifact, Artifact]:
    """A library, and a program that needs it."""
    library = compile_c(tmp_path, "libadd.so", ADD, cc=ARM_CC)
    code = "int add(int, int); int main(void) { return add(0, 0); }\n"
    program = compile_c(tmp_path, "prog", code, f"-L{tmp_path}", "-ladd", cc=ARM_CC)
    return artifact(library), artifact(program)


def test_needed_and_symbols_closed(pair: tuple[Artifact, Artifact], arm: Toolchain) -> None:
    for identity in ("needed", "symbols"):
        outcomes = check(identity, artifact_set(arm, *pair), arm)
        assert {o.status for o in outcomes.values()} == {Status.PASS}, outcomes


def test_missing_library_is_named_with_who_wants_it(pair: tuple[Artifact, Artifact], arm: Toolchain) -> None:
    files = artifact_set(arm, pair[1])
    needed = check("needed", files, arm)["prog"]
    assert needed.status is Status.FAIL and needed.measured == "missing: libadd.so"
    assert "prog needs libadd.so" in needed.evidence
    symbols = check("symbols", files, arm)["prog"]
    assert symbols.status is Status.FAIL and symbols.measured == "not found: add"


def test_host_library_in_the_sysroot_does_not_count(tmp_path: Path, pair: tuple[Artifact, Artifact]) -> None:
    compile_c(tmp_path / "root" / "lib", "libadd.so", ADD)
    toolchain = arm_toolchain(sysroot=tmp_path / "root")
    if host_toolchain().abi is toolchain.abi:
        pytest.skip("the host is an aarch64 itself")
    needed = check("needed", artifact_set(toolchain, pair[1]), toolchain)["prog"]
    assert needed.status is Status.FAIL and "libadd.so" in needed.measured


def test_undefined_symbol_nowhere(tmp_path: Path, arm: Toolchain) -> None:
    code = "extern int nowhere_at_all(void); int f(void) { return nowhere_at_all(); }\n"
    outcome = one("symbols", compile_c(tmp_path, "liba.so", code, cc=ARM_CC), arm)
    assert outcome.status is Status.FAIL and outcome.measured == "not found: nowhere_at_all"


def test_symbol_of_a_shipped_library_that_is_not_needed(tmp_path: Path, arm: Toolchain) -> None:
    """glibc finds it in the program's libraries, bionic does not: it must be in NEEDED."""
    library = artifact(compile_c(tmp_path, "libadd.so", ADD, cc=ARM_CC))
    code = "int add(int, int); int f(void) { return add(1, 2); }\n"
    model = artifact(compile_c(tmp_path, "model.so", code, cc=ARM_CC))
    outcome = check("symbols", artifact_set(arm, library, model), arm)["model.so"]
    assert outcome.status is Status.FAIL and "add" in outcome.measured


def test_needed_by_absolute_path(tmp_path: Path, arm: Toolchain) -> None:
    plain = compile_c(tmp_path, "libplain.so", ADD, "-Wl,-soname,", cc=ARM_CC)
    code = "int add(int, int); int main(void) { return add(0, 0); }\n"
    program = compile_c(tmp_path, "prog", code, str(plain), cc=ARM_CC)
    elf = artifact(program)
    if not any("/" in name for name in elf.elf.needed):
        elf = with_facts(elf, replace(elf.elf, needed=(str(plain), *elf.elf.needed)))
    outcome = check("needed", artifact_set(arm, artifact(plain), elf), arm)["prog"]
    assert outcome.status is Status.FAIL and str(plain) in outcome.measured


def test_without_a_sysroot_it_is_skipped_not_passed(pair: tuple[Artifact, Artifact]) -> None:
    toolchain = arm_toolchain(sysroot=None)
    for identity in ("needed", "symbols"):
        for around in (toolchain, None):
            outcomes = check(identity, artifact_set(toolchain, *pair), around)
            assert {o.status for o in outcomes.values()} == {Status.SKIP}
            assert all("sysroot" in o.evidence or "not found" in o.evidence for o in outcomes.values())


def test_segments_are_judged_by_their_real_offsets(tmp_path: Path, arm: Toolchain) -> None:
    """p_align alone may lie: the offset and the address must agree modulo the page size."""
    good = artifact(compile_c(tmp_path, "liba.so", ADD, "-Wl,-z,max-page-size=16384", cc=ARM_CC))
    lying = (Segment(0, 0, 16384, "R E"), Segment(0x1F000, 0x31000, 16384, "RW"))
    bad = with_facts(replace(good, name="libbad.so"), replace(good.elf, segments=lying))
    android = replace(arm, system="Android", triple="aarch64-linux-android28")
    outcomes = check("page-size", artifact_set(android, good, bad), android)
    assert outcomes["liba.so"].status is Status.PASS
    assert outcomes["libbad.so"].status is Status.FAIL and "0x1f000" in outcomes["libbad.so"].measured


def test_build_paths(tmp_path: Path, arm: Toolchain) -> None:
    code = "const char *where(void) { return __FILE__; }\n"
    leaking = artifact(compile_c(tmp_path / "src", "libleak.so", code, cc=ARM_CC))
    mapped = f"-ffile-prefix-map={tmp_path / 'src'}=."
    clean = artifact(compile_c(tmp_path / "src", "libclean.so", code, mapped, cc=ARM_CC))
    files = artifact_set(arm, leaking, clean, source_dir=str(tmp_path / "src"), build_dir="/nowhere/else")
    outcomes = check("no-build-paths", files, arm)
    assert outcomes["libleak.so"].status is Status.FAIL
    assert str(tmp_path / "src" / "libleak.so.c") in outcomes["libleak.so"].measured
    assert outcomes["libclean.so"].status is Status.PASS
    # A folder whose name only begins like the source's is another folder.
    files = replace(files, source_dir=str(tmp_path / "sr"))
    assert check("no-build-paths", files, arm)["libleak.so"].status is Status.PASS
    files = replace(files, source_dir="", build_dir="")
    assert check("no-build-paths", files, arm)["libleak.so"].status is Status.SKIP


def _exporting(folder: Path, name: str, symbols: Sequence[str]) -> Artifact:
    code = "".join(f"void {symbol}(void) {{}}\n" for symbol in symbols)
    return artifact(compile_c(folder, name, code, cc=ARM_CC))


def test_exports(tmp_path: Path, arm: Toolchain) -> None:
    from buildtool.verify.static_elf import FFI_EXPORTS, FFI_RUNTIME_EXPORTS, RELAY_EXPORTS

    ffi = _exporting(tmp_path / "ffi", "libtvm_ffi.so", FFI_EXPORTS)
    runtime = _exporting(tmp_path / "ffi", "libtvm_runtime.so", FFI_RUNTIME_EXPORTS)
    relay = _exporting(tmp_path / "relay", "libtvm_runtime.so", RELAY_EXPORTS)
    joined = _exporting(tmp_path / "v21", "libtvm_runtime.so", FFI_EXPORTS + FFI_RUNTIME_EXPORTS)
    poor = _exporting(tmp_path / "poor", "libtvm_runtime.so", RELAY_EXPORTS[1:])
    empty = artifact(compile_c(tmp_path / "static", "tvm_rpc", MAIN, cc=ARM_CC))

    def outcome(*files: Artifact, tvm_ffi: bool) -> Outcome:
        return check("exports", artifact_set(arm, *files, tvm_ffi=tvm_ffi), arm)["all files"]

    assert outcome(ffi, runtime, tvm_ffi=True).status is Status.PASS
    assert outcome(relay, tvm_ffi=False).status is Status.PASS
    assert outcome(joined, tvm_ffi=False).status is Status.PASS
    missing = outcome(runtime, tvm_ffi=True)
    assert missing.status is Status.FAIL and "TVMFFIFunctionCall (libtvm_ffi.so)" in missing.measured
    poorer = outcome(poor, tvm_ffi=False)
    assert poorer.status is Status.FAIL and RELAY_EXPORTS[0] in poorer.measured
    static = outcome(empty, tvm_ffi=True)
    assert static.status is Status.SKIP and "tvm_rpc" in static.evidence


def test_model_libraries_are_checked_beside_the_shipped_files(
    tmp_path: Path, pair: tuple[Artifact, Artifact], arm: Toolchain
) -> None:
    code = "int add(int, int); int f(void) { return add(1, 2); }\n"
    loose = compile_c(tmp_path / "models", "loose.so", code, cc=ARM_CC)
    linked = compile_c(tmp_path / "models", "linked.so", code, f"-L{tmp_path}", "-ladd", cc=ARM_CC)
    outcomes = check("symbols", artifact_set(arm, *pair), arm, models=[loose, linked])
    assert outcomes["loose.so"].status is Status.FAIL
    assert outcomes["linked.so"].status is Status.PASS
