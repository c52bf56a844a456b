// Host arrays: element types, shapes, and plain bytes in C order, little-endian.
#ifndef RTVM_ARRAY_H_
#define RTVM_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rtvm {

enum class DType {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kBfloat16,
};

using Shape = std::vector<int64_t>;

struct Array {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::vector<uint8_t> data;
};

using NamedArrays = std::vector<std::pair<std::string, Array>>;

const char* Name(DType dtype);  // "float32"
size_t SizeOf(DType dtype);     // bytes of one element
std::optional<DType> DTypeByName(const std::string& name);
std::vector<std::string> DTypeNames();

std::string Text(const Shape& shape);               // "[1, 3, 8]"
std::string Text(DType dtype, const Shape& shape);  // "float32[1, 3, 8]"

// Bytes of an array of that shape; nullopt when a size is negative or the product overflows.
std::optional<size_t> ByteCount(DType dtype, const Shape& shape);

// The named array or nullptr.
const Array* Find(const NamedArrays& arrays, const std::string& name);
std::vector<std::string> Names(const NamedArrays& arrays);

// numpy has no bfloat16: rtvm reads and writes such tensors as float32.
// The first is exact; the second rounds to nearest, ties to even.
Array Bfloat16ToFloat32(const Array& array);
Array Float32ToBfloat16(const Array& array);
// Rounds to nearest, ties to even.
uint16_t HalfBits(float value);

// The same numbers for the same seed on every machine: floats uniform in [-1, 1),
// integers 0..9, bool 0 or 1.
Array RandomArray(DType dtype, const Shape& shape, uint64_t seed);
Array ZeroArray(DType dtype, const Shape& shape);

}  // namespace rtvm

#endif  // RTVM_ARRAY_H_
