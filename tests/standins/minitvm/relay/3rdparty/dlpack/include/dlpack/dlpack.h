/* The names of the tensor layout that kernels use; our own text. */
#pragma once
#include <stdint.h>

enum { kDLCPU = 1, kDLInt = 0, kDLUInt = 1, kDLFloat = 2 };

typedef struct {
  int32_t device_type, device_id;
} DLDevice;

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
