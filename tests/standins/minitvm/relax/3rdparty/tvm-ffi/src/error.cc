#include <cstdio>

#include "minitvm_ffi.h"

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int count) {
  std::fprintf(stderr, "%s: ", kind);
  for (int i = 0; i < count; ++i) std::fputs(parts[i], stderr);
  std::fputc('\n', stderr);
}
