// rtvm: runs a relax VM executable on this machine, without Python.

#include <tvm/ffi/error.h>

#ifdef __ANDROID__
#include <dlfcn.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#endif

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>

#include "error.h"
#include "files.h"
#include "inputs.h"
#include "model.h"
#include "npz.h"
#include "options.h"
#include "program_cache.h"
#include "report.h"
#include "runtime.h"

#ifndef RTVM_VERSION
#define RTVM_VERSION "unknown"
#endif

namespace rtvm {
namespace {

namespace ffi = tvm::ffi;

class Stopwatch {
 public:
  double Milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A described function's inputs stand in the order of the VM function's parameters.
Signature SignatureOf(const Model& model, const Runtime& runtime, const std::string& function) {
  const std::vector<std::string> names = runtime.ParamNames(function);
  const auto described = model.functions.find(function);
  if (described == model.functions.end()) return UndescribedSignature(names);
  const size_t count = described->second.inputs.size();
  if (count != names.size()) {
    BadInput("model.json beside " + model.library + ", functions." + function + ".inputs: expected " +
             std::to_string(names.size()) + " (" + Listed(names) + " in the library), found " +
             std::to_string(count));
  }
  return described->second;
}

Meta Describe(const Model& model, const Runtime& runtime, const Options& options) {
  Meta meta;
  meta.model = options.model;
  meta.described = model.described;
  meta.params = model.params;
  meta.functions = runtime.Functions();
  if (meta.functions.empty()) meta.functions.push_back(options.function);
  for (const std::string& name : meta.functions) meta.signatures.push_back(SignatureOf(model, runtime, name));
  return meta;
}

// Gives the results the names of model.json and checks them against it.
void NameOutputs(const Signature& signature, Symbols* symbols, NamedArrays* outputs) {
  if (!signature.outputs_known) return;
  const std::vector<const Spec*> leaves = Leaves(signature.outputs);
  if (leaves.size() != outputs->size()) {
    RunFailed("outputs: expected " + std::to_string(leaves.size()) + " as in model.json, found " +
              std::to_string(outputs->size()));
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto& [name, array] = (*outputs)[i];
    const std::string mismatch = Mismatch(*leaves[i], array, symbols);
    if (!mismatch.empty()) RunFailed("output " + Quoted(leaves[i]->key) + ": " + mismatch);
    name = leaves[i]->key;
  }
}

class ProgramCache {
 public:
  ProgramCache(const Model& model, const Runtime& runtime, const Options& options)
      : runtime_(runtime), path_(*options.pre_compiled) {
    if (ParseDevice(options.device).kind != "opencl" || !runtime.HasProgramCache()) {
      BadInput("--pre-compiled: expected --device=opencl and a model with OpenCL programs (functions " +
               Listed({"opencl.GetPreCompiledPrograms", "opencl.SetPreCompiledPrograms"}) + "), found none");
    }
    if (!Exists(path_)) CheckWritable(path_, "program cache");
    const std::vector<uint8_t> library = ReadFile(model.library, "model library");
    key_ = runtime.DeviceDescription() + "\n" + std::to_string(library.size()) + " bytes, crc " +
           std::to_string(Crc32(library.data(), library.size()));
  }

  // Hands cached programs to the runtime, if there are any for this model, device and driver.
  void Load(Report* report) {
    report->cache_file = path_;
    report->cache_state = Exists(path_) ? "replaced" : "created";
    if (!Exists(path_)) return;
    const std::optional<std::vector<uint8_t>> programs = ReadProgramCache(path_, key_);
    if (!programs) return;
    const Stopwatch watch;
    try {
      runtime_.SetPrograms(*programs);
    } catch (const ffi::Error& error) {
      RunFailed("program cache " + path_ + ": the device refuses it (delete it): " + Text(error));
    }
    report->programs_ms = watch.Milliseconds();
    report->cache_state = "reused";
  }

  void Save(Report* report) const {
    if (report->cache_state == "reused") return;
    const Stopwatch watch;
    WriteProgramCache(path_, key_, runtime_.Programs());
    report->programs_ms = watch.Milliseconds();
  }

 private:
  const Runtime& runtime_;
  std::string path_;
  std::string key_;
};

void Profile(const Runtime& runtime, const Options& options, const ffi::Function& function,
             const std::vector<ffi::Any>& inputs, Report* report) {
  const int runs = options.profile.value_or(0);
  if (runs == 0) return;
  report->timing.warmup = options.warmup;
  for (int i = -options.warmup; i < runs; ++i) {
    const Stopwatch watch;
    const ffi::Any result = Runtime::Call(function, inputs);
    runtime.Sync();
    const double elapsed = watch.Milliseconds();
    if (i >= 0) report->timing.runs_ms.push_back(elapsed);
  }
}

Report Run(const Model& model, Runtime* runtime, const Options& options, double load_ms) {
  const DeviceName device = ParseDevice(options.device);
  const Signature signature = SignatureOf(model, *runtime, options.function);
  Symbols symbols(options.dims);
  const NamedArrays inputs = GatherInputs(model, signature, options, &symbols);
  if (options.output) CheckWritable(*options.output, "output file");

  Report report;
  report.model = options.model;
  report.function = options.function;
  report.device = device.kind + ":" + std::to_string(device.id);
  report.dry_run = options.dry_run;
  report.load_ms = load_ms;
  for (const auto& [name, array] : inputs) {
    if (Find(model.params, name) == nullptr)
      report.inputs.emplace_back(name, Array{array.dtype, array.shape, {}});
  }

  const Stopwatch start;
  runtime->OpenDevice(device);
  report.device_description = runtime->DeviceDescription();
  runtime->StartVm();
  const std::vector<ffi::Any> values = runtime->Upload(signature.inputs, inputs);
  report.init_ms = start.Milliseconds();
  std::optional<ProgramCache> cache;
  if (options.pre_compiled) cache.emplace(model, *runtime, options);
  if (options.dry_run) return report;

  const ffi::Function function = runtime->Function(options.function);
  if (cache) cache->Load(&report);
  const Stopwatch first;
  ffi::Any result = Runtime::Call(function, values);
  runtime->Sync();
  report.first_run_ms = first.Milliseconds();
  if (cache) cache->Save(&report);
  report.outputs = runtime->Download(result);
  result = nullptr;
  NameOutputs(signature, &symbols, &report.outputs);
  Profile(*runtime, options, function, values, &report);
  if (options.output) {
    WriteNpz(*options.output, report.outputs, "output file");
    report.output_file = *options.output;
  }
  return report;
}

void Print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    RunFailed("standard output can't be written");
  }
}

#ifdef __ANDROID__
// Android's linker resolves a later opened library from its own needed libraries, the program and
// what is preloaded, but not from the program's needed libraries; and TVM links model libraries
// without naming TVM's. So the program starts itself again with that library preloaded.
void PreloadFfi(char** argv) {
  Dl_info info;
  if (::dladdr(reinterpret_cast<void*>(&TVMFFIFunctionGetGlobal), &info) == 0) return;
  const std::string library = AbsolutePath(info.dli_fname);
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, library.c_str()) != nullptr) return;
  const std::string list = (preloaded == nullptr ? "" : preloaded + std::string(":")) + library;
  ::setenv("LD_PRELOAD", list.c_str(), 1);
  ::execv("/proc/self/exe", argv);
  // Where that can't be done, libraries linked with -ltvm_ffi still load.
}
#endif

void Main(const std::vector<std::string>& words) {
  const Options options = ParseOptions(words);
  if (options.help) return Print(Usage());
  if (options.version) return Print(std::string("rtvm ") + RTVM_VERSION + "\n");
  ParseDevice(options.device);  // a slip in the flags shows before the model loads
  const Model model = OpenModel(options.model);
  const Stopwatch watch;
  Runtime runtime(model.library);
  const double load_ms = watch.Milliseconds();
  if (options.dump_meta) {
    const Meta meta = Describe(model, runtime, options);
    return Print(options.json ? AsJson(meta) : AsText(meta));
  }
  const Report report = Run(model, &runtime, options, load_ms);
  Print(options.json ? AsJson(report) : AsText(report));
}

}  // namespace
}  // namespace rtvm

int main(int argc, char** argv) {
  int code = rtvm::kRunFailed;
  std::string message;
#ifdef __ANDROID__
  rtvm::PreloadFfi(argv);
#endif
  try {
    rtvm::Main(std::vector<std::string>(argv + 1, argv + argc));
    return rtvm::kOk;
  } catch (const rtvm::Error& error) {
    code = error.code();
    message = error.what();
  } catch (const tvm::ffi::Error& error) {
    message = "the run failed: " + rtvm::Text(error);
  } catch (const std::bad_alloc&) {
    message = "out of memory";
  } catch (const std::exception& error) {
    message = rtvm::OneLine(error.what());
  }
  std::fprintf(stderr, "rtvm: error: %s\n", message.c_str());
  return code;
}
