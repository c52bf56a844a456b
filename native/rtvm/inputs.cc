#include "inputs.h"

#include <cstring>
#include <set>

#include "error.h"
#include "npz.h"

namespace rtvm {
namespace {

// The element type that a file holds for a leaf.
DType FileDType(const Spec& spec) { return spec.dtype == DType::kBfloat16 ? DType::kFloat32 : spec.dtype; }

Shape ConcreteShape(const Spec& spec, const Symbols& symbols) {
  Shape shape;
  for (const Dim& dim : spec.shape) {
    if (dim.symbol.empty()) {
      shape.push_back(dim.size);
      continue;
    }
    const int64_t* value = symbols.Find(dim.symbol);
    if (value == nullptr) {
      BadInput("input " + Quoted(spec.key) + " " + Text(spec) + ": size " + Quoted(dim.symbol) +
               " has no value; give --dim=" + dim.symbol + "=SIZE");
    }
    shape.push_back(*value);
  }
  return shape;
}

Array Generated(const Spec& spec, const Options& options, const Symbols& symbols, uint64_t stream) {
  if (!spec.known) {
    BadInput("--input=" + *options.input + ": the type and shape of input " + Quoted(spec.key) +
             " are unknown: expected model.json beside mod.so, or give the inputs as an .npz file");
  }
  const Shape sizes = ConcreteShape(spec, symbols);
  if (spec.kind == Spec::Kind::kShape) {
    Array array = ZeroArray(DType::kInt64, {static_cast<int64_t>(sizes.size())});
    if (!sizes.empty()) std::memcpy(array.data.data(), sizes.data(), array.data.size());
    return array;
  }
  if (*options.input == "zeros") return ZeroArray(spec.dtype, sizes);
  // Each input gets numbers of its own.
  return RandomArray(spec.dtype, sizes, options.seed * 1000003ULL + stream);
}

std::vector<std::string> Keys(const std::vector<const Spec*>& leaves) {
  std::vector<std::string> keys;
  for (const Spec* leaf : leaves) keys.push_back(leaf->key);
  return keys;
}

// Names that the function does not have are refused: an ignored input is a wrong result.
void CheckNames(const NamedArrays& arrays, const std::vector<const Spec*>& leaves, const NamedArrays& params,
                const std::string& file) {
  const std::vector<std::string> keys = Keys(leaves);
  const std::set<std::string> known(keys.begin(), keys.end());
  for (const std::string& name : Names(arrays)) {
    const std::string shown = Quoted(OneLine(name, 80));
    if (known.count(name) == 0) {
      BadInput(file + ": unknown input " + shown + DidYouMean(name, keys) + ": expected " + Listed(keys));
    }
    if (Find(params, name) != nullptr)
      BadInput(file + ": input " + shown + " is a parameter from params.npz already");
  }
}

std::string Wanted(const std::vector<const Spec*>& leaves, const NamedArrays& params) {
  std::string text;
  for (const Spec* leaf : leaves) {
    if (Find(params, leaf->key) == nullptr)
      text += (text.empty() ? "" : ", ") + Quoted(leaf->key) + " " + Text(*leaf);
  }
  return text;
}

std::string SizesMismatch(const Spec& spec, const Shape& sizes, const std::string& found, Symbols* symbols) {
  const std::string expected = "expected " + Text(spec) + ", found " + found;
  if (sizes.size() != spec.shape.size()) return expected;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Dim& dim = spec.shape[i];
    if (sizes[i] < 0) return expected;
    if (dim.symbol.empty()) {
      if (sizes[i] != dim.size) return expected;
      continue;
    }
    std::string earlier;
    if (!symbols->Bind(dim.symbol, sizes[i], Quoted(spec.key), &earlier))
      return expected + " where " + earlier;
  }
  return "";
}

}  // namespace

Symbols::Symbols(const std::map<std::string, int64_t>& given) {
  for (const auto& [name, value] : given) bound_[name] = Bound{value, "--dim"};
}

bool Symbols::Bind(const std::string& symbol, int64_t value, const std::string& where, std::string* text) {
  const auto [entry, fresh] = bound_.emplace(symbol, Bound{value, where});
  if (fresh || entry->second.value == value) return true;
  *text = symbol + " is " + std::to_string(entry->second.value) + " from " + entry->second.where;
  return false;
}

const int64_t* Symbols::Find(const std::string& symbol) const {
  const auto entry = bound_.find(symbol);
  return entry == bound_.end() ? nullptr : &entry->second.value;
}

std::string Mismatch(const Spec& spec, const Array& array, Symbols* symbols) {
  if (!spec.known) return "";
  std::string found = Text(array.dtype, array.shape);
  if (array.dtype != FileDType(spec)) {
    const bool wide = FileDType(spec) != spec.dtype;
    return "expected " + Text(spec) + (wide ? " given as float32" : "") + ", found " + found;
  }
  if (spec.kind == Spec::Kind::kTensor) return SizesMismatch(spec, array.shape, found, symbols);
  if (spec.kind != Spec::Kind::kShape) {
    return array.shape.empty() ? "" : "expected " + Text(spec) + ": a 0-dimensional array, found " + found;
  }
  if (array.shape.size() != 1) return "expected " + Text(spec) + ": a 1-dimensional array, found " + found;
  Shape sizes(static_cast<size_t>(array.shape[0]));
  if (!sizes.empty()) std::memcpy(sizes.data(), array.data.data(), array.data.size());
  return SizesMismatch(spec, sizes, "shape" + Text(sizes), symbols);
}

NamedArrays GatherInputs(const Model& model, const Signature& signature, const Options& options,
                         Symbols* symbols) {
  const std::vector<const Spec*> leaves = Leaves(signature.inputs);
  const bool generated = options.input && (*options.input == "random" || *options.input == "zeros");
  NamedArrays file;
  std::string file_name = "--input";
  if (options.input && !generated) {
    file = ReadNpz(*options.input, "input file");
    file_name = "input file " + *options.input;
    CheckNames(file, leaves, model.params, file_name);
  }
  NamedArrays inputs;
  // Given arrays first: they decide the symbols that generated ones need.
  for (const bool given : {true, false}) {
    for (size_t i = 0; i < leaves.size(); ++i) {
      const Spec& leaf = *leaves[i];
      const Array* param = Find(model.params, leaf.key);
      const Array* array = param != nullptr ? param : Find(file, leaf.key);
      if ((array != nullptr) != given) continue;
      if (array == nullptr && !generated) {
        const std::string wanted = ": expected " + Wanted(leaves, model.params);
        if (!options.input) BadInput("--input is missing: function " + Quoted(options.function) + wanted);
        BadInput(file_name + ": input " + Quoted(leaf.key) + " is missing" + wanted + ", found " +
                 Listed(Names(file)));
      }
      if (array != nullptr) {
        const std::string mismatch = Mismatch(leaf, *array, symbols);
        const std::string source = param != nullptr ? "parameters " + model.params_file : file_name;
        if (!mismatch.empty()) BadInput(source + ": input " + Quoted(leaf.key) + ": " + mismatch);
      }
      const bool narrow = array != nullptr && leaf.known && leaf.dtype == DType::kBfloat16;
      inputs.emplace_back(leaf.key, narrow             ? Float32ToBfloat16(*array)
                                    : array != nullptr ? *array
                                                       : Generated(leaf, options, *symbols, i));
    }
  }
  return inputs;
}

}  // namespace rtvm
