// The arrays that a call gets and gives, checked against the model's description.
#ifndef RTVM_INPUTS_H_
#define RTVM_INPUTS_H_

#include <map>
#include <string>

#include "array.h"
#include "model.h"
#include "options.h"

namespace rtvm {

// Values of symbolic sizes, each with the place that decided it.
class Symbols {
 public:
  explicit Symbols(const std::map<std::string, int64_t>& given);
  // False when the symbol has another value already; `text` then says which and whence.
  bool Bind(const std::string& symbol, int64_t value, const std::string& where, std::string* text);
  // nullptr while unknown.
  const int64_t* Find(const std::string& symbol) const;

 private:
  struct Bound {
    int64_t value;
    std::string where;
  };
  std::map<std::string, Bound> bound_;
};

// How `array` differs from `spec` ("expected ..., found ..."), or "" when it fits.
std::string Mismatch(const Spec& spec, const Array& array, Symbols* symbols);

// One array per leaf of the function's inputs, in order and under the leaf's key: from params.npz,
// and from --input (a file, random or zeros). bfloat16 tensors come converted.
NamedArrays GatherInputs(const Model& model, const Signature& signature, const Options& options,
                         Symbols* symbols);

}  // namespace rtvm

#endif  // RTVM_INPUTS_H_
