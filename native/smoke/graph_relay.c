/* The two kernels of the hand-made graph model that `buildtool verify` runs with a relay-era rtvm
 * (mod.so; the graph and its parameters are written by buildtool/verify/rtvm_checks.py):
 * float32 arrays of any shape, a + b and a * b.
 *
 * Calls nothing of TVM, so it is linked to no library and also fits a static runtime. */

#include <stddef.h>
#include <tvm/runtime/c_runtime_api.h>

typedef int kernel(TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_code, void* resource);
TVM_DLL kernel buildtool_graph_add, buildtool_graph_multiply;

static float* data_of(const DLTensor* tensor) {
  return (float*)(void*)((char*)tensor->data + tensor->byte_offset);
}

/* -1, which the executor reports, for arguments that are not three float32 arrays of one size. */
static int apply(int multiply, const TVMValue* args, const int* type_codes, int num_args) {
  const DLTensor* tensors[3];
  int64_t size = 0;
  if (num_args != 3) return -1;
  for (int i = 0; i < 3; ++i) {
    /* An NDArray's handle points to its DLTensor too. */
    if (type_codes[i] != kTVMDLTensorHandle && type_codes[i] != kTVMNDArrayHandle) return -1;
    tensors[i] = (const DLTensor*)args[i].v_handle;
    if (tensors[i]->device.device_type != kDLCPU) return -1;
    if (tensors[i]->dtype.code != kDLFloat || tensors[i]->dtype.bits != 32) return -1;
    int64_t elements = 1;
    for (int axis = 0; axis < tensors[i]->ndim; ++axis) elements *= tensors[i]->shape[axis];
    if (i > 0 && elements != size) return -1;
    size = elements;
  }
  const float *a = data_of(tensors[0]), *b = data_of(tensors[1]);
  float* out = data_of(tensors[2]);
  for (int64_t i = 0; i < size; ++i) out[i] = multiply ? a[i] * b[i] : a[i] + b[i];
  return 0;
}

int buildtool_graph_add(TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_code,
                        void* resource) {
  (void)ret, (void)ret_code, (void)resource;
  return apply(0, args, type_codes, num_args);
}

int buildtool_graph_multiply(TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_code,
                             void* resource) {
  (void)ret, (void)ret_code, (void)resource;
  return apply(1, args, type_codes, num_args);
}
