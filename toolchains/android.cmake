# Cross-compiling for Android: the NDK's own toolchain file, and what it leaves undone.
#
# buildtool passes the values as cache variables. To use this file by hand:
#   cmake -DCMAKE_TOOLCHAIN_FILE=android.cmake -DANDROID_NDK=/path/to/ndk \
#         -DANDROID_ABI=arm64-v8a -DANDROID_PLATFORM=android-28 -DANDROID_STL=c++_shared ...

# Whole-project checks such as check_ipo_supported() read this file with no cache
# variables; the environment of this cmake process carries the values to them.
foreach(name IN ITEMS ANDROID_NDK ANDROID_ABI ANDROID_PLATFORM ANDROID_STL BUILDTOOL_MAX_PAGE_SIZE)
  if(DEFINED ${name})
    set(ENV{_BUILDTOOL_${name}} "${${name}}")
  elseif(DEFINED ENV{_BUILDTOOL_${name}})
    set(${name} "$ENV{_BUILDTOOL_${name}}")
  endif()
endforeach()
if(NOT ANDROID_NDK)
  message(FATAL_ERROR "set ANDROID_NDK to the folder of an Android NDK")
endif()
if(DEFINED CACHE{CMAKE_SYSTEM_NAME} AND NOT "$CACHE{CMAKE_SYSTEM_NAME}" STREQUAL "Android")
  message(FATAL_ERROR "CMAKE_SYSTEM_NAME=$CACHE{CMAKE_SYSTEM_NAME} fights the NDK's toolchain file: leave it out")
endif()

# For 64-bit ABIs of r27; older NDKs don't know it and newer ones do it by themselves.
if(BUILDTOOL_MAX_PAGE_SIZE)
  set(ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES ON)
endif()

# The file that sets compilers and flags here. r23 alone defaults to another one, which
# leaves them to CMake's own NDK support, after this file has ended.
set(ANDROID_USE_LEGACY_TOOLCHAIN_FILE TRUE)
include("${ANDROID_NDK}/build/cmake/android.toolchain.cmake")
# CMake reads a toolchain file several times; the additions below are made once.
if(BUILDTOOL_ANDROID_INCLUDED)
  return()
endif()
set(BUILDTOOL_ANDROID_INCLUDED TRUE)

# The NDK's file sets the target by CMAKE_<LANG>_COMPILER_TARGET only. Autotools
# sub-builds (libbacktrace) get CC and CFLAGS and would build for the host, so it
# goes into the flags too. The other cure, the per-API wrapper scripts as
# compilers, costs a shell per compile, hides clang's identity from compiler
# caches, and up to r22 breaks below a folder with a space.
foreach(lang IN ITEMS C CXX ASM)
  string(PREPEND CMAKE_${lang}_FLAGS "--target=${CMAKE_${lang}_COMPILER_TARGET} ")
endforeach()
if(BUILDTOOL_MAX_PAGE_SIZE)
  foreach(kind IN ITEMS SHARED MODULE EXE)
    string(APPEND CMAKE_${kind}_LINKER_FLAGS " -Wl,-z,max-page-size=${BUILDTOOL_MAX_PAGE_SIZE}")
  endforeach()
endif()
# r23 dropped libgcc for libunwind; old trees still ask for -lgcc. Not by the linker flags,
# which sub-builds get as LDFLAGS: ExternalProject loses the quotes that a path may need.
if(ANDROID_NDK_MAJOR GREATER_EQUAL 23)
  file(WRITE "${CMAKE_BINARY_DIR}/buildtool-libgcc/libgcc.a" "INPUT(-lunwind)\n")
  link_directories("${CMAKE_BINARY_DIR}/buildtool-libgcc")
endif()

# TVM up to v0.19 links rtvm with gold when this says so; r23 dropped gold, and older
# NDKs' own default links it too.
unset(ENV{ANDROID_NDK_MAJOR})

# Link-time optimisation indexes archives with these; CMake would also look for the host's.
foreach(lang IN ITEMS C CXX)
  set(CMAKE_${lang}_COMPILER_AR "${CMAKE_AR}" CACHE FILEPATH "archiver for link-time optimisation")
  set(CMAKE_${lang}_COMPILER_RANLIB "${CMAKE_RANLIB}" CACHE FILEPATH "its index")
endforeach()

# Nothing that the build machine has registered or describes by pkg-config is for the device.
set(CMAKE_FIND_USE_PACKAGE_REGISTRY OFF)
set(CMAKE_FIND_USE_SYSTEM_PACKAGE_REGISTRY OFF)
set(ENV{PKG_CONFIG_LIBDIR} "")

# CMake 4 refuses submodules that ask for less than 3.5; they build unchanged.
if(CMAKE_VERSION VERSION_GREATER_EQUAL 4)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
endif()
