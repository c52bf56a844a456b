// The TVM side: a loaded model library, its relax VM, tensors on a device.
//
// Only the tvm-ffi headers are used, and the runtime's own functions are looked up by name, so
// that one source serves the trees from v0.21 on.
#ifndef RTVM_RUNTIME_H_
#define RTVM_RUNTIME_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/function.h>

#include <optional>
#include <string>
#include <vector>

#include "array.h"
#include "model.h"
#include "options.h"

namespace rtvm {

class Runtime {
 public:
  // Loads the model library and its VM; no device is touched.
  explicit Runtime(const std::string& library);

  // Names of the model's VM functions, as far as the library tells them.
  std::vector<std::string> Functions() const;
  // Parameter names of a VM function; fails when there is no such function.
  std::vector<std::string> ParamNames(const std::string& function) const;

  // Fails when the runtime is built without the device's kind, or the device is not there.
  void OpenDevice(const DeviceName& device);
  // "name, driver version" of the opened device, as far as it tells them.
  std::string DeviceDescription() const;
  // Makes the VM ready on the opened device; constants are copied there.
  void StartVm();

  // One value per spec, on the device, from the arrays of their leaves.
  std::vector<tvm::ffi::Any> Upload(const std::vector<Spec>& specs, const NamedArrays& arrays) const;
  // A VM function, looked up once for many calls.
  tvm::ffi::Function Function(const std::string& name) const;
  static tvm::ffi::Any Call(const tvm::ffi::Function& function, const std::vector<tvm::ffi::Any>& inputs);
  // Waits until the device has done all that it was given.
  void Sync() const;
  // The arrays in a function's result, in order, tuples flattened; keys are "output" or
  // "output.0", "output.1.0", ... bfloat16 comes as float32.
  NamedArrays Download(const tvm::ffi::Any& result) const;

  // The OpenCL program cache of the model, by the runtime's own functions.
  bool HasProgramCache() const;
  std::vector<uint8_t> Programs() const;
  void SetPrograms(const std::vector<uint8_t>& programs) const;

 private:
  tvm::ffi::Any UploadSpec(const Spec& spec, const NamedArrays& arrays) const;
  tvm::ffi::Any UploadTensor(const Array& array) const;
  void DownloadValue(const tvm::ffi::Any& value, const std::string& key, NamedArrays* arrays) const;

  std::string library_;
  tvm::ffi::Any executable_;
  tvm::ffi::Any vm_;
  tvm::ffi::Function sync_{nullptr};
  DeviceName device_{"cpu", 1, 0};
};

// "ValueError: the first words of the message" on one line.
std::string Text(const tvm::ffi::Error& error);

}  // namespace rtvm

#endif  // RTVM_RUNTIME_H_
