# Read at the end of TVM's own project() call when OpenCLML is built in.
#
# Headers that TVM's OpenCLML runtime uses without including them: LOG since v0.24,
# INT_MAX and fmax where the C++ library does not bring them by chance.
file(GLOB buildtool_clml "${PROJECT_SOURCE_DIR}/src/runtime/contrib/clml/*.cc")
set(buildtool_clml_options -include climits -include cmath)
if(EXISTS "${PROJECT_SOURCE_DIR}/include/tvm/runtime/logging.h")
  list(APPEND buildtool_clml_options -include tvm/runtime/logging.h)
endif()
set_source_files_properties(${buildtool_clml} PROPERTIES COMPILE_OPTIONS "${buildtool_clml_options}")
