// The few declarations that the miniature's files share.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef TVM_KALLOC_ALIGNMENT
#define TVM_KALLOC_ALIGNMENT 64
#endif

#define MINITVM_API extern "C" __attribute__((visibility("default")))

MINITVM_API void* TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t bytes, int code, int bits);
MINITVM_API int TVMBackendFreeWorkspace(int device_type, int device_id, void* pointer);
MINITVM_API int TVMBackendParallelLaunch(int (*task)(int, void*), void* data, int tasks);
MINITVM_API int MiniTVMKallocAlignment();
MINITVM_API int MiniTVMRPCServerRun(const char* host, int port, int port_end, const char* tracker, const char* key);
