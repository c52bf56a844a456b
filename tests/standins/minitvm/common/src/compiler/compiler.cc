#include <tvm/runtime/base.h>

MINITVM_API int MiniTVMCompilerAlignment() { return MiniTVMKallocAlignment(); }

MINITVM_API const char* MiniTVMOptions() { return MINITVM_OPTIONS; }
