#include <tvm/runtime/base.h>

MINITVM_API int MiniTVMCompilerAlignment() { return MiniTVMKallocAlignment(); }
