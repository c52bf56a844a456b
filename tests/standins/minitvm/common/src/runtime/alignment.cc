#include <tvm/runtime/base.h>

int MiniTVMKallocAlignment() { return TVM_KALLOC_ALIGNMENT; }
