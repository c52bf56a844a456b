// Stands for the relay-era rtvm: the same flags, the same log lines and the same traps. Runs graphs
// whose functions lie in mod.so, with float32 and integer arrays on the CPU.
//
// The traps: only --flag=value is read; what is missing or wrong ends with exit code 0 (or abort); an
// input that the file lacks is a warning; bytes are copied whatever their type; outputs are appended
// to an older file; only float32 and int8 are written.
#include <dlfcn.h>
#include <tvm/runtime/base.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

struct Tensor {  // DLTensor
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
};

union Value {  // TVMValue
  int64_t integer;
  void* handle;
};
using Function = int (*)(Value*, int*, int, Value*, int*, void*);
constexpr int kTensor = 7;

void Log(const std::string& text) { std::fprintf(stderr, "[00:00:00] main.cc:1: %s\n", text.c_str()); }

[[noreturn]] void Fatal(const std::string& text) {
  Log("Check failed: " + text);
  std::abort();
}

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (stream.fail()) Fatal("Failed to open " + path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// ---- JSON: enough for mod.json ----

struct Json {
  std::string text;  // strings and numbers
  std::vector<Json> items;
  std::map<std::string, Json> members;
  long Number() const { return std::stol(text); }
};

class Parser {
 public:
  explicit Parser(const std::string& text) : at_(text.c_str()) {}
  Json Parse() {
    Json value;
    const char first = Next();
    if (first == '{' || first == '[') {
      const char last = first == '{' ? '}' : ']';
      for (++at_; Next() != last;) {
        if (first == '[') {
          value.items.push_back(Parse());
        } else {
          const std::string key = Parse().text;
          if (Next() != ':') Fatal("bad JSON");
          ++at_;
          value.members[key] = Parse();
        }
        if (Next() == ',') ++at_;
      }
      ++at_;
    } else if (first == '"') {
      for (++at_; *at_ != '"' && *at_ != 0; ++at_) value.text += *at_;
      if (*at_ != 0) ++at_;
    } else {
      while (std::strchr("+-.0123456789eE", *at_) != nullptr && *at_ != 0) value.text += *at_++;
      if (value.text.empty()) Fatal("bad JSON");
    }
    return value;
  }

 private:
  char Next() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r') ++at_;
    return *at_;
  }
  const char* at_;
};

// ---- stored .npz files ----

template <typename T>
T Get(const std::string& data, size_t at) {
  T value{};
  if (at + sizeof(T) > data.size()) Fatal("file too short");
  std::memcpy(&value, data.data() + at, sizeof(T));
  return value;
}

template <typename T>
void Put(std::string* data, T value) {
  data->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

std::map<std::string, std::string> ReadNpz(const std::string& path) {
  const std::string data = ReadFile(path);
  std::map<std::string, std::string> members;
  size_t at = 0;
  while (at + 30 <= data.size() && Get<uint32_t>(data, at) == 0x04034b50) {
    if (Get<uint16_t>(data, at + 8) != 0) Fatal("compressed npz");
    const size_t size = Get<uint32_t>(data, at + 18), name = Get<uint16_t>(data, at + 26);
    const size_t begin = at + 30 + name + Get<uint16_t>(data, at + 28);
    members[data.substr(at + 30, name)] = data.substr(begin, size);
    at = begin + size;
  }
  return members;
}

uint32_t Crc(const std::string& data) {
  uint32_t crc = ~0u;
  for (const unsigned char byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

void WriteNpz(const std::string& path, const std::map<std::string, std::string>& members) {
  std::string body, directory;
  for (const auto& [name, content] : members) {
    std::string common;
    for (const uint16_t field : {20, 0, 0, 0, 0}) Put(&common, field);
    Put(&common, Crc(content));
    Put(&common, static_cast<uint32_t>(content.size()));
    Put(&common, static_cast<uint32_t>(content.size()));
    Put(&common, static_cast<uint16_t>(name.size()));
    Put(&common, static_cast<uint16_t>(0));
    Put(&directory, 0x02014b50u);
    Put(&directory, static_cast<uint16_t>(20));
    directory += common + std::string(10, '\0');
    Put(&directory, static_cast<uint32_t>(body.size()));
    directory += name;
    Put(&body, 0x04034b50u);
    body += common + name + content;
  }
  std::string end;
  Put(&end, 0x06054b50u);
  Put(&end, 0u);
  Put(&end, static_cast<uint16_t>(members.size()));
  Put(&end, static_cast<uint16_t>(members.size()));
  Put(&end, static_cast<uint32_t>(directory.size()));
  Put(&end, static_cast<uint32_t>(body.size()));
  Put(&end, static_cast<uint16_t>(0));
  std::ofstream(path, std::ios::binary) << body << directory << end;
}

// ---- the graph ----

struct Array {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
  Tensor View() {
    const bool real = dtype[0] == 'f';
    const uint8_t code = real ? 2 : dtype[0] == 'u' ? 1 : 0;
    return {data.data(), 1, 0, static_cast<int32_t>(shape.size()), code, Bits(), 1, shape.data(), nullptr, 0};
  }
  uint8_t Bits() const { return static_cast<uint8_t>(std::stoi(dtype.substr(dtype.find_first_of("0123456789")))); }
  std::string Shape() const {
    std::string text;
    for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    return text;
  }
};

class Graph {
 public:
  explicit Graph(const std::string& folder) {
    library_ = dlopen((folder + "/mod.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) Fatal(std::string("Failed to load dynamic shared library ") + dlerror());
    graph_ = Parser(ReadFile(folder + "/mod.json")).Parse();
    const auto& nodes = graph_.members.at("nodes").items;
    const auto& attributes = graph_.members.at("attrs").members;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Array array{nodes[i].members.at("name").text, attributes.at("dltype").items[1].items[i].text, {}, ""};
      size_t bytes = array.Bits() / 8u;
      for (const Json& size : attributes.at("shape").items[1].items[i].items) {
        array.shape.push_back(size.Number());
        bytes *= static_cast<size_t>(size.Number());
      }
      array.data.resize(bytes);
      arrays.push_back(array);
    }
    LoadParams(ReadFile(folder + "/mod.params"));
    for (const Json& index : graph_.members.at("arg_nodes").items) {
      Array* array = &arrays[static_cast<size_t>(index.Number())];
      if (params_.count(array->name) == 0) inputs.push_back(array);
    }
    for (const Json& head : graph_.members.at("heads").items) {
      outputs.push_back(&arrays[static_cast<size_t>(head.items[0].Number())]);
    }
  }

  void Run() {
    const auto& nodes = graph_.members.at("nodes").items;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].members.at("op").text != "tvm_op") continue;
      const std::string name = nodes[i].members.at("attrs").members.at("func_name").text;
      const auto function = reinterpret_cast<Function>(dlsym(library_, name.c_str()));
      if (function == nullptr) Fatal("no function " + name);
      std::vector<Tensor> tensors;
      for (const Json& source : nodes[i].members.at("inputs").items) {
        tensors.push_back(arrays[static_cast<size_t>(source.items[0].Number())].View());
      }
      tensors.push_back(arrays[i].View());
      std::vector<Value> values(tensors.size());
      std::vector<int> codes(tensors.size(), kTensor);
      for (size_t k = 0; k < tensors.size(); ++k) values[k].handle = &tensors[k];
      Value result{};
      int code = 0;
      if (function(values.data(), codes.data(), static_cast<int>(values.size()), &result, &code, nullptr) != 0)
        Fatal(name + " failed");
    }
  }

  std::vector<Array> arrays;
  std::vector<Array*> inputs, outputs;

 private:
  void LoadParams(const std::string& data) {
    if (Get<uint64_t>(data, 0) != 0xF7E58D4F05049CB7) Fatal("Invalid parameters file format");
    size_t at = 24;
    std::vector<std::string> names;
    for (uint64_t i = 0; i < Get<uint64_t>(data, 16); ++i) {
      const size_t length = Get<uint64_t>(data, at);
      names.push_back(data.substr(at + 8, length));
      at += 8 + length;
    }
    at += 8;
    for (const std::string& name : names) {
      if (Get<uint64_t>(data, at) != 0xDD5E40F096B4A13F) Fatal("Invalid DLTensor file format");
      at += 28 + 8u * static_cast<size_t>(Get<int32_t>(data, at + 24)) + 4;
      const size_t bytes = Get<uint64_t>(data, at);
      for (Array& array : arrays) {
        if (array.name == name) array.data = data.substr(at + 8, bytes);
      }
      at += 8 + bytes;
      params_[name] = true;
    }
  }

  void* library_;
  Json graph_;
  std::map<std::string, bool> params_;
};

// ---- the program ----

std::string Flag(int argc, char** argv, const std::string& name) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind(name, 0) == 0) return name.back() == '=' ? word.substr(name.size()) : word;
  }
  return "";
}

void SetInputs(Graph* graph, const std::string& file) {
  const auto members = ReadNpz(file);
  for (Array* input : graph->inputs) {
    const auto member = members.find(input->name + ".npy");
    if (member == members.end()) {
      Log("Warning: Couldn't find input " + input->name + " in npy input file");
      continue;
    }
    const std::string content = member->second.substr(10u + Get<uint16_t>(member->second, 8));
    std::memcpy(input->data.data(), content.data(), std::min(content.size(), input->data.size()));
  }
}

void SaveOutputs(const Graph& graph, const std::string& file) {
  std::map<std::string, std::string> members;
  if (std::ifstream(file).good()) members = ReadNpz(file);
  for (const Array* output : graph.outputs) {
    if (output->dtype != "float32" && output->dtype != "int8") {
      Log("Warning: DType:" + output->dtype + " is not supported for npy_save");
      continue;
    }
    std::string header = "{'descr': '" + std::string(output->dtype == "int8" ? "|i1" : "<f4") +
                         "', 'fortran_order': False, 'shape': (" + output->Shape() + ",), }";
    header.append(63 - (10 + header.size()) % 64, ' ');
    header += "\n";
    std::string content = "\x93NUMPY";
    content += std::string("\x01\0", 2);
    Put(&content, static_cast<uint16_t>(header.size()));
    members[output->name + ".npy"] = content + header + output->data;
  }
  WriteNpz(file, members);
}

void DumpMeta(const Graph& graph) {
  for (const bool input : {true, false}) {
    for (const Array* array : input ? graph.inputs : graph.outputs) {
      Log(std::string("        ") + (input ? "Input:" : "Output:") + array->name);
      Log("            DType:" + array->dtype);
      Log("            Shape:[" + array->Shape() + "]");
    }
  }
}

int Usage() {
  Log("Usage: rtvm --model --device --input --output --dump-meta --pre-compiled --profile --dry-run --run-count "
      "--zero-copy\nkalloc alignment " +
      std::to_string(MiniTVMKallocAlignment()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string model = Flag(argc, argv, "--model="), device = Flag(argc, argv, "--device=");
  if (model.empty() || device.empty()) return Usage();
  if (device != "cpu" && device != "llvm") Fatal("TVMRunner : Unsupported device :" + device);
  Graph graph(model);
  if (!Flag(argc, argv, "--dump-meta").empty()) DumpMeta(graph);
  const std::string input = Flag(argc, argv, "--input="), output = Flag(argc, argv, "--output=");
  if (!Flag(argc, argv, "--profile").empty()) {
    const std::string dry = Flag(argc, argv, "--dry-run="), count = Flag(argc, argv, "--run-count=");
    for (int i = 0; i < (dry.empty() ? 10 : std::stoi(dry)); ++i) graph.Run();
    for (int i = 0; i < (count.empty() ? 50 : std::stoi(count)); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      graph.Run();
      const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
      Log("Exec Time:" + std::to_string(passed.count()));
    }
  } else if (!input.empty() && !output.empty()) {
    SetInputs(&graph, input);
    graph.Run();
    SaveOutputs(graph, output);
  } else {
    Log("Executing dry run ... ");
    graph.Run();
  }
  return 0;
}
