"""Checks that only Android asks for, on files dressed up as Android's (headers and notes only:
nothing here says that a file runs on Android)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from buildtool.artifacts import Artifact
from buildtool.core.types import Abi
from buildtool.toolchains.model import Toolchain
from buildtool.verify import CHECKS, Outcome, Status, verify
from buildtool.verify.closure import android_stub_folder
from tests.standins.binaries import ADD, ARM_CC, MAIN, arm_toolchain, artifact, artifact_set, compile_c

LINKER = "-Wl,--dynamic-linker=/system/bin/linker64"


@pytest.fixture
def ndk() -> Toolchain:
    return arm_toolchain(
        name="ndk", system="Android", triple="aarch64-linux-android28", api_level=28, revision="22.0.7026061"
    )


def one(identity: str, toolchain: Toolchain, file: Artifact) -> Outcome:
    (result,) = verify(artifact_set(toolchain, file), toolchain, None, only=[identity]).results
    return result.outcome


def note(api: int, name: str, build: str) -> str:
    return (
        '__attribute__((section(".note.android.ident"), used, aligned(4))) static const struct {\n'
        "  int n, d, t; char owner[8]; int api; char ndk[64]; char build[64];\n"
        f'}} note = {{8, 132, 1, "Android", {api}, "{name}", "{build}"}};\n'
    )


def test_android_checks_are_silent_elsewhere(tmp_path: Path) -> None:
    linux = arm_toolchain()
    report = verify(artifact_set(linux, artifact(compile_c(tmp_path, "prog", MAIN, cc=ARM_CC))), linux, None)
    assert not [r.id for r in report.results if r.id.startswith("android-") or r.id == "stripped"]
    assert len([c for c in CHECKS if c.id.startswith("android-")]) >= 4


def test_interpreter(tmp_path: Path, ndk: Toolchain) -> None:
    ours = artifact(compile_c(tmp_path, "good", MAIN, LINKER, cc=ARM_CC))
    glibc = artifact(compile_c(tmp_path, "bad", MAIN, cc=ARM_CC))
    assert one("android-linker", ndk, ours).status is Status.PASS
    seen = one("android-linker", ndk, glibc)
    assert seen.status is Status.FAIL and seen.measured.startswith("/lib/ld-linux")
    small = replace(ndk, abi=Abi.ARM32, triple="armv7a-linux-androideabi28")
    assert one("android-linker", small, ours).expected == "/system/bin/linker"


@pytest.mark.parametrize(
    ("api", "name", "build", "status"),
    [
        (28, "r22", "7026061", Status.PASS),
        (21, "r22", "7026061", Status.FAIL),
        (30, "r22", "7026061", Status.FAIL),
        (28, "r25c", "9519653", Status.FAIL),
    ],
)
def test_note(tmp_path: Path, ndk: Toolchain, api: int, name: str, build: str, status: Status) -> None:
    file = artifact(compile_c(tmp_path, "liba.so", ADD + note(api, name, build), cc=ARM_CC))
    seen = one("android-ident", ndk, file)
    assert seen.status is status and f"API {api}, NDK {name} ({build})" in seen.measured


def test_no_note_at_all(tmp_path: Path, ndk: Toolchain) -> None:
    plain = artifact(compile_c(tmp_path, "liba.so", ADD, cc=ARM_CC))
    assert one("android-ident", ndk, plain).status is Status.FAIL
    # The NDK's own C++ library may come without one, or with the lowest level.
    assert one("android-ident", ndk, replace(plain, role="runtime")).status is Status.PASS
    newer = artifact(compile_c(tmp_path, "libb.so", ADD + note(35, "r27", "1"), cc=ARM_CC), "runtime")
    assert one("android-ident", ndk, newer).status is Status.FAIL


def test_lazy_binding_is_not_enough_on_android(tmp_path: Path, ndk: Toolchain) -> None:
    full = artifact(compile_c(tmp_path, "liba.so", ADD, "-Wl,-z,relro,-z,now", cc=ARM_CC))
    partial = artifact(compile_c(tmp_path, "libb.so", ADD, "-Wl,-z,relro,-z,lazy", cc=ARM_CC))
    assert one("relro", ndk, full).measured == "full (BIND_NOW)"
    assert one("relro", ndk, partial).status is Status.FAIL
    assert one("relro", arm_toolchain(), partial).status is Status.PASS


def test_32_bit_android_keeps_4_kb_pages(tmp_path: Path, ndk: Toolchain) -> None:
    file = artifact(compile_c(tmp_path, "liba.so", ADD, "-Wl,-z,max-page-size=4096", cc=ARM_CC))
    small = replace(ndk, abi=Abi.ARM32, triple="armv7a-linux-androideabi28")
    assert one("page-size", ndk, file).status is Status.FAIL
    assert one("page-size", small, file).status is Status.PASS
    # A library of the NDK's can't be linked again: the advice differs.
    assert "--stl c++_static" in one("page-size", ndk, replace(file, role="runtime")).fix


def test_stripped_with_its_own_debug_file(tmp_path: Path, ndk: Toolchain) -> None:
    import subprocess

    whole = compile_c(tmp_path, "liba.so", ADD, "-g", "-Wl,--build-id=sha1", cc=ARM_CC)
    assert one("stripped", ndk, artifact(whole)).measured == "holds .debug_info"
    debug, other = tmp_path / "liba.so.debug", tmp_path / "other.debug"
    subprocess.run([str(ndk.objcopy), "--only-keep-debug", whole, debug], check=True)
    foreign = compile_c(
        tmp_path / "x", "liba.so", ADD + "int more;\n", "-g", "-Wl,--build-id=sha1", cc=ARM_CC
    )
    subprocess.run([str(ndk.objcopy), "--only-keep-debug", foreign, other], check=True)
    subprocess.run([str(ndk.strip), "--strip-all", whole], check=True)
    assert one("stripped", ndk, artifact(whole)).status is Status.PASS
    assert one("stripped", ndk, artifact(whole, debug=debug)).status is Status.PASS
    mixed = one("stripped", ndk, artifact(whole, debug=other))
    assert mixed.status is Status.FAIL and "build-id" in mixed.measured


def test_stub_folder_is_that_of_the_api_level(tmp_path: Path, ndk: Toolchain) -> None:
    sysroot = tmp_path / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64" / "sysroot"
    for level in (21, 28):
        (sysroot / "usr" / "lib" / "aarch64-linux-android" / str(level)).mkdir(parents=True)
    by_root = replace(ndk, sysroot=None, root=tmp_path)
    found = android_stub_folder(by_root)
    assert found is not None and found.name == "28"
    assert android_stub_folder(replace(by_root, api_level=29)) is None
    seen = one(
        "symbols", replace(by_root, api_level=29), artifact(compile_c(tmp_path, "l.so", ADD, cc=ARM_CC))
    )
    assert seen.status is Status.SKIP and "no stub libraries for API level 29" in seen.evidence
