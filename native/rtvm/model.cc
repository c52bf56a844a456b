#include "model.h"

#include "elf_check.h"
#include "error.h"
#include "files.h"
#include "json.h"
#include "npz.h"

namespace rtvm {
namespace {

constexpr const char* kFormat = "rtvm-model";
constexpr int64_t kVersion = 1;

// Reads model.json; every error names the file and the place in it ("functions.main.inputs[0].shape").
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  std::map<std::string, Signature> Read() const {
    const std::vector<uint8_t> bytes = ReadFile(path_, "model description");
    const Json root = ParseJson(std::string(bytes.begin(), bytes.end()), path_);
    CheckObject(root, "the file", {"format", "version", "functions", "info"});
    const std::string& format = Get(root, "", "format", Json::Kind::kString).string;
    if (format != kFormat) Fail("format", Quoted(kFormat), Quoted(OneLine(format, 80)));
    const Json& version = Get(root, "", "version", Json::Kind::kNumber);
    if (!version.integral || version.integer != kVersion) Fail("version", "1", "another number");
    std::map<std::string, Signature> functions;
    for (const auto& [name, entry] : Get(root, "", "functions", Json::Kind::kObject).members) {
      functions[name] = ReadSignature(entry, "functions." + name);
    }
    if (functions.empty()) Fail("functions", "at least one function", "none");
    return functions;
  }

 private:
  [[noreturn]] void Fail(const std::string& place, const std::string& expected,
                         const std::string& found) const {
    BadInput(path_ + ", " + place + ": expected " + expected + ", found " + found);
  }

  void CheckObject(const Json& value, const std::string& place, const std::vector<std::string>& known) const {
    if (value.kind != Json::Kind::kObject) Fail(place, "an object", value.KindName());
    for (const auto& [name, member] : value.members) {
      bool found = false;
      for (const std::string& word : known) found = found || word == name;
      if (!found) {
        BadInput(path_ + ", " + place + ": unknown key " + Quoted(OneLine(name, 80)) +
                 DidYouMean(name, known) + "; expected " + Listed(known));
      }
    }
  }

  const Json& Get(const Json& object, const std::string& place, const std::string& name,
                  Json::Kind kind) const {
    Json wanted;
    wanted.kind = kind;
    const std::string full = place.empty() ? name : place + "." + name;
    const Json* value = object.Find(name);
    if (value == nullptr) Fail(full, wanted.KindName(), "nothing");
    if (value->kind != kind) Fail(full, wanted.KindName(), value->KindName());
    return *value;
  }

  Signature ReadSignature(const Json& value, const std::string& place) const {
    CheckObject(value, place, {"inputs", "outputs"});
    Signature signature;
    signature.inputs = ReadSpecs(Get(value, place, "inputs", Json::Kind::kArray), place + ".inputs");
    signature.outputs_known = value.Find("outputs") != nullptr;
    if (signature.outputs_known) {
      signature.outputs = ReadSpecs(Get(value, place, "outputs", Json::Kind::kArray), place + ".outputs");
    }
    return signature;
  }

  std::vector<Spec> ReadSpecs(const Json& list, const std::string& place) const {
    std::vector<Spec> specs;
    for (size_t i = 0; i < list.items.size(); ++i) {
      const std::string here = place + "[" + std::to_string(i) + "]";
      const Json& item = list.items[i];
      CheckObject(item, here, {"name", "kind", "dtype", "shape", "items"});
      const std::string& name = Get(item, here, "name", Json::Kind::kString).string;
      if (name.empty()) Fail(here + ".name", "a name", "an empty string");
      specs.push_back(ReadSpec(item, here, name));
    }
    std::vector<const Spec*> leaves = Leaves(specs);
    for (size_t i = 0; i < leaves.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (leaves[i]->key == leaves[j]->key)
          Fail(place, "different names", Quoted(leaves[i]->key) + " twice");
      }
    }
    return specs;
  }

  Spec ReadSpec(const Json& value, const std::string& place, const std::string& key) const {
    CheckObject(value, place, {"name", "kind", "dtype", "shape", "items"});
    Spec spec;
    spec.key = key;
    const std::string kind =
        value.Find("kind") != nullptr ? Get(value, place, "kind", Json::Kind::kString).string : "tensor";
    std::vector<std::string> wanted = {"name", "kind"};
    if (kind == "tensor") {
      spec.dtype = ReadDType(Get(value, place, "dtype", Json::Kind::kString).string, place);
      spec.shape = ReadShape(Get(value, place, "shape", Json::Kind::kArray), place + ".shape");
      wanted.insert(wanted.end(), {"dtype", "shape"});
    } else if (kind == "tuple") {
      spec.kind = Spec::Kind::kTuple;
      const Json& items = Get(value, place, "items", Json::Kind::kArray);
      for (size_t i = 0; i < items.items.size(); ++i) {
        const std::string index = std::to_string(i);
        spec.items.push_back(ReadSpec(items.items[i], place + ".items[" + index + "]", key + "." + index));
      }
      wanted.emplace_back("items");
    } else if (kind == "shape") {
      spec.kind = Spec::Kind::kShape;
      spec.dtype = DType::kInt64;
      spec.shape = ReadShape(Get(value, place, "shape", Json::Kind::kArray), place + ".shape");
      wanted.emplace_back("shape");
    } else if (kind == "int" || kind == "float") {
      spec.kind = kind == "int" ? Spec::Kind::kInt : Spec::Kind::kFloat;
      spec.dtype = kind == "int" ? DType::kInt64 : DType::kFloat64;
    } else {
      Fail(place + ".kind", "'tensor', 'tuple', 'shape', 'int' or 'float'", Quoted(OneLine(kind, 80)));
    }
    CheckObject(value, place, wanted);
    return spec;
  }

  DType ReadDType(const std::string& name, const std::string& place) const {
    const std::optional<DType> dtype = DTypeByName(name);
    if (!dtype) {
      BadInput(path_ + ", " + place + ".dtype: unsupported type " + Quoted(OneLine(name, 80)) +
               DidYouMean(name, DTypeNames()) + "; expected one of " + Listed(DTypeNames()));
    }
    return *dtype;
  }

  std::vector<Dim> ReadShape(const Json& list, const std::string& place) const {
    std::vector<Dim> shape;
    for (size_t i = 0; i < list.items.size(); ++i) {
      const Json& item = list.items[i];
      Dim dim;
      if (item.kind == Json::Kind::kString && !item.string.empty()) {
        dim.symbol = item.string;
      } else if (item.kind == Json::Kind::kNumber && item.integral && item.integer >= 0) {
        dim.size = item.integer;
      } else {
        Fail(place + "[" + std::to_string(i) + "]", "a size (0, 1, ...) or a symbol's name",
             item.kind == Json::Kind::kNumber ? "another number" : item.KindName());
      }
      shape.push_back(dim);
    }
    return shape;
  }

  std::string path_;
};

void AddLeaves(const Spec& spec, std::vector<const Spec*>* leaves) {
  if (spec.kind != Spec::Kind::kTuple) leaves->push_back(&spec);
  for (const Spec& item : spec.items) AddLeaves(item, leaves);
}

std::string FindLibrary(const std::string& path) {
  if (!Exists(path)) BadInput("--model " + path + ": no such file or folder");
  if (!IsFolder(path)) return path;
  const std::string library = path + "/mod.so";
  if (!Exists(library))
    BadInput("model folder " + path + ": expected the model library mod.so in it, found none");
  return library;
}

}  // namespace

Model OpenModel(const std::string& path) {
  Model model;
  const std::string library = FindLibrary(path);
  CheckLibrary(library);
  model.library = AbsolutePath(library);
  if (!IsFolder(path)) return model;
  const std::string description = path + "/model.json";
  if (Exists(description)) {
    model.functions = Reader(description).Read();
    model.described = true;
  }
  const std::string params = path + "/params.npz";
  if (Exists(params)) {
    model.params = ReadNpz(params, "parameters");
    model.params_file = params;
  }
  return model;
}

std::string Text(const Spec& spec) {
  if (!spec.known) return "any tensor";
  std::string text;
  if (spec.kind == Spec::Kind::kTuple) {
    for (const Spec& item : spec.items) text += (text.empty() ? "" : ", ") + Text(item);
    return "(" + text + ")";
  }
  if (spec.kind == Spec::Kind::kInt) return "int";
  if (spec.kind == Spec::Kind::kFloat) return "float";
  for (const Dim& dim : spec.shape) {
    text += (text.empty() ? "" : ", ") + (dim.symbol.empty() ? std::to_string(dim.size) : dim.symbol);
  }
  return (spec.kind == Spec::Kind::kShape ? "shape[" : Name(spec.dtype) + std::string("[")) + text + "]";
}

std::vector<const Spec*> Leaves(const std::vector<Spec>& specs) {
  std::vector<const Spec*> leaves;
  for (const Spec& spec : specs) AddLeaves(spec, &leaves);
  return leaves;
}

Signature UndescribedSignature(const std::vector<std::string>& names) {
  Signature signature;
  for (const std::string& name : names) {
    Spec spec;
    spec.key = name;
    spec.known = false;
    signature.inputs.push_back(spec);
  }
  return signature;
}

}  // namespace rtvm
