// Like the real runtime: the OpenCL library is opened at first use, not linked.
#include <dlfcn.h>
#include <tvm/runtime/base.h>

MINITVM_API int MiniTVMOpenCLExists() {
#ifdef USE_OPENCL_EXTN_QCOM
  const char* name = "libOpenCL_adreno.so";
#else
  const char* name = "libOpenCL.so";
#endif
  void* handle = dlopen(name, RTLD_LAZY);
  if (handle == nullptr) return 0;
  dlclose(handle);
  return 1;
}
