#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "error.h"
#include "json.h"

namespace rtvm {
namespace {

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3f", value);
  return text;
}

std::string Padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string Line(const std::string& label, const std::string& text) {
  return Padded(label, 11) + text + "\n";
}

std::string ArrayLines(const std::string& label, const NamedArrays& arrays) {
  std::string lines;
  for (const auto& [name, array] : arrays) {
    lines += Line(label, OneLine(name, 200) + "  " + Text(array.dtype, array.shape));
  }
  return lines;
}

std::string JsonShape(const Shape& shape) { return Text(shape); }

std::string JsonArrays(const NamedArrays& arrays) {
  std::string list;
  for (const auto& [name, array] : arrays) {
    list += (list.empty() ? "" : ", ") + std::string("{\"name\": ") + JsonQuoted(name) + ", \"dtype\": \"" +
            Name(array.dtype) + "\", \"shape\": " + JsonShape(array.shape) + "}";
  }
  return "[" + list + "]";
}

std::string JsonSpecs(const std::vector<Spec>& specs, bool with_names);

std::string JsonSpec(const Spec& spec, bool with_name) {
  std::string text = with_name ? "\"name\": " + JsonQuoted(spec.key) + ", " : "";
  if (!spec.known) return "{" + text + "\"kind\": \"unknown\"}";
  static const char* const kKinds[] = {"tensor", "tuple", "shape", "int", "float"};
  text += std::string("\"kind\": \"") + kKinds[static_cast<int>(spec.kind)] + "\"";
  if (spec.kind == Spec::Kind::kTuple)
    return "{" + text + ", \"items\": " + JsonSpecs(spec.items, false) + "}";
  if (spec.kind == Spec::Kind::kTensor) text += std::string(", \"dtype\": \"") + Name(spec.dtype) + "\"";
  if (spec.kind == Spec::Kind::kTensor || spec.kind == Spec::Kind::kShape) {
    std::string sizes;
    for (const Dim& dim : spec.shape) {
      sizes += (sizes.empty() ? "" : ", ") +
               (dim.symbol.empty() ? std::to_string(dim.size) : JsonQuoted(dim.symbol));
    }
    text += ", \"shape\": [" + sizes + "]";
  }
  return "{" + text + "}";
}

std::string JsonSpecs(const std::vector<Spec>& specs, bool with_names) {
  std::string list;
  for (const Spec& spec : specs) list += (list.empty() ? "" : ", ") + JsonSpec(spec, with_names);
  return "[" + list + "]";
}

std::string JsonTiming(const Timing& timing) {
  const Statistics all = Summary(timing.runs_ms);
  std::string runs;
  for (const double run : timing.runs_ms) runs += (runs.empty() ? "" : ", ") + Number(run);
  return "{\"runs\": " + std::to_string(timing.runs_ms.size()) +
         ", \"warmup\": " + std::to_string(timing.warmup) + ", \"min_ms\": " + Number(all.min) +
         ", \"median_ms\": " + Number(all.median) + ", \"p95_ms\": " + Number(all.p95) +
         ", \"mean_ms\": " + Number(all.mean) + ", \"max_ms\": " + Number(all.max) + ", \"runs_ms\": [" +
         runs + "]}";
}

}  // namespace

Statistics Summary(std::vector<double> runs_ms) {
  std::sort(runs_ms.begin(), runs_ms.end());
  const size_t count = runs_ms.size();
  const double middle = runs_ms[count / 2];
  double sum = 0;
  for (const double run : runs_ms) sum += run;
  const auto rank = static_cast<size_t>(std::ceil(0.95 * static_cast<double>(count)));
  return Statistics{runs_ms.front(), count % 2 == 1 ? middle : (runs_ms[count / 2 - 1] + middle) / 2,
                    runs_ms[rank - 1], sum / static_cast<double>(count), runs_ms.back()};
}

std::string AsText(const Report& report) {
  std::string text = Line("model", report.model + ", function " + report.function);
  const std::string& about = report.device_description;
  text += Line("device", report.device + (about.empty() ? "" : " (" + about + ")"));
  text += ArrayLines("input", report.inputs);
  text += Line("load", Number(report.load_ms) + " ms");
  text += Line("start", Number(report.init_ms) + " ms");
  if (report.dry_run) return text + Line("dry run", "the model loads and the inputs fit; nothing was run");
  if (!report.cache_state.empty()) {
    text +=
        Line("programs", Number(report.programs_ms) + " ms, " + report.cache_file + " " + report.cache_state);
  }
  text += Line("first run", Number(report.first_run_ms) + " ms");
  if (!report.timing.runs_ms.empty()) {
    const Statistics all = Summary(report.timing.runs_ms);
    text += Line("profile", "min " + Number(all.min) + " ms, median " + Number(all.median) + " ms, p95 " +
                                Number(all.p95) + " ms, mean " + Number(all.mean) + " ms, max " +
                                Number(all.max) + " ms over " + std::to_string(report.timing.runs_ms.size()) +
                                " runs after " + std::to_string(report.timing.warmup) + " for warm-up");
  }
  text += ArrayLines("output", report.outputs);
  if (!report.output_file.empty()) text += Line("written", report.output_file);
  return text;
}

std::string AsJson(const Report& report) {
  std::string text =
      "{\"model\": " + JsonQuoted(report.model) + ", \"function\": " + JsonQuoted(report.function) +
      ", \"device\": " + JsonQuoted(report.device) +
      ", \"device_description\": " + JsonQuoted(report.device_description) +
      ", \"inputs\": " + JsonArrays(report.inputs) + ", \"load_ms\": " + Number(report.load_ms) +
      ", \"start_ms\": " + Number(report.init_ms) + ", \"dry_run\": " + (report.dry_run ? "true" : "false");
  if (report.dry_run) return text + "}\n";
  if (!report.cache_state.empty()) {
    text += ", \"pre_compiled\": {\"file\": " + JsonQuoted(report.cache_file) + ", \"state\": \"" +
            report.cache_state + "\", \"programs_ms\": " + Number(report.programs_ms) + "}";
  }
  text += ", \"first_run_ms\": " + Number(report.first_run_ms);
  if (!report.timing.runs_ms.empty()) text += ", \"profile\": " + JsonTiming(report.timing);
  text += ", \"outputs\": " + JsonArrays(report.outputs);
  if (!report.output_file.empty()) text += ", \"output_file\": " + JsonQuoted(report.output_file);
  return text + "}\n";
}

std::string AsText(const Meta& meta) {
  std::string text =
      Line("model", meta.model + (meta.described ? "" : " (no model.json: types are unknown)"));
  for (size_t i = 0; i < meta.functions.size(); ++i) {
    const Signature& signature = meta.signatures[i];
    text += Line("function", OneLine(meta.functions[i], 200));
    for (const Spec& spec : signature.inputs) {
      const bool param = Find(meta.params, spec.key) != nullptr;
      text += Line(param ? "  param" : "  input", OneLine(spec.key, 200) + "  " + Text(spec));
    }
    for (const Spec& spec : signature.outputs)
      text += Line("  output", OneLine(spec.key, 200) + "  " + Text(spec));
  }
  return text;
}

std::string AsJson(const Meta& meta) {
  std::string functions;
  for (size_t i = 0; i < meta.functions.size(); ++i) {
    const Signature& signature = meta.signatures[i];
    functions += (functions.empty() ? "" : ", ") + JsonQuoted(meta.functions[i]) +
                 ": {\"inputs\": " + JsonSpecs(signature.inputs, true) +
                 (signature.outputs_known ? ", \"outputs\": " + JsonSpecs(signature.outputs, true) : "") +
                 "}";
  }
  return "{\"model\": " + JsonQuoted(meta.model) + ", \"described\": " + (meta.described ? "true" : "false") +
         ", \"functions\": {" + functions + "}, \"params\": " + JsonArrays(meta.params) + "}\n";
}

}  // namespace rtvm
