#include "options.h"

#include <charconv>
#include <functional>
#include <limits>
#include <set>

#include "error.h"

namespace rtvm {
namespace {

constexpr int kDefaultRuns = 20;
constexpr int kMaxRuns = 1000000;

int64_t Integer(const std::string& flag, const std::string& value, int64_t low, int64_t high) {
  int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (value.empty() || error != std::errc() || stop != end || number < low || number > high) {
    BadInput(flag + ": expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
             ", found " + Quoted(OneLine(value, 80)));
  }
  return number;
}

enum class Takes { kNothing, kValue, kMaybeNumber };

struct Flag {
  const char* name;
  Takes takes;
  std::function<void(Options*, const std::string&)> set;
};

void SetDim(Options* options, const std::string& value) {
  const size_t equal = value.find('=');
  if (equal == std::string::npos || equal == 0) {
    BadInput("--dim: expected NAME=SIZE, found " + Quoted(OneLine(value, 80)));
  }
  const std::string name = value.substr(0, equal);
  const int64_t size =
      Integer("--dim " + name, value.substr(equal + 1), 0, std::numeric_limits<int32_t>::max());
  if (!options->dims.emplace(name, size).second) BadInput("--dim " + name + ": given twice");
}

const std::vector<Flag>& Flags() {
  static const std::vector<Flag> flags = {
      {"--model", Takes::kValue, [](Options* o, const std::string& v) { o->model = v; }},
      {"--device", Takes::kValue, [](Options* o, const std::string& v) { o->device = v; }},
      {"--function", Takes::kValue, [](Options* o, const std::string& v) { o->function = v; }},
      {"--dump-meta", Takes::kNothing, [](Options* o, const std::string&) { o->dump_meta = true; }},
      {"--input", Takes::kValue, [](Options* o, const std::string& v) { o->input = v; }},
      {"--seed", Takes::kValue,
       [](Options* o, const std::string& v) {
         o->seed = static_cast<uint64_t>(Integer("--seed", v, 0, std::numeric_limits<int64_t>::max()));
       }},
      {"--dim", Takes::kValue, SetDim},
      {"--output", Takes::kValue, [](Options* o, const std::string& v) { o->output = v; }},
      {"--profile", Takes::kMaybeNumber,
       [](Options* o, const std::string& v) {
         o->profile = v.empty() ? kDefaultRuns : static_cast<int>(Integer("--profile", v, 1, kMaxRuns));
       }},
      {"--warmup", Takes::kValue,
       [](Options* o, const std::string& v) {
         o->warmup = static_cast<int>(Integer("--warmup", v, 0, kMaxRuns));
       }},
      {"--pre-compiled", Takes::kValue, [](Options* o, const std::string& v) { o->pre_compiled = v; }},
      {"--dry-run", Takes::kNothing, [](Options* o, const std::string&) { o->dry_run = true; }},
      {"--json", Takes::kNothing, [](Options* o, const std::string&) { o->json = true; }},
      {"--help", Takes::kNothing, [](Options* o, const std::string&) { o->help = true; }},
      {"--version", Takes::kNothing, [](Options* o, const std::string&) { o->version = true; }},
  };
  return flags;
}

const Flag& FindFlag(const std::string& name) {
  std::vector<std::string> names;
  for (const Flag& flag : Flags()) {
    if (name == flag.name) return flag;
    names.emplace_back(flag.name);
  }
  BadInput("unknown flag " + Quoted(OneLine(name, 80)) + DidYouMean(name, names) + "; see rtvm --help");
}

bool IsNumber(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

void CheckTogether(const Options& options, const std::set<std::string>& given) {
  if (options.help || options.version) return;
  if (options.model.empty())
    BadInput("--model is missing: expected a model folder or .so file; see rtvm --help");
  if (given.count("--warmup") != 0 && !options.profile) BadInput("--warmup has no effect without --profile");
  if (given.count("--seed") != 0 && options.input != "random") {
    BadInput("--seed has no effect without --input=random");
  }
}

}  // namespace

Options ParseOptions(const std::vector<std::string>& words) {
  Options options;
  std::set<std::string> given;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 3 || word.compare(0, 2, "--") != 0) {
      BadInput("unexpected word " + Quoted(OneLine(word, 80)) + ": expected a flag; see rtvm --help");
    }
    const size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    const Flag& flag = FindFlag(name);
    const bool attached = equal != std::string::npos;
    std::string value = attached ? word.substr(equal + 1) : "";
    if (flag.takes == Takes::kNothing && attached)
      BadInput(name + " takes no value, found " + Quoted(OneLine(value, 80)));
    if (flag.takes == Takes::kValue && !attached) {
      if (i + 1 == words.size() || words[i + 1].compare(0, 2, "--") == 0)
        BadInput(name + ": its value is missing");
      value = words[++i];
    }
    if (flag.takes == Takes::kMaybeNumber && !attached && i + 1 < words.size() && IsNumber(words[i + 1])) {
      value = words[++i];
    }
    if (value.empty() && (attached || flag.takes == Takes::kValue)) BadInput(name + ": its value is empty");
    if (!given.insert(name).second && name != "--dim") BadInput(name + ": given twice");
    flag.set(&options, value);
  }
  CheckTogether(options, given);
  return options;
}

std::string Usage() {
  return R"(Run a model that TVM compiled to a relax VM executable.

  rtvm --model=DIR_OR_SO [--device=cpu] [--input=in.npz] [--output=out.npz] ...

  --model=PATH         model folder (mod.so, optional model.json and params.npz) or .so file
  --device=KIND[:N]    cpu, opencl, vulkan, cuda, metal, rocm or hexagon; default cpu
  --function=NAME      function of the model; default main
  --input=SOURCE       an .npz file, random or zeros
  --seed=N             seed of --input=random; default 0
  --dim=NAME=SIZE      value of a symbolic size for random and zeros (repeatable)
  --output=FILE        write the outputs as .npz
  --profile[=N]        time N runs (default 20) after the warm-up: min, median, p95
  --warmup=N           runs before the timed ones; default 3
  --pre-compiled=FILE  OpenCL program cache: written when absent or stale, else reused
  --dump-meta          print functions, inputs and outputs; nothing runs
  --dry-run            load the model and check the inputs; nothing runs
  --json               print the result as JSON
  --help, --version

Flags are written --flag=value or --flag value.
Exit code: 0 done, 1 the run failed, 2 bad flags, files or device.

Example: rtvm --model=resnet --device=opencl --input=random --profile=50
)";
}

DeviceName ParseDevice(const std::string& text) {
  // Numbers of DLDeviceType.
  static const std::vector<std::pair<std::string, int>> kinds = {
      {"cpu", 1}, {"cuda", 2}, {"opencl", 4}, {"vulkan", 7}, {"metal", 8}, {"rocm", 10}, {"hexagon", 16},
  };
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  std::vector<std::string> names;
  for (const auto& [name, type] : kinds) {
    names.push_back(name);
    if (name != kind) continue;
    const int id = colon == std::string::npos
                       ? 0
                       : static_cast<int>(Integer("--device " + kind, text.substr(colon + 1), 0, 1023));
    return DeviceName{name, type, id};
  }
  BadInput("--device: unknown device " + Quoted(OneLine(text, 80)) + DidYouMean(kind, names) +
           "; expected one of " + Listed(names));
}

}  // namespace rtvm
