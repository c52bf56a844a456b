// rtvm's command line.
#ifndef RTVM_OPTIONS_H_
#define RTVM_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rtvm {

struct Options {
  bool help = false;
  bool version = false;
  std::string model;
  std::string device = "cpu";
  std::string function = "main";
  bool dump_meta = false;
  bool dry_run = false;
  bool json = false;
  std::optional<std::string> input;  // a file, "random" or "zeros"
  uint64_t seed = 0;
  std::optional<std::string> output;
  std::optional<std::string> pre_compiled;
  std::optional<int> profile;  // runs to time
  int warmup = 3;
  std::map<std::string, int64_t> dims;  // values of symbolic sizes
};

// Reads `--flag value` and `--flag=value`; bad words end in a BadInput error.
Options ParseOptions(const std::vector<std::string>& words);
std::string Usage();

struct DeviceName {
  std::string kind;  // "opencl"
  int type;          // DLDeviceType
  int id;
};

// "cpu", "opencl:1", ...
DeviceName ParseDevice(const std::string& text);

}  // namespace rtvm

#endif  // RTVM_OPTIONS_H_
