"""Public faults that begin with the source tree: C5, C8, C9."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from buildtool.core.errors import ConfigError, UsageError
from buildtool.sources import open_source, read_tree
from tests.standins.minitvm import make_minitvm


@pytest.mark.parametrize("era", ["relay", "relax"])
@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("USE_OpenCL", "USE_OPENCL"),
        ("USE_KALLOC_ALIGMENT", "USE_KALLOC_ALIGNMENT"),
        ("use-cpp-rpc", "USE_CPP_RPC"),
        ("USE_CLML_GRAPH_EXECUTER", "USE_CLML_GRAPH_EXECUTOR"),
    ],
)
def test_c5_misspelt_option_gets_its_right_name(tmp_path: Path, era: str, typo: str, meant: str) -> None:
    _, catalogue, _ = read_tree(make_minitvm(tmp_path / "t", era))
    assert typo not in catalogue
    refusal = catalogue.refuse(typo, where="--set")
    assert isinstance(refusal, ConfigError)
    assert refusal.fix == f"did you mean {meant!r}?"


def test_c8_old_subproject_is_named_and_the_offered_cure_works(tmp_path: Path) -> None:
    import cmake

    program = str(Path(cmake.CMAKE_BIN_DIR) / "cmake")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    tree = make_minitvm(tmp_path / "t", "relax")
    old = tree / "3rdparty/old"
    old.mkdir()
    (old / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.2)\nproject(old NONE)\n")
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write("add_subdirectory(3rdparty/old)\n")
    (note,) = open_source(str(tree)).notes
    assert note.startswith("3rdparty/old/CMakeLists.txt asks for CMake 3.2")
    if int(version.partition(".")[0]) < 4:
        pytest.skip(f"CMake {version} still takes old sub-projects; CMake 4 is needed to show the refusal")
    argv = [program, "-S", str(old), "-B", str(tmp_path / "b")]
    refused = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "CMake < 3.5" in refused.stderr
    (cure,) = [word.rstrip(":") for word in note.split() if word.startswith("-D")]
    subprocess.run([*argv, cure], capture_output=True, check=True)


@pytest.mark.parametrize("how", ["empty", "absent"])
def test_c9_unfilled_submodule_is_named_before_cmake_runs(tmp_path: Path, how: str) -> None:
    tree = make_minitvm(tmp_path / "a b é", "relax")
    (tree / ".gitmodules").write_text('[submodule "ffi"]\n\tpath = 3rdparty/tvm-ffi\n\turl = ../ffi\n')
    (tree / "3rdparty/tvm-ffi").rename(tmp_path / "away")
    if how == "empty":
        (tree / "3rdparty/tvm-ffi").mkdir()
    (tree / ".git").mkdir()
    with pytest.raises(UsageError) as caught:
        open_source(str(tree))
    assert caught.value.found == "3rdparty/tvm-ffi"
    assert "submodule update --init --recursive" in str(caught.value.fix)
    assert caught.value.exit_code == 2


def test_c9_stale_tvm_home_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.18)\nproject(mlc_llm C CXX)\n")
    with pytest.raises(UsageError, match="not a TVM tree") as caught:
        open_source(str(tmp_path))
    assert caught.value.found == "project(mlc_llm)"
    with pytest.raises(ConfigError, match="no such source"):
        open_source(str(tmp_path / "gone"))
