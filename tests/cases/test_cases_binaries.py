"""Faults from the field that the files themselves show: wrong machine, missing or foreign
libraries, pages, symbols. Each kind is caught before anything reaches a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from buildtool.artifacts import Artifact, ArtifactSet, collect
from buildtool.core.errors import BuildFailed
from buildtool.devices.base import Properties
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Outcome, Status, verify
from tests.standins.binaries import (
    ADD,
    ARM_CC,
    arm_toolchain,
    artifact,
    artifact_set,
    build_result,
    compile_c,
    host_toolchain,
)


@pytest.fixture
def arm() -> Toolchain:
    toolchain = arm_toolchain()
    if host_toolchain().abi is toolchain.abi:
        pytest.skip("the host is an aarch64 itself: there is no foreign file to mix in")
    return toolchain


@pytest.fixture
def android(arm: Toolchain) -> Toolchain:
    """The cross gcc dressed up as an Android toolchain: enough for checks that read headers.

    It has no bionic, so nothing here says that a file runs on Android.
    """
    return replace(arm, name="ndk", system="Android", triple="aarch64-linux-android28", api_level=28)


class OnlyProperties:
    """A device that can be asked what it is, and nothing else."""

    name = "phone"
    workdir = PurePosixPath("/data/local/tmp/x")

    def __init__(self, *abis: str) -> None:
        self._abis = abis

    def properties(self) -> Properties:
        return Properties(abis=self._abis, model="stand-in", system="android")


def outcomes(
    identity: str, files: ArtifactSet, toolchain: Toolchain | None, device: Any = None
) -> dict[str, Outcome]:
    report = verify(files, toolchain, device, only=[identity])
    return {r.subject: r.outcome for r in report.results}


def test_c4_host_file_in_a_cross_build(tmp_path: Path, arm: Toolchain) -> None:
    """A sub-build that took the host's compiler leaves a file of the wrong machine."""
    ours = compile_c(tmp_path / "b", "libours.so", ADD, cc=ARM_CC)
    theirs = compile_c(tmp_path / "b", "libhost.so", ADD)
    with pytest.raises(BuildFailed, match=r"libhost\.so is for another machine") as caught:
        collect(build_result(arm, tmp_path / "b", ours, theirs), tmp_path / "dist")
    assert "EM_AARCH64" in (caught.value.expected or "") and "EM_X86_64" in (caught.value.found or "")
    seen = outcomes("elf-abi", artifact_set(arm, artifact(ours), artifact(theirs)), arm)
    assert [o.status for o in seen.values()] == [Status.PASS, Status.FAIL]


def test_c4_32_bit_file_in_a_64_bit_build(tmp_path: Path) -> None:
    host = host_toolchain()
    if host.abi.value != "x86_64":
        pytest.skip("needs an x86-64 host, whose gcc can also make 32-bit objects")
    code = "int add(int a, int b) { return a + b; }\n"
    small = compile_c(tmp_path, "libsmall.so", code, "-m32", "-nostdlib")
    seen = outcomes("elf-abi", artifact_set(host, artifact(small)), host)["libsmall.so"]
    assert seen.status is Status.FAIL and seen.measured == "EM_386, 32 bit"


@pytest.fixture
def app(tmp_path: Path, android: Toolchain) -> tuple[Artifact, Artifact]:
    """A library and the C++ runtime it needs, as an NDK build ships them."""
    libcxx = compile_c(tmp_path / "ndk", "libc++_shared.so", "int cxx_throw(void) { return 1; }\n", cc=ARM_CC)
    code = "int cxx_throw(void); int f(void) { return cxx_throw(); }\n"
    library = compile_c(
        tmp_path / "b",
        "libtvm_runtime.so",
        code,
        "-nostdlib",
        f"-L{libcxx.parent}",
        "-lc++_shared",
        cc=ARM_CC,
    )
    return artifact(libcxx, "runtime"), artifact(library)


def _with_stubs(toolchain: Toolchain, folder: Path) -> Toolchain:
    """An NDK sysroot with a stub libc of API level 28 that has ``old_call`` only."""
    stubs = folder / "sysroot" / "usr" / "lib" / "aarch64-linux-android" / "28"
    compile_c(stubs, "libc.so", "void old_call(void) {}\n", "-nostdlib", cc=ARM_CC)
    return replace(toolchain, sysroot=folder / "sysroot")


def test_c15_missing_cxx_runtime(tmp_path: Path, app: tuple[Artifact, Artifact], android: Toolchain) -> None:
    toolchain = _with_stubs(android, tmp_path)
    complete = outcomes("needed", artifact_set(toolchain, *app), toolchain)
    assert complete["libtvm_runtime.so"].status is Status.PASS, complete
    dropped = outcomes("needed", artifact_set(toolchain, app[1]), toolchain)["libtvm_runtime.so"]
    assert dropped.status is Status.FAIL and "libc++_shared.so" in dropped.measured


def test_c15_cxx_runtime_of_another_ndk(
    tmp_path: Path, app: tuple[Artifact, Artifact], android: Toolchain
) -> None:
    toolchain = replace(android, runtime_libs=(app[0].path,), revision="27.0.1")
    same = outcomes("android-libcxx", artifact_set(toolchain, *app), toolchain)
    assert same["libc++_shared.so"].status is Status.PASS
    code = "extern int __emutls_get_address(void*); int cxx_throw(void) { return __emutls_get_address(0); }\n"
    other = artifact(compile_c(tmp_path / "old", "libc++_shared.so", code, cc=ARM_CC), "runtime")
    swapped = outcomes("android-libcxx", artifact_set(toolchain, other, app[1]), toolchain)
    assert swapped["libc++_shared.so"].status is Status.FAIL
    assert "wants __emutls_get_address besides" in swapped["libc++_shared.so"].evidence
    closed = outcomes("symbols", artifact_set(toolchain, other, app[1]), _with_stubs(toolchain, tmp_path))
    assert "__emutls_get_address" in closed["libc++_shared.so"].measured


@pytest.mark.parametrize(
    ("abis", "status"),
    [
        (("arm64-v8a", "armeabi-v7a"), Status.PASS),
        (("armeabi-v7a", "armeabi"), Status.FAIL),
        (("x86_64",), Status.FAIL),
        ((), Status.FAIL),
    ],
)
def test_c16_device_of_another_abi(
    tmp_path: Path, arm: Toolchain, abis: Sequence[str], status: Status
) -> None:
    """Compared with the device's own list before anything is sent."""
    files = artifact_set(arm, artifact(compile_c(tmp_path, "liba.so", ADD, cc=ARM_CC)))
    (seen,) = outcomes("device-abi", files, arm, OnlyProperties(*abis)).values()
    assert seen.status is status and seen.expected == "arm64-v8a"
    if status is Status.FAIL:
        assert seen.fix and (not abis or abis[0] in seen.fix)


def test_4_kb_pages_on_64_bit_android(tmp_path: Path, android: Toolchain) -> None:
    wide = compile_c(tmp_path, "libwide.so", ADD, "-Wl,-z,max-page-size=16384", cc=ARM_CC)
    narrow = compile_c(tmp_path, "libnarrow.so", ADD, "-Wl,-z,max-page-size=4096", cc=ARM_CC)
    seen = outcomes("page-size", artifact_set(android, artifact(wide), artifact(narrow)), android)
    assert seen["libwide.so"].status is Status.PASS
    assert seen["libnarrow.so"].status is Status.FAIL
    assert "max-page-size=16384" in seen["libnarrow.so"].fix


def test_symbol_newer_than_the_api_level(tmp_path: Path, android: Toolchain) -> None:
    """The loader would say ``cannot locate symbol`` on the phone; the NDK's stubs say it here."""
    toolchain = _with_stubs(android, tmp_path)
    newer = tmp_path / "newer"
    compile_c(newer, "libc.so", "void old_call(void) {}\nvoid mtx_init(void) {}\n", "-nostdlib", cc=ARM_CC)
    words = ("-nostdlib", f"-L{newer}", "-lc")
    code = "void {0}(void); void f(void) {{ {0}(); }}\n"
    fits = artifact(compile_c(tmp_path, "libfits.so", code.format("old_call"), *words, cc=ARM_CC))
    too_new = artifact(compile_c(tmp_path, "libnew.so", code.format("mtx_init"), *words, cc=ARM_CC))
    seen = outcomes("symbols", artifact_set(toolchain, fits, too_new), toolchain)
    assert seen["libfits.so"].status is Status.PASS, seen
    assert seen["libnew.so"].status is Status.FAIL
    assert seen["libnew.so"].measured == "not found: mtx_init" and "API level" in seen["libnew.so"].fix


def test_private_system_library_on_android(tmp_path: Path, android: Toolchain) -> None:
    toolchain = _with_stubs(android, tmp_path)
    hidden = compile_c(tmp_path / "vendor", "libcutils.so", "void hidden(void) {}\n", cc=ARM_CC)
    code = "void hidden(void); void f(void) { hidden(); }\n"
    user = compile_c(tmp_path, "liba.so", code, "-nostdlib", f"-L{hidden.parent}", "-lcutils", cc=ARM_CC)
    seen = outcomes("needed", artifact_set(toolchain, artifact(user)), toolchain)["liba.so"]
    assert seen.status is Status.FAIL and seen.measured == "missing: libcutils.so"


def test_model_library_that_does_not_name_tvm_ffi(tmp_path: Path, android: Toolchain) -> None:
    """Loads under glibc; bionic answers ``cannot locate symbol TVMFFI…``."""
    ffi = compile_c(tmp_path, "libtvm_ffi.so", "void TVMFFIErrorSetRaisedFromCStrParts(void) {}\n", cc=ARM_CC)
    wanted = "TVMFFIErrorSetRaisedFromCStrParts"
    code = f"void {wanted}(void);\nvoid f(void) {{ {wanted}(); }}\n"
    loose = compile_c(tmp_path, "loose.so", code, cc=ARM_CC)
    linked = compile_c(tmp_path, "linked.so", code, f"-L{tmp_path}", "-ltvm_ffi", cc=ARM_CC)
    files = artifact_set(android, artifact(ffi), artifact(loose), artifact(linked))
    seen = outcomes("android-ffi-linked", files, android)
    assert set(seen) == {"loose.so", "linked.so"}
    assert seen["linked.so"].status is Status.PASS
    assert seen["loose.so"].status is Status.FAIL and "-ltvm_ffi" in seen["loose.so"].fix
