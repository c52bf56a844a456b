#include <tvm/runtime/base.h>

#include <cstdio>

int main() {
  std::printf("Usage: rtvm --model --device --input --output\nkalloc alignment %d\n", MiniTVMKallocAlignment());
  return 0;
}
