// One array in numpy's .npy format (the members of an .npz).
#ifndef RTVM_NPY_H_
#define RTVM_NPY_H_

#include <string>
#include <vector>

#include "array.h"

namespace rtvm {

Array ParseNpy(const uint8_t* data, size_t size, const std::string& where);
std::vector<uint8_t> FormatNpy(const Array& array);

}  // namespace rtvm

#endif  // RTVM_NPY_H_
