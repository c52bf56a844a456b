#include "runtime.h"

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/string.h>
// Where v0.26 keeps what earlier versions have in any.h.
#if __has_include(<tvm/ffi/device.h>)
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/device.h>
#endif

#include <algorithm>
#include <cstring>

#include "error.h"

namespace rtvm {
namespace {

namespace ffi = tvm::ffi;

constexpr int kPooledAllocator = 2;  // tvm::runtime::memory::AllocatorType
// tvm::runtime::DeviceAttrKind
constexpr int kAttrExist = 0;
constexpr int kAttrDeviceName = 5;
constexpr int kAttrDriverVersion = 12;

// The first of these global functions that this TVM has; the names changed over the versions.
ffi::Function Global(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    auto function = ffi::Function::GetGlobal(name);
    if (function.has_value()) return *function;
  }
  RunFailed(std::string("this TVM runtime has no function ") + Quoted(*names.begin()));
}

// A module's function; an undefined one when the module has none of that name.
ffi::Function MethodOrNone(const ffi::Any& module, const std::string& name, bool in_imports) {
  const ffi::Any found =
      Global({"ffi.ModuleGetFunction", "runtime.ModuleGetFunction"})(module, ffi::String(name), in_imports);
  return found == nullptr ? ffi::Function(nullptr) : found.cast<ffi::Function>();
}

ffi::Function Method(const ffi::Any& module, const std::string& name) {
  ffi::Function function = MethodOrNone(module, name, false);
  if (function == nullptr) RunFailed("this TVM runtime's VM has no function " + Quoted(name));
  return function;
}

ffi::Any LoadLibrary(const std::string& path) {
  auto load = ffi::Function::GetGlobal("ffi.ModuleLoadFromFile");
  if (load.has_value()) return (*load)(ffi::String(path));
  return Global({"runtime.ModuleLoadFromFile"})(ffi::String(path), ffi::String("so"));
}

DLDevice Dl(const DeviceName& device) {
  return DLDevice{static_cast<DLDeviceType>(device.type), static_cast<int32_t>(device.id)};
}

DLDataType Dl(DType dtype) {
  // The runtime's own spelling decides how it stores bool, which differs between versions.
  return ffi::StringToDLDataType(Name(dtype));
}

std::optional<DType> FromDl(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  for (const std::string& name : DTypeNames()) {
    const DType dtype = *DTypeByName(name);
    const DLDataType known = Dl(dtype);
    if (type.code == known.code && type.bits == known.bits) return dtype;
  }
  const bool one_bit = type.code == kDLUInt && type.bits == 1;
  return one_bit ? std::optional<DType>(DType::kBool) : std::nullopt;
}

template <typename T>
T Scalar(const Array& array) {
  T value;
  std::memcpy(&value, array.data.data(), sizeof(value));
  return value;
}

template <typename T>
Array ScalarArray(DType dtype, T value) {
  Array array{dtype, {}, std::vector<uint8_t>(sizeof(value))};
  std::memcpy(array.data.data(), &value, sizeof(value));
  return array;
}

std::string Attribute(const DeviceName& device, int kind) {
  try {
    const ffi::Any value = Global({"runtime.GetDeviceAttr"})(device.type, device.id, kind);
    return OneLine(value.try_cast<ffi::String>().value_or(""), 200);
  } catch (const ffi::Error&) {
    return "";  // Most kinds of device don't know this attribute.
  }
}

}  // namespace

std::string Text(const ffi::Error& error) { return OneLine(error.kind() + ": " + error.message()); }

Runtime::Runtime(const std::string& library) : library_(library) {
  const std::string what = "model library " + library;
  try {
    executable_ = LoadLibrary(library);
  } catch (const ffi::Error& error) {
    std::string hint;
    if (error.message().find("cannot locate symbol") != std::string::npos) {
      hint = "; link model libraries with -ltvm_ffi, or set LD_PRELOAD=libtvm_ffi.so";
    }
    BadInput(what + ": can't be loaded: " + Text(error) + hint);
  }
  const ffi::Function load = MethodOrNone(executable_, "vm_load_executable", false);
  if (load == nullptr) {
    BadInput(what + ": not a relax VM executable: expected the function 'vm_load_executable', as relax's " +
             "compile and export_library give it, found none");
  }
  vm_ = load();
}

std::vector<std::string> Runtime::Functions() const {
  std::vector<std::string> names;
  const ffi::Function as_text = MethodOrNone(executable_, "as_text", false);
  if (as_text == nullptr) return names;
  const std::string text = as_text().cast<ffi::String>();
  // Lines that begin functions: "@main:", "@main num_inputs=1 vm_tir_func;" and, for what the model
  // only calls, "@add packed_func;".
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line[0] == '@' && line.find(" packed_func;") == std::string::npos) {
      names.push_back(line.substr(1, line.find_first_of(": ") - 1));
    }
    at = end + 1;
  }
  return names;
}

std::vector<std::string> Runtime::ParamNames(const std::string& function) const {
  std::vector<std::string> names;
  int64_t arity = 0;
  try {
    arity = Method(vm_, "get_function_arity")(ffi::String(function)).cast<int64_t>();
  } catch (const ffi::Error&) {
    const std::vector<std::string> known = Functions();
    BadInput("model library " + library_ + ": no function " + Quoted(OneLine(function, 80)) +
             DidYouMean(function, known) + ": expected one of " + Listed(known));
  }
  const ffi::Function name_of = Method(vm_, "get_function_param_name");
  for (int64_t i = 0; i < arity; ++i) names.push_back(name_of(ffi::String(function), i).cast<ffi::String>());
  return names;
}

void Runtime::OpenDevice(const DeviceName& device) {
  device_ = device;
  const std::string what = "--device " + device.kind + ":" + std::to_string(device.id);
  if (!ffi::Function::GetGlobal("device_api." + device.kind).has_value()) {
    BadInput(what + ": this TVM runtime is built without " + device.kind);
  }
  try {
    if (Global({"runtime.GetDeviceAttr"})(device.type, device.id, kAttrExist).cast<int64_t>() == 0) {
      BadInput(what + ": no such device here");
    }
    sync_ = Global({"runtime.Device_StreamSync"});
    // Some runtime functions ask for the thread's current device.
    auto set_device = ffi::Function::GetGlobal("__tvm_set_device");
    if (set_device.has_value()) (*set_device)(device.type, device.id);
  } catch (const ffi::Error& error) {
    BadInput(what + ": no such device here: " + Text(error));
  }
}

std::string Runtime::DeviceDescription() const {
  const std::string name = Attribute(device_, kAttrDeviceName);
  const std::string driver = Attribute(device_, kAttrDriverVersion);
  return driver.empty() ? name : name + ", " + driver;
}

void Runtime::StartVm() {
  std::vector<ffi::Any> arguments = {device_.type, device_.id, kPooledAllocator};
  const int cpu = kDLCPU;
  // Shapes and host-side values always live on the CPU.
  if (device_.type != cpu) arguments.insert(arguments.end(), {cpu, 0, kPooledAllocator});
  Call(Method(vm_, "vm_initialization"), arguments);
}

ffi::Any Runtime::UploadTensor(const Array& array) const {
  const ffi::Any tensor = Global({"runtime.TVMTensorAllocWithScope", "runtime.TVMArrayAllocWithScope"})(
      ffi::Shape(array.shape), Dl(array.dtype), Dl(device_), nullptr);
  void* data = const_cast<uint8_t*>(array.data.data());
  if (!array.data.empty()) {
    Global({"runtime.TVMTensorCopyFromBytes", "runtime.TVMArrayCopyFromBytes"})(
        tensor, data, static_cast<int64_t>(array.data.size()));
  }
  return tensor;
}

ffi::Any Runtime::UploadSpec(const Spec& spec, const NamedArrays& arrays) const {
  if (spec.kind == Spec::Kind::kTuple) {
    ffi::Array<ffi::Any> items;
    for (const Spec& item : spec.items) items.push_back(UploadSpec(item, arrays));
    return items;
  }
  const Array* array = Find(arrays, spec.key);
  if (array == nullptr) throw std::logic_error("no array for input " + spec.key);
  switch (spec.kind) {
    case Spec::Kind::kInt:
      return Scalar<int64_t>(*array);
    case Spec::Kind::kFloat:
      return Scalar<double>(*array);
    case Spec::Kind::kShape: {
      std::vector<int64_t> sizes(array->data.size() / sizeof(int64_t));
      if (!sizes.empty()) std::memcpy(sizes.data(), array->data.data(), array->data.size());
      return ffi::Shape(sizes);
    }
    default:
      return UploadTensor(*array);
  }
}

std::vector<ffi::Any> Runtime::Upload(const std::vector<Spec>& specs, const NamedArrays& arrays) const {
  std::vector<ffi::Any> values;
  for (const Spec& spec : specs) values.push_back(UploadSpec(spec, arrays));
  Sync();
  return values;
}

ffi::Function Runtime::Function(const std::string& name) const { return Method(vm_, name); }

ffi::Any Runtime::Call(const ffi::Function& function, const std::vector<ffi::Any>& inputs) {
  const std::vector<ffi::AnyView> views(inputs.begin(), inputs.end());
  ffi::Any result;
  function.CallPacked(views.data(), static_cast<int32_t>(views.size()), &result);
  return result;
}

void Runtime::Sync() const { sync_(Dl(device_), int64_t{0}); }

void Runtime::DownloadValue(const ffi::Any& value, const std::string& key, NamedArrays* arrays) const {
  if (const auto tensor = value.try_cast<DLTensor*>()) {
    const DLTensor& source = **tensor;
    const std::optional<DType> dtype = FromDl(source.dtype);
    if (!dtype) {
      RunFailed("output " + Quoted(key) + ": type " + ffi::DLDataTypeToString(source.dtype) +
                " can't be stored in an .npz file");
    }
    Array array = ZeroArray(*dtype, Shape(source.shape, source.shape + source.ndim));
    if (!array.data.empty()) {
      void* data = array.data.data();
      Global({"runtime.TVMTensorCopyToBytes", "runtime.TVMArrayCopyToBytes"})(
          value, data, static_cast<int64_t>(array.data.size()));
    }
    arrays->emplace_back(key, *dtype == DType::kBfloat16 ? Bfloat16ToFloat32(array) : std::move(array));
  } else if (const auto items = value.as<ffi::Array<ffi::Any>>()) {
    size_t index = 0;
    for (const ffi::Any& item : *items) DownloadValue(item, key + "." + std::to_string(index++), arrays);
  } else if (const auto shape = value.as<ffi::Shape>()) {
    Array array = ZeroArray(DType::kInt64, {static_cast<int64_t>(shape->size())});
    if (!array.data.empty()) std::memcpy(array.data.data(), shape->data(), array.data.size());
    arrays->emplace_back(key, std::move(array));
  } else if (const auto flag = value.as<bool>()) {
    arrays->emplace_back(key, ScalarArray(DType::kBool, static_cast<uint8_t>(*flag ? 1 : 0)));
  } else if (const auto integer = value.as<int64_t>()) {
    arrays->emplace_back(key, ScalarArray(DType::kInt64, *integer));
  } else if (const auto real = value.as<double>()) {
    arrays->emplace_back(key, ScalarArray(DType::kFloat64, *real));
  } else {
    RunFailed("output " + Quoted(key) + ": expected tensors, tuples, shapes or numbers, found " +
              (value == nullptr ? std::string("nothing") : std::string(value.GetTypeKey())));
  }
}

NamedArrays Runtime::Download(const ffi::Any& result) const {
  NamedArrays arrays;
  DownloadValue(result, "output", &arrays);
  return arrays;
}

bool Runtime::HasProgramCache() const {
  return MethodOrNone(executable_, "opencl.GetPreCompiledPrograms", true) != nullptr &&
         MethodOrNone(executable_, "opencl.SetPreCompiledPrograms", true) != nullptr;
}

std::vector<uint8_t> Runtime::Programs() const {
  const ffi::Any value = MethodOrNone(executable_, "opencl.GetPreCompiledPrograms", true)();
  const std::string bytes = value.cast<std::string>();
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

void Runtime::SetPrograms(const std::vector<uint8_t>& programs) const {
  const std::string bytes(programs.begin(), programs.end());
  MethodOrNone(executable_, "opencl.SetPreCompiledPrograms", true)(ffi::String(bytes));
}

}  // namespace rtvm
