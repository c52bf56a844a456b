"""Real CMake builds through toolchains/android.cmake, with a real NDK or the stand-in.

``BUILDTOOL_TEST_NDK`` or ``ANDROID_NDK_HOME`` names a real NDK. What the stand-in builds is glibc code:
it shows that CMake, flags, search rules and cures are right, nothing of Android.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from buildtool.core.types import Abi
from buildtool.toolchains.clml import read_clml
from buildtool.toolchains.model import Toolchain
from buildtool.toolchains.ndk import ELF_MACHINE, elf_machine, ndk_toolchain, read_ndk
from tests.standins.clml import make_clml
from tests.standins.minitvm import make_minitvm
from tests.standins.ndk import LIMITS, make_ndk, missing, real_ndk

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

AARCH64 = ELF_MACHINE[Abi.ARM64]

# One project with everything that has gone wrong in Android builds of TVM.
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(sink C CXX)
set(CMAKE_CXX_STANDARD 17)

# Packages of the build machine must not be found: LLVM and zlib have leaked so.
find_package(LLVM CONFIG QUIET)
find_library(HOST_C NAMES m PATHS /usr/lib/x86_64-linux-gnu)
find_path(HOST_INCLUDE NAMES buildtool_host_only.h PATHS "${CMAKE_SOURCE_DIR}/host")
message(STATUS "found LLVM=${LLVM_DIR} lib=${HOST_C} include=${HOST_INCLUDE}")

# A submodule from CMake's old days.
add_subdirectory(old)

# A whole-project check, which reads the toolchain file with no cache variables.
include(CheckIPOSupported)
check_ipo_supported(RESULT ipo OUTPUT why LANGUAGES C CXX)
message(STATUS "ipo=${ipo} ${why}")

# An autotools sub-build: gets the compiler and its flags as words, nothing else.
include(ExternalProject)
ExternalProject_Add(trace
  SOURCE_DIR "${CMAKE_SOURCE_DIR}/trace" BINARY_DIR "${CMAKE_BINARY_DIR}/trace"
  CONFIGURE_COMMAND sh "${CMAKE_SOURCE_DIR}/trace/configure" "CC=${CMAKE_C_COMPILER}"
    "CFLAGS=${CMAKE_C_FLAGS}" "LDFLAGS=${CMAKE_EXE_LINKER_FLAGS}" "AR=${CMAKE_AR}"
  BUILD_COMMAND sh ./build.sh
  INSTALL_COMMAND ""
  BUILD_BYPRODUCTS "${CMAKE_BINARY_DIR}/trace/libtrace.a"
  LOG_CONFIGURE ON LOG_OUTPUT_ON_FAILURE ON)

add_library(part SHARED part.cc)
add_dependencies(part trace)
target_link_libraries(part PRIVATE "${CMAKE_BINARY_DIR}/trace/libtrace.a" old)
if(WITH_LIBGCC)
  target_link_libraries(part PRIVATE gcc)
endif()
add_executable(tool tool.cc)
target_link_libraries(tool PRIVATE part)
if(ipo)
  set_property(TARGET tool PROPERTY INTERPROCEDURAL_OPTIMIZATION TRUE)
endif()
"""
# What autoconf does: take NAME=VALUE, refuse other words, and link a program with the flags.
_CONFIGURE = """\
for word do
  case $word in
    [A-Z]*=*) eval "${word%%=*}=\\${word#*=}" ;;
    *) echo "configure: error: unrecognized option: $word" >&2; exit 1 ;;
  esac
done
source=$(dirname "$0")
echo "int main(void) { return 0; }" > conftest.c
"$CC" $CFLAGS $LDFLAGS conftest.c -o conftest || exit 77
echo "'$CC' $CFLAGS -c '$source/trace.c' -o trace.o && '$AR' rcs libtrace.a trace.o" > build.sh
"""
_OLD = "cmake_minimum_required(VERSION 3.2)\nproject(old C)\nadd_library(old STATIC old.c)\n"
_FILES = {
    "CMakeLists.txt": _CMAKE,
    "old/CMakeLists.txt": _OLD,
    "old/old.c": "int old_number(void) { return 40; }\n",
    "trace/trace.c": "int trace_number(void) { return 2; }\n",
    "trace/configure": _CONFIGURE,
    "host/buildtool_host_only.h": "#error host\n",
    "part.cc": '#include <atomic>\nextern "C" int old_number(void);\nextern "C" int trace_number(void);\n'
    "static std::atomic<int> calls{0};\n"
    "int part() { return old_number() + trace_number() + calls.fetch_add(1); }\n",
    "tool.cc": "#include <cstdio>\n#include <stdexcept>\nint part();\n"
    'int main() { try { throw std::runtime_error("x"); } catch (std::exception&) '
    '{ std::printf("answer %d\\n", part()); } return 0; }\n',
}


@dataclass
class Built:
    """A configured and built folder."""

    folder: Path
    configure: str
    commands: str


def _project(folder: Path) -> Path:
    for name, text in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _run(words: Iterable[object], *, env: dict[str, str] | None = None, code: int = 0) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **(env or {})},
    )
    text = done.stdout + done.stderr
    assert done.returncode == code, text[-4000:]
    return text


def _tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _configure(source: Path, build: Path, toolchain: Toolchain, *more: str, code: int = 0) -> str:
    words = [_tool("cmake"), "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    words += [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.toolchain_file}", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    words += [f"-D{option.name}={option.value}" for option in toolchain.cmake_args]
    return _run([*words, *more], code=code)


def _build(
    source: Path, build: Path, toolchain: Toolchain, *more: str, targets: tuple[str, ...] = ()
) -> Built:
    text = _configure(source, build, toolchain, *more)
    _run([_tool("ninja"), "-C", build, *targets])
    return Built(build, text, _run([_tool("ninja"), "-C", build, "-t", "commands", *targets]))


def _ndk(folder: Path, revision: str) -> Path:
    real = real_ndk()
    if real is not None:
        return real
    print(LIMITS)
    return make_ndk(folder, revision)


def _toolchain(folder: Path, revision: str = "26.3.11579264", stl: str = "c++_shared") -> Toolchain:
    return ndk_toolchain(read_ndk(_ndk(folder, revision)), abi=Abi.ARM64, api_level=28, stl=stl)


def _loads(path: Path) -> list[tuple[int, int, int]]:
    """(offset, address, alignment) of each LOAD segment."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        segments = [s for s in ELFFile(stream).iter_segments() if s["p_type"] == "PT_LOAD"]
        return [(s["p_offset"], s["p_vaddr"], s["p_align"]) for s in segments]


def _needed(path: Path) -> list[str]:
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as stream:
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        assert isinstance(dynamic, DynamicSection)
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


def _check_runs(built: Built, toolchain: Toolchain) -> None:
    """Run the program in emulation; a real NDK's programs need a phone and are only looked at."""
    assert toolchain.sysroot is not None
    assert elf_machine(built.folder / "tool") == AARCH64
    if not (toolchain.sysroot / "lib" / "ld-linux-aarch64.so.1").exists():
        print("not run: built for bionic")
        return
    run = ["qemu-aarch64-static", "-L", toolchain.sysroot, "-E", f"LD_LIBRARY_PATH={built.folder}:/lib"]
    assert _run([*run, built.folder / "tool"]) == "answer 42\n"


@pytest.mark.parametrize("revision", ["22.1.7171670", "23.2.8568313", "26.3.11579264"])
def test_a_project_with_every_known_trap_builds(tmp_path: Path, revision: str) -> None:
    toolchain = _toolchain(tmp_path / "ndk", revision)
    built = _build(_project(tmp_path / "src"), tmp_path / "build", toolchain)
    assert "found LLVM=LLVM_DIR-NOTFOUND lib=" in built.configure
    assert "/usr/lib/x86_64-linux-gnu" not in built.configure
    assert "include=HOST_INCLUDE-NOTFOUND" in built.configure
    assert "ipo=YES" in built.configure or "ipo=TRUE" in built.configure, built.configure
    for name in ("tool", "libpart.so"):
        path = built.folder / name
        assert elf_machine(path) == AARCH64
        loads = _loads(path)
        assert all(align >= 16384 for _, _, align in loads)
        assert all(offset % 16384 == address % 16384 for offset, address, _ in loads)
    assert elf_machine(built.folder / "trace/trace.o") == AARCH64, "the sub-build compiled for the host"
    assert "-fuse-ld=gold" not in built.commands
    _check_runs(built, toolchain)


def test_64_bit_intel_gets_16_kb_segments_too(tmp_path: Path) -> None:
    ndk = read_ndk(_ndk(tmp_path / "ndk", "26.3.11579264"))
    toolchain = ndk_toolchain(ndk, abi=Abi.X86_64, api_level=28)
    built = _build(_project(tmp_path / "src"), tmp_path / "build", toolchain)
    assert elf_machine(built.folder / "tool") == ELF_MACHINE[Abi.X86_64]
    assert all(align >= 16384 for _, _, align in _loads(built.folder / "libpart.so"))


def test_spaces_and_letters_in_every_path_work(tmp_path: Path) -> None:
    if real_ndk() is not None:
        pytest.skip("a real NDK is used where it lies")
    odd = tmp_path / "a b é"
    toolchain = _toolchain(odd / "ndk")
    built = _build(_project(odd / "src"), odd / "build", toolchain)
    assert elf_machine(built.folder / "trace/trace.o") == AARCH64
    _check_runs(built, toolchain)


def test_old_trees_that_ask_for_libgcc_link_with_new_ndks(tmp_path: Path) -> None:
    toolchain = _toolchain(tmp_path / "ndk")
    built = _build(_project(tmp_path / "src"), tmp_path / "build", toolchain, "-DWITH_LIBGCC=ON")
    _check_runs(built, toolchain)


def test_without_our_file_the_traps_do_spring(tmp_path: Path) -> None:
    """The stand-in refuses what an NDK refuses, else the tests above would show nothing."""
    if real_ndk() is not None:
        pytest.skip("a test of the stand-in")
    root = make_ndk(tmp_path / "ndk")
    source = _project(tmp_path / "src")
    plain = [_tool("cmake"), "-S", source, "-G", "Ninja", "-DANDROID_ABI=arm64-v8a"]
    plain += [f"-DCMAKE_TOOLCHAIN_FILE={root / 'build/cmake/android.toolchain.cmake'}"]
    plain += [f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5"]
    _run([*plain, "-B", tmp_path / "a"])
    text = _run([_tool("ninja"), "-C", tmp_path / "a"], code=1)
    assert "incompatible with" in text, "the host's trace.o should not link"
    _run([*plain, "-B", tmp_path / "b", "-DWITH_LIBGCC=ON"])
    assert "unable to find library -lgcc" in _run([_tool("ninja"), "-C", tmp_path / "b", "-k0"], code=1)
    clang = root / "toolchains/llvm/prebuilt/linux-x86_64/bin/clang"
    gold = [clang, "--target=aarch64-linux-android28", "-fuse-ld=gold", source / "trace/trace.c"]
    assert "invalid linker name" in _run(gold, code=1)


def test_a_system_name_that_fights_the_ndk_is_refused_by_name(tmp_path: Path) -> None:
    toolchain = _toolchain(tmp_path / "ndk")
    source = _project(tmp_path / "src")
    text = _configure(source, tmp_path / "build", toolchain, "-DCMAKE_SYSTEM_NAME=Linux", code=1)
    assert "CMAKE_SYSTEM_NAME=Linux fights the NDK's toolchain file" in text


def test_the_file_says_what_it_misses(tmp_path: Path) -> None:
    file = ndk_toolchain(read_ndk(make_ndk(tmp_path / "ndk")), abi=Abi.ARM64, api_level=28).toolchain_file
    source = _project(tmp_path / "src")
    words = [_tool("cmake"), "-S", source, "-B", tmp_path / "b", f"-DCMAKE_TOOLCHAIN_FILE={file}"]
    assert "set ANDROID_NDK to the folder of an Android NDK" in _run(words, code=1)


def test_reconfiguring_adds_no_flag_twice(tmp_path: Path) -> None:
    toolchain = _toolchain(tmp_path / "ndk")
    source = _project(tmp_path / "src")
    first = _build(source, tmp_path / "build", toolchain)
    assert _build(source, tmp_path / "build", toolchain).commands == first.commands
    assert "no work to do" in _run([_tool("ninja"), "-C", tmp_path / "build"])


# As in real trees: uses what it does not include, and the vendor's header.
_CLML_RUNTIME = """\
#include <CL/cl_qcom_ml_ops.h>
int minitvm_clml_limit() { return CL_QCOM_ML_OPS_H_MAJOR_VERSION < INT_MAX ? 1 : 0; }
extern "C" int minitvm_clml() { return clQueryMLInterfaceVersionsQCOM(nullptr, nullptr, 0, nullptr); }
"""


def _use_clml(tree: Path) -> None:
    """Give the mini tree an OpenCLML runtime file and libraries, as real trees have them."""
    source = tree / "src/runtime/contrib/clml/clml_runtime.cc"
    source.parent.mkdir(parents=True)
    source.write_text(_CLML_RUNTIME)
    (tree / "3rdparty/OpenCL-Headers/CL").mkdir(parents=True, exist_ok=True)
    (tree / "3rdparty/OpenCL-Headers/CL/cl.h").write_text(_CL_TYPES)
    module = tree / "cmake/modules/CLML.cmake"
    module.write_text(
        module.read_text() + "include_directories(SYSTEM 3rdparty/OpenCL-Headers ${USE_CLML})\n"
        "list(APPEND RUNTIME_SRCS src/runtime/contrib/clml/clml_runtime.cc)\n"
        'find_library(EXTERN_CLML_COMPUTE_LIB NAMES OpenCL HINTS "${USE_CLML_GRAPH_EXECUTOR}/lib64")\n'
        "link_libraries(${EXTERN_CLML_COMPUTE_LIB})\n"
    )


_CL_TYPES = """\
#include <cstddef>
#include <cstdint>
#include <initializer_list>
typedef int cl_int;
typedef unsigned cl_uint;
typedef struct _cl_mem* cl_mem;
typedef struct _cl_command_queue* cl_command_queue;
"""

_CLML_SEARCH = """\
cmake_minimum_required(VERSION 3.18)
project(search C)
# As TVM searches: lib64 first for OpenCLML, lib first for OpenCL, whatever the ABI.
find_library(EXTERN_CLML_COMPUTE_LIB NAMES OpenCL HINTS "${SDK}" "${SDK}/lib64" "${SDK}/lib")
find_library(OpenCL_LIBRARIES NAMES OpenCL NO_DEFAULT_PATH PATHS "${SDK}/lib" "${SDK}/lib64")
message(STATUS "clml=${EXTERN_CLML_COMPUTE_LIB}")
message(STATUS "opencl=${OpenCL_LIBRARIES}")
file(WRITE "${CMAKE_BINARY_DIR}/main.c" "int clGetPlatformIDs(unsigned, void*, unsigned*);\\n"
     "int main(void) { return clGetPlatformIDs(0, 0, 0) == -1001 ? 0 : 1; }\\n")
add_executable(user "${CMAKE_BINARY_DIR}/main.c")
target_link_libraries(user PRIVATE ${EXTERN_CLML_COMPUTE_LIB} ${OpenCL_LIBRARIES})
"""


def test_clml_libraries_reach_tvms_own_search(tmp_path: Path) -> None:
    toolchain = _toolchain(tmp_path / "ndk")
    sdk = read_clml(make_clml(tmp_path / "s d k"), Abi.ARM64)
    source = tmp_path / "src"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(_CLML_SEARCH)
    more = [f"-D{option.name}={option.value}" for option in sdk.cmake_args()]
    built = _build(source, tmp_path / "build", toolchain, f"-DSDK={sdk.root}", *more)
    assert f"clml={sdk.libraries[0]};{sdk.libraries[1]}\n" in built.configure
    assert f"opencl={sdk.lib_dir / 'libOpenCL.so'}\n" in built.configure
    # Without those variables the search finds nothing below the find root.
    assert "clml=EXTERN_CLML_COMPUTE_LIB-NOTFOUND" in _run(
        [_tool("cmake"), "-S", source, "-B", tmp_path / "b2", "-G", "Ninja", f"-DSDK={sdk.root}"]
        + [f"-DCMAKE_TOOLCHAIN_FILE={toolchain.toolchain_file}", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
        + [f"-D{option.name}={option.value}" for option in toolchain.cmake_args],
        code=1,
    )


@pytest.mark.parametrize(
    ("era", "targets", "outputs"),
    [
        (
            "relay",
            ("tvm_runtime", "tvm_rpc", "rtvm"),
            ("libtvm_runtime.so", "tvm_rpc", "rtvm"),
        ),
        ("relax", ("tvm_runtime", "tvm_rpc"), ("lib/libtvm_runtime.so", "lib/libtvm_ffi.so", "tvm_rpc")),
    ],
)
def test_both_generations_of_tree_build(
    tmp_path: Path, era: str, targets: tuple[str, ...], outputs: tuple[str, ...]
) -> None:
    toolchain = _toolchain(tmp_path / "ndk")
    sdk = read_clml(make_clml(tmp_path / "clml", major=3), Abi.ARM64)
    build = tmp_path / "build"
    build.mkdir()
    options = ["USE_OPENCL ON", "USE_RPC ON", "USE_CPP_RPC ON", "USE_LLVM OFF", "USE_KALLOC_ALIGNMENT 32"]
    options += ["MACHINE_NAME aarch64-linux-android28", f'USE_CLML "{sdk.root}"']
    options += [f'USE_CLML_GRAPH_EXECUTOR "{sdk.root}"'] + ["USE_CPP_RTVM ON"] * (era == "relay")
    (build / "config.cmake").write_text("".join(f"set({option})\n" for option in options))
    more = [f"-D{option.name}={option.value}" for option in sdk.cmake_args()]
    tree = make_minitvm(tmp_path / "tvm", era)
    _use_clml(tree)
    built = _build(tree, build, toolchain, *more, targets=targets)
    assert "-DTVM_CLML_VERSION=3" in built.commands
    assert {"libOpenCL.so", "libOpenCL_system.so"} <= set(_needed(build / outputs[0]))
    for name in outputs:
        assert elf_machine(build / name) == AARCH64
        assert all(align >= 16384 for _, _, align in _loads(build / name))
