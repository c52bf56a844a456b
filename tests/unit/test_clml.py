"""Checking an OpenCLML SDK."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildtool.core.errors import ConfigError
from buildtool.core.types import Abi
from buildtool.toolchains.clml import MACRO, parse_major, read_clml
from tests.standins.clml import make_clml
from tests.standins.ndk import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clml(tmp_path_factory.mktemp("clml") / "sdk", major=3)


@pytest.fixture
def sdk(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shared, tmp_path / "sdk"))


@pytest.mark.parametrize(("abi", "folder"), [(Abi.ARM64, "lib64"), (Abi.ARM32, "lib")])
def test_libraries_are_chosen_by_abi(shared: Path, abi: Abi, folder: str) -> None:
    found = read_clml(shared, abi)
    assert (found.root, found.major, found.has_cl_h, found.abi) == (shared, 3, False, abi)
    assert found.lib_dir == shared / folder
    assert [path.name for path in found.libraries] == ["libOpenCL.so", "libOpenCL_system.so"]
    values = {option.name: option.value for option in found.cmake_args()}
    assert values["OpenCL_LIBRARIES"] == str(shared / folder / "libOpenCL.so")
    assert values["EXTERN_CLML_COMPUTE_LIB"].split(";") == [str(path) for path in found.libraries]
    assert values["CMAKE_FIND_ROOT_PATH"] == str(shared)
    assert Path(values["CMAKE_PROJECT_tvm_INCLUDE"]).is_file()


def test_64_bit_libraries_in_lib_are_taken(sdk: Path) -> None:
    shutil.rmtree(sdk / "lib")
    (sdk / "lib64").rename(sdk / "lib")
    (sdk / "lib" / "libOpenCL_system.so").unlink()
    found = read_clml(sdk, Abi.ARM64)
    assert found.libraries == (sdk / "lib" / "libOpenCL.so",)


def _no_header(sdk: Path) -> None:
    (sdk / "CL" / "cl_qcom_ml_ops.h").unlink()


def _no_macro(sdk: Path) -> None:
    (sdk / "CL" / "cl_qcom_ml_ops.h").write_text(f"/* #define {MACRO} 4 */\n")


def _two_macros(sdk: Path) -> None:
    (sdk / "CL" / "cl_qcom_ml_ops.h").write_text(f"#define {MACRO} 4\n#define {MACRO} 5\n")


def _only_32_bit(sdk: Path) -> None:
    shutil.rmtree(sdk / "lib64")


def _no_libraries(sdk: Path) -> None:
    shutil.rmtree(sdk / "lib64")
    shutil.rmtree(sdk / "lib")


def _empty_lib64(sdk: Path) -> None:
    shutil.rmtree(sdk / "lib")
    (sdk / "lib64" / "libOpenCL.so").unlink()


def _text_library(sdk: Path) -> None:
    shutil.rmtree(sdk / "lib")
    (sdk / "lib64" / "libOpenCL.so").write_text("version https://git-lfs.github.com/spec/v1\n")


def _wrong_system_library(sdk: Path) -> None:
    shutil.copy(sdk / "lib" / "libOpenCL_system.so", sdk / "lib64")


def _gone(sdk: Path) -> None:
    shutil.rmtree(sdk)


def _file(sdk: Path) -> None:
    shutil.rmtree(sdk)
    sdk.touch()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_gone, ("is not there",)),
        (_file, ("must be a folder",)),
        (_no_header, ("CL/cl_qcom_ml_ops.h is missing", "CL, lib, lib64")),
        (_no_macro, ("does not define one", MACRO)),
        (_two_macros, ("does not define one",)),
        (_only_32_bit, ("not for arm64-v8a", "lib/libOpenCL.so", "found:    armeabi-v7a")),
        (_no_libraries, ("no libOpenCL.so for arm64-v8a", "lib64/libOpenCL.so", "no lib folder")),
        (_empty_lib64, ("no libOpenCL.so for arm64-v8a", "found:    lib64/")),
        (_text_library, ("not for arm64-v8a", "no ELF file")),
        (_wrong_system_library, ("libOpenCL_system.so", "armeabi-v7a")),
    ],
)
def test_what_is_wrong_is_said_in_one_error(
    sdk: Path, damage: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    damage(sdk)
    with pytest.raises(ConfigError) as caught:
        read_clml(sdk, Abi.ARM64)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert str(sdk) in text
    assert caught.value.exit_code == 2


def test_the_folder_inside_is_suggested(sdk: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    sdk.rename(outer / "clml_sdk")
    with pytest.raises(ConfigError) as caught:
        read_clml(outer, Abi.ARM64)
    assert caught.value.fix == f"use {outer / 'clml_sdk'}"


_SPACE = st.text(" \t", min_size=1, max_size=3)
_NOISE = st.text(alphabet="ab /*\n#define_3", max_size=30)


@given(
    major=st.integers(0, 999),
    hash_space=st.text(" \t", max_size=2),
    space=_SPACE,
    number=st.sampled_from(["{}", "({})", "{}u", "( {} )", "{} // note 7", "{}\t/* note */", "{}\r"]),
    before=st.sampled_from(["", "// #define {} 77\n", "/* {} 77\n */", "#ifndef {}\n"]),
)
def test_every_way_to_write_the_definition(
    major: int, hash_space: str, space: str, number: str, before: str
) -> None:
    line = f"#{hash_space}define{space}{MACRO}{space}{number.format(major)}\n"
    assert parse_major(before.format(MACRO) + line + "int x;\n") == major


@given(text=_NOISE)
def test_text_without_a_definition_gives_none(text: str) -> None:
    assert parse_major(text) is None
    assert parse_major(text.replace("a", MACRO)) is None


@pytest.mark.parametrize(
    "line", ["#define {}\n", "#define {} FOUR\n", "#define {}_X 4\n", "#undef {}\n", "int {} 4;\n"]
)
def test_near_misses_are_no_definition(line: str) -> None:
    assert parse_major(line.format(MACRO)) is None
