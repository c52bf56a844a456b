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

# TVM up to v0.23 compiles the paths of compiler and SDKs into libtvm_runtime.so (libinfo.cc,
# by definitions, which no prefix map reaches). Only their last words stay.
function(buildtool_shorten_libinfo)
  set(file "${CMAKE_SOURCE_DIR}/src/support/libinfo.cc")
  get_property(definitions SOURCE "${file}" PROPERTY COMPILE_DEFINITIONS)
  foreach(name IN ITEMS CMAKE_CXX_COMPILER USE_CLML USE_CLML_GRAPH_EXECUTOR USE_OPENCL)
    if(IS_ABSOLUTE "${${name}}")
      get_filename_component(last "${${name}}" NAME)
      string(REPLACE "=\"${${name}}\"" "=\"${last}\"" definitions "${definitions}")
    endif()
  endforeach()
  set_property(SOURCE "${file}" PROPERTY COMPILE_DEFINITIONS "${definitions}")
endfunction()
if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.19 AND EXISTS "${CMAKE_SOURCE_DIR}/src/support/libinfo.cc")
  cmake_language(DEFER CALL buildtool_shorten_libinfo)
endif()
