#include <tvm/runtime/base.h>

#include "minitvm_ffi.h"

MINITVM_API int MiniTVMRelaxExists() {
  void* function = nullptr;
  return TVMFFIFunctionGetGlobal("vm", &function) == 0;
}
