// What rtvm prints: text for people, JSON for programs.
#ifndef RTVM_REPORT_H_
#define RTVM_REPORT_H_

#include <string>
#include <vector>

#include "array.h"
#include "model.h"

namespace rtvm {

// Milliseconds of each timed run, and what follows from them.
struct Timing {
  std::vector<double> runs_ms;
  int warmup = 0;
};

struct Statistics {
  double min, median, p95, mean, max;
};
// p95 is the smallest time that at least 95 % of the runs do not exceed. `runs_ms` must not be empty.
Statistics Summary(std::vector<double> runs_ms);

struct Report {
  std::string model;
  std::string function;
  std::string device;  // "opencl:0"
  std::string device_description;
  bool dry_run = false;
  NamedArrays inputs;
  NamedArrays outputs;
  std::string output_file;
  std::string cache_file;
  std::string cache_state;  // "created", "reused" or "replaced"; empty without --pre-compiled
  double load_ms = 0;
  double init_ms = 0;
  double programs_ms = 0;
  double first_run_ms = 0;
  Timing timing;
};

std::string AsText(const Report& report);
std::string AsJson(const Report& report);

// --dump-meta.
struct Meta {
  std::string model;
  bool described = false;
  std::vector<std::string> functions;
  std::vector<Signature> signatures;  // of the functions, in order
  NamedArrays params;
};

std::string AsText(const Meta& meta);
std::string AsJson(const Meta& meta);

}  // namespace rtvm

#endif  // RTVM_REPORT_H_
