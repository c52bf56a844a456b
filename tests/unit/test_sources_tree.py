"""Trees that must be refused, each with one clear error, and trees worth a remark."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from buildtool.core.errors import UsageError
from buildtool.sources import default_spec, open_source, read_tree
from buildtool.sources.tree import examine, read_version
from tests.standins.minitvm import make_minitvm

GITMODULES = """[submodule "3rdparty/tvm-ffi"]
\tpath = 3rdparty/tvm-ffi
\turl = https://example.invalid/tvm-ffi
[submodule "3rdparty/cutlass"]
\tpath = 3rdparty/cutlass
\turl = https://example.invalid/cutlass
"""


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a folder"):
        read_tree(tmp_path / "nowhere")


def test_no_cmakelists_names_where_one_is(tmp_path: Path) -> None:
    make_minitvm(tmp_path / "tvm")
    with pytest.raises(UsageError, match=r"no CMakeLists\.txt") as caught:
        read_tree(tmp_path)
    assert caught.value.found == "CMakeLists.txt in tvm"


def test_an_installed_tvm_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("")
    with pytest.raises(UsageError, match=r"no CMakeLists\.txt") as caught:
        read_tree(tmp_path)
    assert caught.value.found == "a Python package: an installed TVM has no sources"


def test_another_project(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(llama)\n")
    with pytest.raises(UsageError, match="not a TVM tree") as caught:
        read_tree(tmp_path)
    assert caught.value.found == "project(llama)"


def test_broken_top_file(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t")
    (tree / "CMakeLists.txt").write_text("project(tvm")
    with pytest.raises(UsageError, match="closing"):
        read_tree(tree)


def empty_submodule(tmp_path: Path, *, git: bool) -> Path:
    tree = make_minitvm(tmp_path / "a b", "relax")
    (tree / ".gitmodules").write_text(GITMODULES)
    for path in sorted((tree / "3rdparty/tvm-ffi").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if git:
        subprocess.run(["git", "init", "--quiet", str(tree)], check=True)
    return tree


def test_empty_submodule_in_a_checkout_names_the_command(tmp_path: Path) -> None:
    tree = empty_submodule(tmp_path, git=True)
    with pytest.raises(UsageError, match="submodules") as caught:
        read_tree(tree)
    # cutlass is empty too, but no build for Adreno reads it.
    assert caught.value.found == "3rdparty/tvm-ffi"
    assert caught.value.fix is not None
    words = shlex.split(caught.value.fix.removeprefix("run: "))
    assert words[:3] == ["git", "-C", str(tree)]
    assert words[3:5] == ["submodule", "update"]
    assert words[-2:] == ["--", "3rdparty/tvm-ffi"]


def test_empty_submodule_in_an_archive_can_only_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="submodules") as caught:
        read_tree(empty_submodule(tmp_path, git=False))
    assert caught.value.fix is not None
    assert "git+URL@TAG" in caught.value.fix


def test_empty_submodule_of_a_submodule(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t", "relax")
    ffi = tree / "3rdparty/tvm-ffi"
    (ffi / ".gitmodules").write_text('[submodule "x"]\n path = 3rdparty/libbacktrace\n')
    read_tree(tree)  # nothing reads it
    with (ffi / "CMakeLists.txt").open("a") as stream:
        stream.write("include_directories(${CMAKE_CURRENT_LIST_DIR}/3rdparty/libbacktrace)\n")
    with pytest.raises(UsageError) as caught:
        read_tree(tree)
    assert caught.value.found == "3rdparty/tvm-ffi/3rdparty/libbacktrace"


def test_stray_config_is_a_note(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t")
    assert examine(tree)[3] == ()
    (tree / "config.cmake").write_text("set(USE_OPENCL ON)\n")
    (note,) = open_source(str(tree)).notes
    assert str(tree / "config.cmake") in note


@pytest.mark.parametrize(
    ("minimum", "noted"),
    [("3.2", True), ("2.8.12", True), ("3.2...3.20", False), ("3.5", False), ("3.18", False)],
)
@pytest.mark.parametrize("where", ["3rdparty/old", "${CMAKE_CURRENT_SOURCE_DIR}/3rdparty/old"])
def test_subproject_that_cmake_4_refuses_is_a_note(
    tmp_path: Path, minimum: str, noted: bool, where: str
) -> None:
    tree = make_minitvm(tmp_path / "t")
    old = tree / "3rdparty/old"
    old.mkdir(parents=True)
    (old / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION {minimum})\n")
    assert examine(tree)[3] == ()  # not part of the build
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write(f"add_subdirectory({where})\n")
    notes = examine(tree)[3]
    assert bool(notes) is noted
    if noted:
        assert "3rdparty/old/CMakeLists.txt" in notes[0]
        assert "CMAKE_POLICY_VERSION_MINIMUM=3.5" in notes[0]


def test_version_without_version_py(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t")
    (tree / "version.py").unlink()
    assert read_version(tree) == "unknown"
    (tree / "include/tvm/runtime/base.h").write_text('#define TVM_VERSION "0.26.dev0"\n')
    assert read_version(tree) == "0.26.dev0"
    (tree / "pyproject.toml").write_text('[project]\nversion = "0.26.0"\n')
    assert read_version(tree) == "0.26.0"


def test_default_spec(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t")
    assert default_spec(tmp_path, {}) is None
    assert default_spec(tree, {}) == str(tree)
    assert default_spec(tree, {"TVM_HOME": "/x"}) == "/x"


def test_path_pin_follows_content(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t")
    first = open_source(str(tree)).pin
    assert first.kind == "path"
    assert open_source(str(tree), pin=first).pin == first
    with (tree / "CMakeLists.txt").open("a") as stream:
        stream.write("# more\n")
    with pytest.raises(UsageError, match="not the one that was locked") as caught:
        open_source(str(tree), pin=first)
    assert caught.value.expected == f"path {first.id}"
