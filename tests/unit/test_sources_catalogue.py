"""The option catalogue and capabilities, read from small trees in the shapes that releases have."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildtool.sources import Catalogue, read_tree
from buildtool.sources.catalogue import cmake_files, read_catalogue
from tests.standins.minitvm import make_minitvm


def catalogue(tmp_path: Path, **files: str) -> Catalogue:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_txt", ".txt").replace("_cmake", ".cmake")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found, notes = cmake_files(tmp_path)
    assert notes == []
    return read_catalogue(found)


def test_declarations(tmp_path: Path) -> None:
    found = catalogue(
        tmp_path,
        CMakeLists_txt="""
tvm_option(USE_A "Build \\"with\\" A" OFF)
TVM_OPTION( USE_B
  "Path of B; may be empty" # why
  /path/to/b IF USE_A AND NOT APPLE)
tvm_option(USE_LIST "Several" x y)
# tvm_option(USE_GONE "commented out" ON)
#[[ tvm_option(USE_GONE2 "so is this" ON) ]]
option(USE_C "plain")
set(BUILD_D "v w" CACHE STRING "cached")
set(BUILD_E 1 CACHE INTERNAL "not the user's")
""",
    )
    rows = {n: (o.kind, o.default, o.doc, o.condition) for n, o in found.options.items()}
    assert rows == {
        "BUILD_D": ("declared", "v w", "cached", ""),
        "USE_A": ("declared", "OFF", 'Build "with" A', ""),
        "USE_B": ("declared", "/path/to/b", "Path of B; may be empty", "USE_A AND NOT APPLE"),
        "USE_C": ("declared", "OFF", "plain", ""),
        "USE_LIST": ("declared", "x;y", "Several", ""),
    }


def test_config_defaults_and_their_comments(tmp_path: Path) -> None:
    found = catalogue(
        tmp_path,
        CMakeLists_txt='tvm_option(USE_A "doc" OFF)\nif(USE_KALLOC_ALIGNMENT)\nendif()',
        cmake__config_cmake="# comment of A\nset(USE_A ON)\n\n# Bytes\nset(USE_KALLOC_ALIGNMENT 64)\n"
        "set(USE_OLD ON)",
    )
    a, kalloc, old = (found.options[n] for n in ("USE_A", "USE_KALLOC_ALIGNMENT", "USE_OLD"))
    assert (a.kind, a.default, a.config_default, a.doc) == ("declared", "OFF", "ON", "doc")
    assert (kalloc.kind, kalloc.config_default, kalloc.doc) == ("defaulted", "64", "Bytes")
    assert (old.kind, old.config_default) == ("stale", "ON")


def test_only_consumed(tmp_path: Path) -> None:
    found = catalogue(
        tmp_path,
        CMakeLists_txt="""
if(USE_X AND (NOT DEFINED BUILD_Y))
endif(USE_ENDIF)
message("${TVM_Z} ${OTHER}")
set(TVM_OWN 1)
list(APPEND TVM_SRCS a)
foreach(USE_ITEM ${TVM_SRCS})
  f(${USE_ITEM} ${TVM_OWN})
endforeach()
""",
        cmake__modules__Lib_cmake="f(--host=${MACHINE_NAME})",
        apps__x__CMakeLists_txt="if(${USE_X} MATCHES yes)\nendif()",
    )
    assert {n: o.consumed_in for n, o in found.options.items()} == {
        "BUILD_Y": ("CMakeLists.txt",),
        "MACHINE_NAME": ("cmake/modules/Lib.cmake",),
        "TVM_Z": ("CMakeLists.txt",),
        "USE_X": ("CMakeLists.txt", "apps/x/CMakeLists.txt"),
    }


# What real releases have (facts, not their text): which of the guide's options
# are declared (D), defaulted in config.cmake (C), read (R).
ERAS = {
    "v0.12": {
        "USE_CPP_RTVM": "CR",
        "USE_KALLOC_ALIGNMENT": "CR",
        "USE_GRAPH_EXECUTOR": "DCR",
        "USE_LIBBACKTRACE": "DCR",
        "MACHINE_NAME": "R",
    },
    "v0.19": {
        "USE_CPP_RTVM": "CR",
        "USE_KALLOC_ALIGNMENT": "CR",
        "USE_GRAPH_EXECUTOR": "DCR",
        "USE_OPENCL_EXTN_QCOM": "CR",
        "USE_LIBBACKTRACE": "DCR",
    },
    "v0.20": {"USE_CPP_RTVM": "CR", "USE_PROFILER": "C", "USE_LIBBACKTRACE": "DCR", "MACHINE_NAME": "R"},
    "v0.22": {"USE_LIBBACKTRACE": "DR", "TVM_FFI_USE_LIBBACKTRACE": "C", "USE_PROFILER": "C"},
    "v0.26": {"USE_CPP_RTVM": "CR", "TVM_FFI_USE_LIBBACKTRACE": "C", "USE_CLML": "DCR", "ANDROID_ABI": "R"},
}
KINDS = {"D": "declared", "CR": "defaulted", "C": "stale", "R": "consumed"}


@pytest.mark.parametrize("era", ERAS)
def test_shapes_of_releases(tmp_path: Path, era: str) -> None:
    main, config = "", ""
    for name, marks in ERAS[era].items():
        main += f'tvm_option({name} "doc" OFF)\n' if "D" in marks else ""
        main += f"if({name})\nendif()\n" if "R" in marks else ""
        config += f"set({name} OFF)\n" if "C" in marks else ""
    found = catalogue(tmp_path, CMakeLists_txt=main, cmake__config_cmake=config)
    kinds = {name: option.kind for name, option in found.options.items()}
    assert kinds == {name: KINDS["D" if "D" in marks else marks] for name, marks in ERAS[era].items()}
    assert "USE_NEVER" not in found
    assert found.get("USE_NEVER") is None


def test_an_unreadable_module_is_a_note_and_the_top_file_an_error(tmp_path: Path) -> None:
    (tmp_path / "cmake").mkdir()
    (tmp_path / "CMakeLists.txt").write_text('tvm_option(USE_A "a" ON)')
    (tmp_path / "cmake" / "bad.cmake").write_text("f(")
    found, notes = cmake_files(tmp_path)
    assert list(read_catalogue(found).options) == ["USE_A"]
    assert notes == ["cmake/bad.cmake could not be read as CMake: command without its closing ')'"]


def test_relay_tree(tmp_path: Path) -> None:
    version, found, able = read_tree(make_minitvm(tmp_path / "a b é", "relay"))
    assert version == "0.19.0"
    assert able.targets == {"tvm", "tvm_runtime", "tvm_rpc", "rtvm"}
    assert (able.tvm_ffi, able.graph_executor, able.relax, able.tvmc, able.clml) == (
        False,
        True,
        False,
        True,
        True,
    )
    assert found.options["USE_CPP_RTVM"].kind == "defaulted"
    assert found.options["USE_OPENCL_EXTN_QCOM"].kind == "consumed"
    assert found.options["USE_KALLOC_ALIGNMENT"].config_default == "64"
    assert found.options["MACHINE_NAME"].consumed_in == ("CMakeLists.txt",)


def test_relax_tree(tmp_path: Path) -> None:
    version, found, able = read_tree(make_minitvm(tmp_path / "t", "relax"))
    assert version == "0.25.dev0"
    # CMake still reads USE_CPP_RTVM, but the folder is gone.
    assert able.targets == {"tvm", "tvm_runtime", "tvm_rpc"}
    assert (able.tvm_ffi, able.graph_executor, able.relax, able.tvmc) == (True, False, True, False)
    assert found.options["USE_CPP_RTVM"].kind == "consumed"
    assert found.options["TVM_FFI_USE_LIBBACKTRACE"].default == "ON"
    assert "USE_GRAPH_EXECUTOR" not in found
    assert "MACHINE_NAME" not in found


def test_split_opencl_is_seen_by_its_library(tmp_path: Path) -> None:
    tree = make_minitvm(tmp_path / "t", "relax")
    assert not read_tree(tree)[2].split_opencl
    with (tree / "cmake/modules/OpenCL.cmake").open("a") as stream:
        stream.write("add_library(tvm_runtime_opencl SHARED x.cc)\n")
    assert read_tree(tree)[2].split_opencl
