/* The names of the relay-era calling convention that kernels use; our own text. */
#pragma once
#include <dlpack/dlpack.h>

#define TVM_DLL __attribute__((visibility("default")))

enum { kTVMDLTensorHandle = 7, kTVMNDArrayHandle = 13 };

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
} TVMValue;

void TVMAPISetLastError(const char* message);
