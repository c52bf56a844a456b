# Read at the end of the top-level project() call (CMAKE_PROJECT_TOP_LEVEL_INCLUDES would
# need CMake 3.24 and runs before the compilers are known). Adds what makes two
# builds of one source equal, whatever folders they are in.
if(NOT PROJECT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
  return()
endif()
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag("-ffile-prefix-map=a=b" BUILDTOOL_HAS_PREFIX_MAP)
if(BUILDTOOL_HAS_PREFIX_MAP)
  # The later map is tried first: a build folder inside the source tree stays right.
  add_compile_options(
    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=/src"
    "-ffile-prefix-map=${CMAKE_BINARY_DIR}=/build")
endif()
if(BUILDTOOL_LINK_OPTIONS)
  add_link_options(${BUILDTOOL_LINK_OPTIONS})
endif()
