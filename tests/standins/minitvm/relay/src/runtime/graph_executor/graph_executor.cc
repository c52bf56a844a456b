#include <tvm/runtime/base.h>

MINITVM_API int MiniTVMGraphExecutorExists() { return 1; }
