#include <tvm/runtime/base.h>

MINITVM_API const char* MiniLibInfo() {
  return "compiler " TVM_CXX_COMPILER_PATH ", OpenCLML " TVM_INFO_USE_CLML;
}
