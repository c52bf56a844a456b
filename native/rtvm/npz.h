// numpy's .npz files: reading (stored or deflated) and writing (stored).
#ifndef RTVM_NPZ_H_
#define RTVM_NPZ_H_

#include <string>
#include <vector>

#include "array.h"

namespace rtvm {

// The arrays of a .npz file in its order, names without ".npy". Fortran-ordered arrays are
// transposed to C order. Refused with a message that names file and member: big-endian,
// structured, string and object arrays, zip64 (over 4 GiB), encryption, damage of any kind.
NamedArrays ParseNpz(const uint8_t* data, size_t size, const std::string& where);
NamedArrays ReadNpz(const std::string& path, const std::string& what);

// What numpy.load reads back; the bytes depend on names and arrays only.
std::vector<uint8_t> FormatNpz(const NamedArrays& arrays);
void WriteNpz(const std::string& path, const NamedArrays& arrays, const std::string& what);

}  // namespace rtvm

#endif  // RTVM_NPZ_H_
