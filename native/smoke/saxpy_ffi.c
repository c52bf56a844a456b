/* The saxpy kernel in the calling convention of TVM trees with tvm-ffi (v0.21 and later).
 * Built against the tree's own headers; SMOKE_TENSOR names its tensor type index. */

#include <uchar.h> /* char32_t, which the v0.21 header uses without naming it */

#include <tvm/ffi/c_api.h>

#include "saxpy.h"

#ifndef SMOKE_TENSOR
#define SMOKE_TENSOR kTVMFFITensor
#endif

int32_t __tvm_ffi_buildtool_saxpy(void* handle, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);

static DLTensor* as_tensor(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIDLTensorPtr) return (DLTensor*)value->v_ptr;
  /* A tensor object holds its DLTensor behind the object header. */
  if (value->type_index == SMOKE_TENSOR) return (DLTensor*)(void*)((char*)value->v_obj + sizeof(TVMFFIObject));
  return NULL;
}

TVM_FFI_DLL_EXPORT int32_t __tvm_ffi_buildtool_saxpy(void* handle, const TVMFFIAny* args,
                                                     int32_t num_args, TVMFFIAny* result) {
  (void)handle;
  if (num_args != 3) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "buildtool_saxpy takes x, y, out");
    return -1;
  }
  DLTensor* tensors[3] = {as_tensor(&args[0]), as_tensor(&args[1]), as_tensor(&args[2])};
  const char* wrong = saxpy_check(tensors);
  if (wrong != NULL) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", wrong);
    return -1;
  }
  saxpy(tensors);
  result->type_index = kTVMFFINone;
  result->v_int64 = 0;
  return 0;
}
