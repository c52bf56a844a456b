#include <tvm/runtime/base.h>

#include <cstdlib>

void* TVMBackendAllocWorkspace(int, int, uint64_t bytes, int, int) {
  void* pointer = nullptr;
  return posix_memalign(&pointer, TVM_KALLOC_ALIGNMENT, bytes) == 0 ? pointer : nullptr;
}

int TVMBackendFreeWorkspace(int, int, void* pointer) {
  std::free(pointer);
  return 0;
}
