"""An NDK-shaped folder around Debian's clang, lld and cross gcc libraries.

Same layout, metadata, compiler names and toolchain-file variables as a real
NDK. What it is not: its C library is glibc and its C++ library libstdc++, so
what it builds runs on Linux boards (and in emulation) and never on Android.
Nothing that it shows about bionic, libc++ or API levels is worth anything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

LIMITS = "NDK stand-in: glibc and libstdc++ instead of bionic and libc++; no Android result"

TRIPLES = {
    "arm64-v8a": "aarch64-linux-android",
    "armeabi-v7a": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
    "x86": "i686-linux-android",
}
_WRAPPER_TRIPLES = {**TRIPLES, "armeabi-v7a": "armv7a-linux-androideabi"}
_GNU = {
    "arm64-v8a": "aarch64-linux-gnu",
    "armeabi-v7a": "armv7-linux-gnueabihf",
    "x86_64": "x86_64-linux-gnu",
    "x86": "i686-linux-gnu",
}
_LEVELS = (21, 22, 23, 24, 26, 27, 28, 29, 30)
_TOOLS = (
    "llvm-ar",
    "llvm-nm",
    "llvm-objcopy",
    "llvm-objdump",
    "llvm-ranlib",
    "llvm-readelf",
    "llvm-strip",
    "ld.lld",
)

# The compiler driver: maps Android targets to GNU ones, and refuses what an NDK
# of this age refuses. Without --target it builds for the host, as a real one does.
_DRIVER = """#!/bin/sh
# {limits}
target= link=yes have_libgcc= wants_libgcc= bad=
for word do
  shift
  case $word in
    --target=aarch64-*android*) target={gnu_arm64}; continue ;;
    --target=arm*-*android*) target={gnu_arm}; continue ;;
    --target=x86_64-*android*) target={gnu_x86_64}; continue ;;
    --target=i686-*android*) target={gnu_x86}; continue ;;
    --sysroot=*|--gcc-toolchain=*|-stdlib=*|-static-libstdc++) continue ;;
    -fuse-ld=gold) [ {major} -lt 23 ] || bad="clang: error: invalid linker name in argument '$word'" ;;
    -lgcc) wants_libgcc=yes ;;
    -L*) [ -e "${{word#-L}}/libgcc.a" ] && have_libgcc=yes ;;
    -c|-E|-S|-fsyntax-only|-M|-MM|--version|-v|-print-*|--print-*|-dumpmachine|-dumpversion) link= ;;
  esac
  set -- "$@" "$word"
done
if [ -n "$wants_libgcc" ] && [ -z "$have_libgcc" ] && [ {major} -ge 23 ]; then
  bad="ld.lld: error: unable to find library -lgcc"
fi
if [ -n "$bad" ]; then
  echo "$bad" >&2
  exit 1
fi
if [ -n "$target" ]; then
  set -- "--target=$target" "$@"
  [ -z "$link" ] || set -- "$@" -fuse-ld=lld "-L{libs}/$target"
fi
exec {clang} -Wno-unused-command-line-argument "$@"
"""

# Up to r22 the real wrappers did not quote their own path.
_WRAPPER = {
    False: '#!/bin/bash\n`dirname $0`/{driver} --target={triple} "$@"\n',
    True: '#!/usr/bin/env bash\nbin_dir=`dirname "$0"`\n"$bin_dir/{driver}" --target={triple} "$@"\n',
}

_TOOLCHAIN_FILE = """\
# Of an NDK stand-in; honours the variables of the real file.
cmake_minimum_required(VERSION 3.6...3.28)
set(CMAKE_SYSTEM_VERSION 1)
if(ANDROID_NDK_TOOLCHAIN_INCLUDED)
  return()
endif()
set(ANDROID_NDK_TOOLCHAIN_INCLUDED TRUE)
get_filename_component(ANDROID_NDK "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
file(STRINGS "${ANDROID_NDK}/source.properties" _revision REGEX "^Pkg.Revision")
string(REGEX MATCH "= ([0-9]+)" _ "${_revision}")
set(ANDROID_NDK_MAJOR "${CMAKE_MATCH_1}")
if(ANDROID_NDK_MAJOR EQUAL 23 AND NOT ANDROID_USE_LEGACY_TOOLCHAIN_FILE)
  message(FATAL_ERROR "r23 leaves compilers and flags to CMake's own NDK support here")
endif()
if(NOT ANDROID_ABI)
  set(ANDROID_ABI armeabi-v7a)
endif()
if(NOT ANDROID_PLATFORM)
  set(ANDROID_PLATFORM android-21)
endif()
if(NOT ANDROID_STL)
  set(ANDROID_STL c++_static)
endif()
string(REPLACE "android-" "" ANDROID_PLATFORM_LEVEL "${ANDROID_PLATFORM}")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANDROID_ABI ANDROID_PLATFORM ANDROID_STL)
set(ANDROID TRUE)
set(CMAKE_SYSTEM_NAME Android)
list(APPEND CMAKE_FIND_ROOT_PATH "${ANDROID_NDK}")
foreach(_mode "PROGRAM;NEVER" "LIBRARY;ONLY" "INCLUDE;ONLY" "PACKAGE;ONLY")
  list(GET _mode 0 _kind)
  list(GET _mode 1 _value)
  if(NOT CMAKE_FIND_ROOT_PATH_MODE_${_kind})
    set(CMAKE_FIND_ROOT_PATH_MODE_${_kind} ${_value})
  endif()
endforeach()
set(CMAKE_ANDROID_ARCH_ABI ${ANDROID_ABI})
if(ANDROID_ABI STREQUAL "arm64-v8a")
  set(CMAKE_SYSTEM_PROCESSOR aarch64)
  set(_machine aarch64)
elseif(ANDROID_ABI STREQUAL "x86_64")
  set(CMAKE_SYSTEM_PROCESSOR x86_64)
  set(_machine x86_64)
elseif(ANDROID_ABI STREQUAL "armeabi-v7a")
  set(CMAKE_SYSTEM_PROCESSOR armv7-a)
  set(_machine armv7)
elseif(ANDROID_ABI STREQUAL "x86")
  set(CMAKE_SYSTEM_PROCESSOR i686)
  set(_machine i686)
else()
  message(FATAL_ERROR "the stand-in knows no ABI ${ANDROID_ABI}")
endif()
set(_eabi "")
if(_machine STREQUAL "armv7")
  set(_eabi "eabi")
endif()
set(_root "${ANDROID_NDK}/toolchains/llvm/prebuilt/linux-x86_64")
set(CMAKE_SYSROOT "${_root}/sysroot")
foreach(_lang C CXX ASM)
  set(CMAKE_${_lang}_COMPILER_TARGET "${_machine}-none-linux-android${_eabi}${ANDROID_PLATFORM_LEVEL}")
endforeach()
set(CMAKE_C_COMPILER "${_root}/bin/clang")
set(CMAKE_CXX_COMPILER "${_root}/bin/clang++")
set(CMAKE_AR "${_root}/bin/llvm-ar" CACHE FILEPATH "ar")
set(CMAKE_RANLIB "${_root}/bin/llvm-ranlib" CACHE FILEPATH "ranlib")
set(CMAKE_STRIP "${_root}/bin/llvm-strip" CACHE FILEPATH "strip")
set(CMAKE_POSITION_INDEPENDENT_CODE TRUE)
set(_flags "-g -DANDROID -fdata-sections -ffunction-sections -funwind-tables -fstack-protector-strong")
string(APPEND _flags " -no-canonical-prefixes -D_FORTIFY_SOURCE=2 -Wformat -Werror=format-security")
set(_link "-Wl,--build-id=sha1 -Wl,--fatal-warnings -Wl,--no-undefined -Qunused-arguments")
foreach(_lang C CXX ASM)
  set(CMAKE_${_lang}_FLAGS "" CACHE STRING "compiler flags")
  set(CMAKE_${_lang}_FLAGS "${_flags} ${CMAKE_${_lang}_FLAGS}")
endforeach()
foreach(_kind SHARED MODULE EXE)
  set(CMAKE_${_kind}_LINKER_FLAGS "" CACHE STRING "linker flags")
  set(CMAKE_${_kind}_LINKER_FLAGS "${_link} ${CMAKE_${_kind}_LINKER_FLAGS}")
endforeach()
"""


def real_ndk() -> Path | None:
    """A real NDK that tests shall use: BUILDTOOL_TEST_NDK, else ANDROID_NDK_HOME."""
    named = os.environ.get("BUILDTOOL_TEST_NDK") or os.environ.get("ANDROID_NDK_HOME")
    return Path(named) if named else None


def missing() -> str | None:
    """Why no stand-in can be made here, or None: the words for a skip."""
    for program in ("clang", "clang++", "ld.lld", "llvm-ar", "llvm-strip"):
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install clang lld llvm)"
    if not Path("/usr/aarch64-linux-gnu/lib/libc.so.6").exists():
        return "no arm64 cross libraries (apt-get install g++-aarch64-linux-gnu)"
    return None


def make_ndk(
    dest: Path,
    revision: str = "26.3.11579264",
    *,
    meta: bool = True,
    abis: tuple[str, ...] = tuple(TRIPLES),
    levels: tuple[int, ...] = _LEVELS,
) -> Path:
    """Make the stand-in in ``dest`` (created) and return it.

    ``meta`` off leaves out meta/*.json, as NDKs before r18 did. arm64-v8a and
    x86_64 can be built for; the other ABIs are there to be listed.
    """
    major = int(revision.split(".", maxsplit=1)[0])
    prebuilt = dest / "toolchains" / "llvm" / "prebuilt" / "linux-x86_64"
    for folder in (prebuilt / "bin", prebuilt / "sysroot" / "usr" / "include", dest / "build" / "cmake"):
        folder.mkdir(parents=True)
    (dest / "source.properties").write_text(f"Pkg.Desc = Android NDK\nPkg.Revision = {revision}\n")
    (dest / "build" / "cmake" / "android.toolchain.cmake").write_text(_TOOLCHAIN_FILE)
    (prebuilt / "AndroidVersion.txt").write_text("14.0.6\nstand-in\n")
    if meta:
        _write_meta(dest / "meta", abis, levels)
    _write_programs(prebuilt, major, abis, levels)
    _write_sysroot(prebuilt / "sysroot", abis, levels)
    return dest


def _write_meta(folder: Path, abis: tuple[str, ...], levels: tuple[int, ...]) -> None:
    folder.mkdir()
    table = {
        abi: {"bitness": 64 if "64" in abi else 32, "default": True, "deprecated": False} for abi in abis
    }
    platforms = {"min": levels[0], "max": levels[-1], "aliases": {"20": 19, "25": 24, "P": 28}}
    (folder / "abis.json").write_text(json.dumps(table))
    (folder / "platforms.json").write_text(json.dumps(platforms))
    (folder / "system_libs.json").write_text(
        json.dumps({"libc.so": "21", "liblog.so": "21", "libm.so": "21"})
    )


def _write_programs(prebuilt: Path, major: int, abis: tuple[str, ...], levels: tuple[int, ...]) -> None:
    folder = prebuilt / "bin"
    for driver in ("clang", "clang++"):
        text = _DRIVER.format(
            limits=LIMITS,
            major=major,
            clang=shutil.which(driver),
            libs=prebuilt / "lib",
            gnu_arm64=_GNU["arm64-v8a"],
            gnu_arm=_GNU["armeabi-v7a"],
            gnu_x86_64=_GNU["x86_64"],
            gnu_x86=_GNU["x86"],
        )
        _program(folder / driver, text)
        for abi in abis:
            for level in levels:
                triple = f"{_WRAPPER_TRIPLES[abi]}{level}"
                _program(
                    folder / f"{triple}-{driver}", _WRAPPER[major > 22].format(driver=driver, triple=triple)
                )
    for tool in _TOOLS:
        (folder / tool).symlink_to(str(shutil.which(tool)))
    # What libgcc's place is taken by from r23 on; here it leads back to the cross gcc's own.
    for triple, gcc in (("aarch64-linux-gnu", "aarch64-linux-gnu-gcc"), ("x86_64-linux-gnu", "gcc")):
        if shutil.which(gcc):
            words = [gcc, "-print-libgcc-file-name"]
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
            libgcc = Path(done.stdout.strip())
            (prebuilt / "lib" / triple).mkdir(parents=True)
            text = f"GROUP({libgcc} {libgcc.with_name('libgcc_eh.a')})\n"
            (prebuilt / "lib" / triple / "libunwind.a").write_text(text)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _write_sysroot(sysroot: Path, abis: tuple[str, ...], levels: tuple[int, ...]) -> None:
    for abi in abis:
        folder = sysroot / "usr" / "lib" / TRIPLES[abi]
        for level in levels:
            (folder / str(level)).mkdir(parents=True)
        stub_library(folder / "libc++_shared.so", abi, "int __buildtool_standin_libcxx;")
        stub_library(
            folder / str(levels[0]) / "liblog.so", abi, "int __android_log_print(void) { return 0; }"
        )
        for level in levels[1:]:
            shutil.copy(folder / str(levels[0]) / "liblog.so", folder / str(level))
    # The loader and libc for emulation: `qemu -L SYSROOT` looks for /lib/ld-linux-*.
    (sysroot / "lib").symlink_to("/usr/aarch64-linux-gnu/lib")


def stub_library(path: Path, abi: str, code: str) -> None:
    """A shared library of a few symbols, linked with nothing, for any ABI."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [
        "clang",
        f"--target={_GNU[abi]}",
        "-shared",
        "-nostdlib",
        "-ffreestanding",
        "-fPIC",
        "-fuse-ld=lld",
    ]
    words += [f"-Wl,-soname,{path.name}", "-Wl,-z,max-page-size=16384", "-x", "c", "-", "-o", os.fspath(path)]
    subprocess.run(words, input=code.encode(), check=True, timeout=60)
