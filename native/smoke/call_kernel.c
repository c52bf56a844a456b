/* Loads the saxpy kernel library as TVM's module loader does (dlopen) and calls it
 * without TVM's Python: shows that the library and the TVM libraries it needs load
 * on the device.
 *
 * usage: call_kernel LIBRARY X0,X1,... Y0,Y1,...
 *
 * Prints the results as the hexadecimal bits of each float32. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SMOKE_RELAY
#include <tvm/runtime/c_runtime_api.h>
typedef int (*Kernel)(TVMValue*, int*, int, TVMValue*, int*, void*);
static const char kName[] = "buildtool_saxpy";
#else
#include <uchar.h> /* char32_t, which the v0.21 header uses without naming it */

#include <tvm/ffi/c_api.h>
typedef int32_t (*Kernel)(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
static const char kName[] = "__tvm_ffi_buildtool_saxpy";
#endif

enum { MAX = 64 };

static int parse(char* text, float* values) {
  int count = 0;
  for (char* word = strtok(text, ","); word != NULL && count < MAX; word = strtok(NULL, ",")) {
    values[count++] = strtof(word, NULL);
  }
  return count;
}

static int call(Kernel kernel, DLTensor* tensors) {
#ifdef SMOKE_RELAY
  TVMValue args[3], ret;
  int codes[3] = {kTVMDLTensorHandle, kTVMDLTensorHandle, kTVMDLTensorHandle}, ret_code = 0;
  for (int i = 0; i < 3; ++i) args[i].v_handle = &tensors[i];
  return kernel(args, codes, 3, &ret, &ret_code, NULL);
#else
  TVMFFIAny args[3], result;
  memset(args, 0, sizeof args);
  memset(&result, 0, sizeof result);
  for (int i = 0; i < 3; ++i) {
    args[i].type_index = kTVMFFIDLTensorPtr;
    args[i].v_ptr = &tensors[i];
  }
  return kernel(NULL, args, 3, &result);
#endif
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: call_kernel LIBRARY X0,X1,... Y0,Y1,...\n");
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void* symbol = dlsym(library, kName);
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  Kernel kernel;
  memcpy(&kernel, &symbol, sizeof kernel);
  float values[3][MAX] = {{0}};
  int64_t count = parse(argv[2], values[0]);
  if (parse(argv[3], values[1]) != count) {
    fprintf(stderr, "x and y differ in length\n");
    return 2;
  }
  DLTensor tensors[3];
  memset(tensors, 0, sizeof tensors);
  for (int i = 0; i < 3; ++i) {
    tensors[i].data = values[i];
    tensors[i].device.device_type = kDLCPU;
    tensors[i].ndim = 1;
    tensors[i].dtype.code = kDLFloat;
    tensors[i].dtype.bits = 32;
    tensors[i].dtype.lanes = 1;
    tensors[i].shape = &count;
  }
  if (call(kernel, tensors) != 0) {
    fprintf(stderr, "the kernel reported an error\n");
    return 1;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    memcpy(&bits, &values[2][i], sizeof bits);
    printf("%08lx%c", (unsigned long)bits, i + 1 == count ? '\n' : ' ');
  }
  return fflush(stdout) == 0 ? 0 : 1;
}
