/* What both generations' kernels share: out = 2.5 x + y over float32 vectors. */

#ifndef BUILDTOOL_SMOKE_SAXPY_H_
#define BUILDTOOL_SMOKE_SAXPY_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when the three tensors are CPU float32 vectors of one length, else what is wrong. */
static const char* saxpy_check(DLTensor* const* tensors) {
  for (int i = 0; i < 3; ++i) {
    const DLTensor* t = tensors[i];
    if (t == NULL) return "argument is no tensor";
    if (t->device.device_type != kDLCPU) return "tensor is not on the CPU";
    if (t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->dtype.lanes != 1) {
      return "tensor is not float32";
    }
    if (t->ndim != 1 || t->shape[0] != tensors[0]->shape[0]) return "tensors differ in shape";
    if (t->strides != NULL && t->strides[0] != 1 && t->shape[0] > 1) return "tensor is not compact";
  }
  return NULL;
}

static const float* saxpy_data(const DLTensor* tensor) {
  return (const float*)(const void*)((const char*)tensor->data + tensor->byte_offset);
}

/* Built with -ffp-contract=off: two roundings, as numpy's. */
static void saxpy(DLTensor* const* tensors) {
  const float* x = saxpy_data(tensors[0]);
  const float* y = saxpy_data(tensors[1]);
  float* out = (float*)(void*)((char*)tensors[2]->data + tensors[2]->byte_offset);
  for (int64_t i = 0; i < tensors[0]->shape[0]; ++i) {
    out[i] = 2.5f * x[i] + y[i];
  }
}

#endif /* BUILDTOOL_SMOKE_SAXPY_H_ */
