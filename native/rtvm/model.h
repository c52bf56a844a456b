// A model folder: mod.so, and optionally model.json (what the functions take and give) and params.npz.
#ifndef RTVM_MODEL_H_
#define RTVM_MODEL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "array.h"

namespace rtvm {

// One size of a shape: a number, or a symbol whose value the inputs decide.
struct Dim {
  int64_t size = 0;
  std::string symbol;  // empty for a number
};

// What one input or output is. Tuples nest; their leaves are keyed "name.0", "name.1.0", ...
struct Spec {
  enum class Kind { kTensor, kTuple, kShape, kInt, kFloat };

  std::string key;
  Kind kind = Kind::kTensor;
  bool known = true;  // false without model.json: a tensor of any type and shape
  DType dtype = DType::kFloat32;
  std::vector<Dim> shape;
  std::vector<Spec> items;
};

struct Signature {
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
  bool outputs_known = false;
};

struct Model {
  std::string library;                         // absolute path of mod.so
  bool described = false;                      // there is a model.json
  std::map<std::string, Signature> functions;  // from model.json
  std::string params_file;                     // path of params.npz, or empty
  NamedArrays params;
};

// Finds and checks the files of `path` (a folder or a .so); mod.so itself is only looked at, not loaded.
Model OpenModel(const std::string& path);

std::string Text(const Spec& spec);  // "float32[1, n]", "(float32[2], int)"
// The leaves of all specs, in order.
std::vector<const Spec*> Leaves(const std::vector<Spec>& specs);
// Inputs that take any tensor, for models without model.json.
Signature UndescribedSignature(const std::vector<std::string>& names);

}  // namespace rtvm

#endif  // RTVM_MODEL_H_
