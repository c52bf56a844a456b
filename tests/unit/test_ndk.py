"""Finding an NDK, reading what it has, and the toolchain that follows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError, ToolMissing
from buildtool.core.types import Abi
from buildtool.settings import Settings, load
from buildtool.toolchains import ndk as ndk_module
from buildtool.toolchains.ndk import (
    check_target,
    discover,
    elf_machine,
    find_ndk_toolchain,
    ndk_toolchain,
    read_ndk,
)
from tests.standins.ndk import make_ndk, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One stand-in for tests that only read it."""
    return make_ndk(tmp_path_factory.mktemp("ndk") / "ndk")


@pytest.fixture
def ndk(shared: Path, tmp_path: Path) -> Path:
    """A stand-in of its own for a test that damages it."""
    return Path(shutil.copytree(shared, tmp_path / "ndk", symlinks=True))


@pytest.fixture(autouse=True)
def no_ndk_around(private_cache: Path) -> None:
    """buildtool's own cache holds no NDK."""


def _settings(tmp_path: Path, **flags: object) -> Settings:
    return load(cwd=tmp_path, env={}, flags={f"toolchains.{key}": value for key, value in flags.items()})


def _bare(root: Path, revision: str) -> Path:
    """Just enough to be taken for an NDK by discovery."""
    root.mkdir(parents=True)
    (root / "source.properties").write_text(f"Pkg.Desc = Android NDK\nPkg.Revision = {revision}\n")
    return root


# --- discovery -----------------------------------------------------------------


def test_each_place_is_used_in_order_and_named(tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    side = _bare(sdk / "ndk" / "26.3.11579264", "26.3.11579264")
    bundle = _bare(sdk / "ndk-bundle", "22.1.7171670")
    ours = _bare(ndk_module.install_dir() / "27.2.12479018", "27.2.12479018")
    env = {
        "ANDROID_NDK_HOME": str(tmp_path / "a"),
        "ANDROID_NDK_ROOT": str(tmp_path / "b"),
        "ANDROID_NDK": str(tmp_path / "c"),
        "ANDROID_HOME": str(sdk),
    }
    settings = _settings(tmp_path, ndk=str(tmp_path / "s"))

    def found(explicit: Path | None, settings: Settings | None) -> tuple[Path, str]:
        candidate = discover(explicit, settings, env)
        return candidate.root, candidate.origin

    assert found(tmp_path / "x", settings) == (tmp_path / "x", "--ndk")
    assert found(None, settings) == (tmp_path / "s", "--ndk")
    for name, folder in (("ANDROID_NDK_HOME", "a"), ("ANDROID_NDK_ROOT", "b"), ("ANDROID_NDK", "c")):
        assert found(None, None) == (tmp_path / folder, f"environment variable {name}")
        env[name] = ""
    assert found(None, None) == (side, "environment variable ANDROID_HOME, newest of ndk/*")
    shutil.rmtree(side)
    assert found(None, None) == (bundle, "environment variable ANDROID_HOME, ndk-bundle")
    del env["ANDROID_HOME"]
    assert found(None, None) == (ours, "installed by buildtool ndk install")


def test_newest_side_by_side_ndk_counts_numbers_not_letters(tmp_path: Path) -> None:
    for revision in ("9.1.1", "26.3.11579264", "26.12.1", "27.0.1-beta1"):
        _bare(tmp_path / "ndk" / revision, revision)
    assert discover(None, None, {"ANDROID_HOME": str(tmp_path)}).root.name == "27.0.1-beta1"
    shutil.rmtree(tmp_path / "ndk" / "27.0.1-beta1")
    assert discover(None, None, {"ANDROID_HOME": str(tmp_path)}).root.name == "26.12.1"


def test_nothing_set_lists_every_place_and_its_state(tmp_path: Path) -> None:
    env = {"ANDROID_NDK_ROOT": "", "ANDROID_HOME": str(tmp_path)}
    with pytest.raises(ToolMissing) as caught:
        discover(None, None, env)
    text = str(caught.value)
    assert "ANDROID_NDK_HOME unset" in text
    assert "ANDROID_NDK_ROOT empty" in text
    assert f"ANDROID_HOME = {tmp_path} (no ndk folder there)" in text
    assert "buildtool ndk install" in text


def test_a_wrong_variable_is_reported_not_passed_over(tmp_path: Path, shared: Path) -> None:
    env = {"ANDROID_NDK_HOME": str(tmp_path / "gone"), "ANDROID_NDK": str(shared)}
    with pytest.raises(ToolMissing, match="does not exist") as caught:
        find_ndk_toolchain(settings=_settings(tmp_path), env=env)
    assert "environment variable ANDROID_NDK_HOME" in str(caught.value)


# --- what the NDK has ----------------------------------------------------------


def test_facts_of_an_ndk(shared: Path) -> None:
    ndk = read_ndk(shared)
    assert (ndk.revision, ndk.major, ndk.host_tag) == ("26.3.11579264", 26, "linux-x86_64")
    assert ndk.abis == (Abi.ARM64, Abi.ARM32, Abi.X86_64, Abi.X86)
    assert ndk.levels[Abi.ARM64] == (21, 22, 23, 24, 26, 27, 28, 29, 30)
    assert ndk.aliases == {20: 19, 25: 24}
    assert ndk.clang_version == "14.0.6"
    assert ndk.stub_dir(Abi.ARM32, 28).is_dir()


def test_without_meta_files_the_sysroot_says_what_there_is(ndk: Path) -> None:
    shutil.rmtree(ndk / "meta")
    sysroot = ndk / "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib"
    shutil.rmtree(sysroot / "i686-linux-android")
    (sysroot / "aarch64-linux-android" / "19").mkdir()  # no 64-bit Android has it
    (sysroot / "arm-linux-androideabi" / "19").mkdir()
    found = read_ndk(ndk)
    assert found.abis == (Abi.ARM64, Abi.ARM32, Abi.X86_64)
    assert found.levels[Abi.ARM64][0] == 21
    assert found.levels[Abi.ARM32][0] == 19


def test_meta_narrows_the_sysroot(ndk: Path) -> None:
    (ndk / "meta/abis.json").write_text('{"arm64-v8a": {}}')
    (ndk / "meta/platforms.json").write_text('{"min": 24, "max": 28, "aliases": {"P": 28, "25": 24}}')
    found = read_ndk(ndk)
    assert found.levels == {Abi.ARM64: (24, 26, 27, 28)}


@pytest.mark.parametrize("text", ["{", "[]", '{"min": "L"}', '{"aliases": {"25": null}}', "\udcff"])
def test_damaged_meta_is_named(ndk: Path, text: str) -> None:
    (ndk / "meta/platforms.json").write_text(text, errors="surrogateescape")
    with pytest.raises(ToolMissing, match="the NDK is damaged") as caught:
        read_ndk(ndk)
    assert str(ndk / "meta") in str(caught.value)


def test_a_path_that_cmake_would_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="';'"):
        read_ndk(tmp_path / "a;b")


@pytest.mark.parametrize(
    ("abi", "level", "words"),
    [
        (Abi.ARM64, 17, ("too low", "--platform 21")),
        (Abi.ARM64, 36, ("too high", "--platform 30")),
        (Abi.RISCV64, 35, ("no ABI riscv64", "arm64-v8a, armeabi-v7a, x86_64, x86")),
    ],
)
def test_absent_abis_and_levels_are_refused_with_what_there_is(
    shared: Path, abi: Abi, level: int, words: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_target(read_ndk(shared), abi, level)
    text = str(caught.value)
    assert all(word in text for word in words)
    assert "26.3.11579264" in text
    assert caught.value.exit_code == 2


def test_a_level_between_two_is_refused_unless_it_is_an_alias(ndk: Path) -> None:
    assert check_target(read_ndk(ndk), Abi.ARM64, 25) == 24
    shutil.rmtree(ndk / "meta")
    with pytest.raises(ConfigError, match="API level 25 is not there"):
        check_target(read_ndk(ndk), Abi.ARM64, 25)


# --- wrong folders -------------------------------------------------------------


def _sdk(root: Path) -> Path:
    (root / "platform-tools").mkdir(parents=True)
    _bare(root / "ndk" / "26.3.11579264", "26.3.11579264")
    return root


def _holder(root: Path) -> Path:
    _bare(root / "android-ndk-r26d", "26.3.11579264")
    return root


def _other_package(root: Path) -> Path:
    root.mkdir()
    (root / "source.properties").write_text("Pkg.Desc=CMake 3.22.1\nPkg.Revision=3.22.1\n")
    return root


def _zip(root: Path) -> Path:
    path = root.with_suffix(".zip")
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    return path


def _empty(root: Path) -> Path:
    root.mkdir()
    return root


def _text(root: Path) -> Path:
    root.mkdir()
    (root / "README").touch()
    return root


def _inside(root: Path) -> Path:
    _bare(root, "26.3.11579264")
    inner = root / "toolchains" / "llvm"
    inner.mkdir(parents=True)
    return inner


@pytest.mark.parametrize(
    ("make", "what", "fix"),
    [
        (lambda root: root, "does not exist", "buildtool ndk install"),
        (_empty, "the folder is empty", "buildtool ndk install"),
        (_text, "no source.properties", "buildtool ndk install"),
        (_sdk, "it is an Android SDK", "ndk/26.3.11579264"),
        (_holder, "a folder that holds NDKs", "android-ndk-r26d"),
        (_other_package, "it is 'CMake 3.22.1'", "buildtool ndk install"),
        (_zip, "an archive that is not unpacked", "unpack it"),
        (_inside, "a folder inside an NDK", "use "),
    ],
)
def test_a_wrong_folder_is_called_what_it_is(
    tmp_path: Path, make: Callable[[Path], Path], what: str, fix: str
) -> None:
    root = make(tmp_path / "there")
    with pytest.raises(ToolMissing) as caught:
        read_ndk(root, origin="environment variable ANDROID_NDK_HOME")
    text = str(caught.value)
    assert what in caught.value.what
    assert fix in (caught.value.fix or "")
    assert f"{root} (environment variable ANDROID_NDK_HOME)" in text


def test_an_ndk_for_another_host_is_named(ndk: Path) -> None:
    prebuilt = ndk / "toolchains/llvm/prebuilt"
    (prebuilt / "linux-x86_64").rename(prebuilt / "windows-x86_64")
    with pytest.raises(ToolMissing, match="for another host") as caught:
        read_ndk(ndk)
    assert caught.value.found == "windows-x86_64"


@pytest.mark.parametrize(
    "gone",
    [
        "toolchains/llvm/prebuilt/linux-x86_64/bin/clang",
        "toolchains/llvm/prebuilt/linux-x86_64/bin/clang++",
        "build/cmake/android.toolchain.cmake",
        "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/include",
        "toolchains/llvm/prebuilt",
    ],
)
def test_an_incomplete_copy_is_named(ndk: Path, gone: str) -> None:
    path = ndk / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(ToolMissing, match="incomplete") as caught:
        read_ndk(ndk)
    assert gone in caught.value.what


def test_a_clang_that_is_a_dead_link_counts_as_missing(ndk: Path) -> None:
    clang = ndk / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"
    clang.unlink()
    clang.symlink_to("clang-17")
    with pytest.raises(ToolMissing, match="bin/clang is missing"):
        read_ndk(ndk)


def test_a_clang_for_another_machine_is_told_apart(ndk: Path) -> None:
    folder = ndk / "toolchains/llvm/prebuilt/linux-x86_64/bin"
    for name in ("clang++", "aarch64-linux-android28-clang++"):
        (folder / name).write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    with pytest.raises(ToolMissing, match="compiler does not run"):
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)


def test_too_old_an_ndk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="NDK r18 is too old"):
        read_ndk(_bare(tmp_path / "old", "18.1.5063045"))


@given(text=st.text(max_size=200))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_source_properties_gives_a_clear_refusal(tmp_path: Path, text: str) -> None:
    (tmp_path / "source.properties").write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(ToolMissing):
        read_ndk(tmp_path)


# --- the toolchain -------------------------------------------------------------


@pytest.mark.parametrize(
    ("abi", "triple", "page"),
    [
        (Abi.ARM64, "aarch64-linux-android28", "16384"),
        (Abi.ARM32, "armv7a-linux-androideabi28", None),
        (Abi.X86_64, "x86_64-linux-android28", "16384"),
        (Abi.X86, "i686-linux-android28", None),
    ],
)
def test_toolchain_of_each_abi(shared: Path, abi: Abi, triple: str, page: str | None) -> None:
    found = ndk_toolchain(read_ndk(shared), abi=abi, api_level=28)
    values = {option.name: option.value for option in found.cmake_args}
    assert found.triple == triple
    assert found.cc.name == f"{triple}-clang"
    assert found.cxx.name == f"{triple}-clang++"
    assert found.cc_flags == ()
    assert (found.system, found.api_level, found.root) == ("Android", 28, shared)
    assert values["ANDROID_ABI"] == abi.value
    assert values["ANDROID_PLATFORM"] == "android-28"
    assert values["ANDROID_STL"] == "c++_shared"
    assert values["ANDROID_NDK"] == str(shared)
    assert values.get("BUILDTOOL_MAX_PAGE_SIZE") == page
    assert found.strip is not None and found.strip.name == "llvm-strip"
    assert found.objcopy is not None and found.objcopy.name == "llvm-objcopy"
    assert found.toolchain_file is not None and found.toolchain_file.is_file()
    (library,) = found.runtime_libs
    assert library.is_relative_to(shared)
    assert elf_machine(library) == ndk_module.ELF_MACHINE[abi]


def test_settings_choose_level_and_stl(shared: Path, tmp_path: Path) -> None:
    settings = _settings(tmp_path, ndk=str(shared), platform=30, stl="c++_static")
    found = find_ndk_toolchain(settings=settings, env={})
    assert found.triple == "aarch64-linux-android30"
    assert found.runtime_libs == ()
    assert find_ndk_toolchain(settings=settings, api_level=21, env={}).api_level == 21


def test_unknown_stl_is_refused(shared: Path) -> None:
    with pytest.raises(ConfigError, match="gnustl_shared"):
        ndk_toolchain(read_ndk(shared), abi=Abi.ARM64, api_level=28, stl="gnustl_shared")


def test_below_a_folder_with_a_space_clang_itself_is_used(shared: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(shared, tmp_path / "a b é", symlinks=True))
    found = ndk_toolchain(read_ndk(copy), abi=Abi.ARM64, api_level=28)
    assert found.cc.name == "clang"
    assert found.cc_flags == ("--target=aarch64-linux-android28",)


def test_without_wrappers_clang_gets_the_target(ndk: Path) -> None:
    (ndk / "toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android28-clang").unlink()
    found = ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)
    assert (found.cc.name, found.cxx.name) == ("clang", "clang++")
    assert found.cc_flags == ("--target=aarch64-linux-android28",)


def test_libcxx_of_the_wrong_abi_or_missing_is_refused(ndk: Path) -> None:
    libraries = ndk / "toolchains/llvm/prebuilt/linux-x86_64/sysroot/usr/lib"
    arm64 = libraries / "aarch64-linux-android/libc++_shared.so"
    shutil.copy(libraries / "arm-linux-androideabi/libc++_shared.so", arm64)
    with pytest.raises(ToolMissing, match="not for arm64-v8a") as caught:
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)
    assert caught.value.found == "ELF machine 40"
    arm64.write_text("/opt/ndk/libc++_shared.so")  # a link that a zip tool turned into a file
    with pytest.raises(ToolMissing, match="not for arm64-v8a") as caught:
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)
    assert caught.value.found == "no ELF file"
    arm64.unlink()
    with pytest.raises(ToolMissing, match="no libc"):
        ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28)


def test_the_identity_tells_ndks_apart(shared: Path, ndk: Path) -> None:
    (ndk / "source.properties").write_text("Pkg.Desc = Android NDK\nPkg.Revision = 27.2.12479018\n")
    old = ndk_toolchain(read_ndk(shared), abi=Abi.ARM64, api_level=28).identity()
    new = ndk_toolchain(read_ndk(ndk), abi=Abi.ARM64, api_level=28).identity()
    other_level = ndk_toolchain(read_ndk(shared), abi=Abi.ARM64, api_level=29).identity()
    assert old != new
    assert old != other_level
