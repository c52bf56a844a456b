#pragma once

#define MINITVM_FFI_API extern "C" __attribute__((visibility("default")))

MINITVM_FFI_API int TVMFFIFunctionGetGlobal(const char* name, void** out);
MINITVM_FFI_API int TVMFFIFunctionCall(void* function, void* args, int count, void* result);
MINITVM_FFI_API void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int count);
