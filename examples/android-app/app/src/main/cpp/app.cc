// The Java side calls this to learn whether the phone's OpenCL is open to the app.
#include <jni.h>
#include <tvm/ffi/function.h>

extern "C" JNIEXPORT jboolean JNICALL Java_org_example_tvmapp_Runtime_hasOpenCL(JNIEnv*, jclass) {
  return tvm::ffi::Function::GetGlobal("device_api.opencl").has_value() ? JNI_TRUE : JNI_FALSE;
}
