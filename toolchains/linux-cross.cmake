# Cross-compiling for a glibc Linux board with gcc, clang or zig.
#
# buildtool passes the values as cache variables; they are repeated to every
# try_compile. To use this file by hand:
#   cmake -DCMAKE_TOOLCHAIN_FILE=linux-cross.cmake \
#         -DBUILDTOOL_CC=aarch64-linux-gnu-gcc -DBUILDTOOL_CXX=aarch64-linux-gnu-g++ ...
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES
    BUILDTOOL_CC BUILDTOOL_CXX BUILDTOOL_AR BUILDTOOL_RANLIB BUILDTOOL_PROCESSOR
    BUILDTOOL_SYSROOT BUILDTOOL_TARGET BUILDTOOL_FIND_ROOT)

if(NOT DEFINED BUILDTOOL_PROCESSOR)
  set(BUILDTOOL_PROCESSOR aarch64)
endif()
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${BUILDTOOL_PROCESSOR}")
set(CMAKE_C_COMPILER "${BUILDTOOL_CC}")
set(CMAKE_CXX_COMPILER "${BUILDTOOL_CXX}")
if(BUILDTOOL_AR)
  set(CMAKE_AR "${BUILDTOOL_AR}" CACHE FILEPATH "archiver")
endif()
if(BUILDTOOL_RANLIB)
  set(CMAKE_RANLIB "${BUILDTOOL_RANLIB}" CACHE FILEPATH "archive indexer")
endif()
if(BUILDTOOL_SYSROOT)
  set(CMAKE_SYSROOT "${BUILDTOOL_SYSROOT}")
endif()
if(BUILDTOOL_TARGET)
  # In the flags and not only in CMAKE_<LANG>_COMPILER_TARGET: autotools
  # sub-builds (libbacktrace) get CC and CFLAGS and would build for the host.
  set(CMAKE_C_FLAGS_INIT "--target=${BUILDTOOL_TARGET}")
  set(CMAKE_CXX_FLAGS_INIT "--target=${BUILDTOOL_TARGET}")
  set(CMAKE_ASM_FLAGS_INIT "--target=${BUILDTOOL_TARGET}")
endif()

# Programs come from the build machine; libraries, headers and packages never do.
if(BUILDTOOL_FIND_ROOT)
  list(APPEND CMAKE_FIND_ROOT_PATH "${BUILDTOOL_FIND_ROOT}")
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
