// Lists what the TVM runtime offers, and loads a compiled library when one is named.
//
//   tvm_app [LIBRARY FUNCTION]     FUNCTION takes no arguments
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <iostream>

int main(int argc, char** argv) {
  using tvm::ffi::Function;
  try {
    const auto numbers = Function::GetGlobalRequired("ffi.Array")(1, 2, 3).cast<tvm::ffi::Array<int64_t>>();
    int64_t sum = 0;
    for (int64_t number : numbers) sum += number;
    std::cout << "sum " << sum << "\n";
    for (const char* name : {"runtime.GetDeviceAttr", "device_api.opencl"}) {
      std::cout << name << " " << (Function::GetGlobal(name).has_value() ? "yes" : "no") << "\n";
    }
    if (argc == 3) {
      const auto module = tvm::ffi::Module::LoadFromFile(argv[1]);
      (*module->GetFunction(argv[2]))();
      std::cout << "called " << argv[2] << "\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
