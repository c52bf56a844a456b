"""The static verifier on files that a real NDK makes, when ANDROID_NDK_HOME points to one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buildtool import settings, toolchains
from buildtool.artifacts import Artifact
from buildtool.core.types import Abi
from buildtool.toolchains.model import Toolchain
from buildtool.verify import Outcome, Status, smoke, verify
from buildtool.verify.closure import system_libraries
from tests.standins.binaries import artifact, artifact_set

pytestmark = pytest.mark.e2e
CALL = "void {0}(void); void f(void) {{ {0}(); }}\n"


def _find(level: int, cwd: Path) -> Toolchain:
    if not os.environ.get("ANDROID_NDK_HOME"):
        pytest.skip("ANDROID_NDK_HOME is not set: no real NDK to try")
    found = toolchains.find("ndk", settings=settings.load(cwd=cwd), abi=Abi.ARM64, api_level=level)
    libc = system_libraries(found).find("libc.so")
    if libc is None or "__system_property_get" not in libc.defined:
        pytest.skip(f"{found.root} has no bionic stubs: a stand-in")
    return found


@pytest.fixture
def ndk(tmp_path: Path) -> Toolchain:
    return _find(28, tmp_path)


def build(toolchain: Toolchain, folder: Path, name: str, code: str, *flags: str) -> Artifact:
    source = folder / f"{name}.c"
    source.write_text(code)
    words = ["-shared", "-fPIC", f"-Wl,-soname,{name}", *flags, "-Wl,--build-id=sha1"]
    argv = [str(toolchain.cc), *toolchain.cc_flags, *words, str(source), "-o", str(folder / name)]
    subprocess.run(argv, check=True)
    return artifact(folder / name)


def one(identity: str, toolchain: Toolchain, file: Artifact) -> Outcome:
    (result,) = verify(artifact_set(toolchain, file), toolchain, None, only=[identity]).results
    return result.outcome


def test_symbol_newer_than_the_api_level(tmp_path: Path, ndk: Toolchain) -> None:
    """``mtx_init`` came with API 30: a library built for 30 can't be located on a 28 device."""
    newer = build(_find(30, tmp_path), tmp_path, "libnew.so", CALL.format("mtx_init"))
    seen = one("symbols", ndk, newer)
    assert seen.status is Status.FAIL and seen.measured == "not found: mtx_init"
    fits = build(ndk, tmp_path, "libfits.so", CALL.format("pthread_self"))
    assert one("symbols", ndk, fits).status is Status.PASS
    assert one("android-ident", ndk, newer).status is Status.FAIL
    assert one("android-ident", ndk, fits).status is Status.PASS


@pytest.mark.parametrize(
    ("identity", "good", "bad"),
    [
        ("page-size", ("-Wl,-z,max-page-size=16384",), ("-Wl,-z,max-page-size=4096",)),
        ("runpath", (), ("-Wl,-rpath,/home/me/build",)),
        ("relro", (), ("-Wl,-z,lazy",)),
    ],
)
def test_flags(tmp_path: Path, ndk: Toolchain, identity: str, good: tuple[str], bad: tuple[str]) -> None:
    code = CALL.format("pthread_self")
    assert one(identity, ndk, build(ndk, tmp_path, "libgood.so", code, *good)).status is Status.PASS
    assert one(identity, ndk, build(ndk, tmp_path, "libbad.so", code, *bad)).status is Status.FAIL


def test_smoke_program_is_a_proper_android_program(tmp_path: Path, ndk: Toolchain) -> None:
    program = artifact(smoke.build_abi_program(ndk, tmp_path))
    wanted = ("elf-abi", "elf-type", "needed", "symbols", "relro", "build-id", "page-size", "android-linker")
    checks: Callable[[str], Outcome] = lambda identity: one(identity, ndk, program)  # noqa: E731
    assert {identity: checks(identity).status for identity in wanted} == dict.fromkeys(wanted, Status.PASS)
