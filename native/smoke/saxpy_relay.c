/* The saxpy kernel in the calling convention of relay-era TVM trees (v0.20 and earlier).
 * Built against the tree's own headers. */

#include <tvm/runtime/c_runtime_api.h>

#include "saxpy.h"

TVM_DLL int buildtool_saxpy(TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_code,
                            void* resource);

TVM_DLL int buildtool_saxpy(TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_code,
                            void* resource) {
  (void)ret;
  (void)ret_code;
  (void)resource;
  if (num_args != 3) {
    TVMAPISetLastError("buildtool_saxpy takes x, y, out");
    return -1;
  }
  DLTensor* tensors[3];
  for (int i = 0; i < 3; ++i) {
    /* An NDArray's handle points to its DLTensor too. */
    int is_tensor = type_codes[i] == kTVMDLTensorHandle || type_codes[i] == kTVMNDArrayHandle;
    tensors[i] = is_tensor ? (DLTensor*)args[i].v_handle : NULL;
  }
  const char* wrong = saxpy_check(tensors);
  if (wrong != NULL) {
    TVMAPISetLastError(wrong);
    return -1;
  }
  saxpy(tensors);
  return 0;
}
