#include "array.h"

#include <cstring>
#include <limits>

#include "error.h"

namespace rtvm {
namespace {

struct DTypeFacts {
  DType dtype;
  const char* name;
  size_t size;
};

constexpr DTypeFacts kDTypes[] = {
    {DType::kBool, "bool", 1},         {DType::kInt8, "int8", 1},       {DType::kInt16, "int16", 2},
    {DType::kInt32, "int32", 4},       {DType::kInt64, "int64", 8},     {DType::kUint8, "uint8", 1},
    {DType::kUint16, "uint16", 2},     {DType::kUint32, "uint32", 4},   {DType::kUint64, "uint64", 8},
    {DType::kFloat16, "float16", 2},   {DType::kFloat32, "float32", 4}, {DType::kFloat64, "float64", 8},
    {DType::kBfloat16, "bfloat16", 2},
};

const DTypeFacts& Facts(DType dtype) {
  for (const DTypeFacts& facts : kDTypes) {
    if (facts.dtype == dtype) return facts;
  }
  throw std::logic_error("a dtype without facts");
}

uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

uint16_t Bfloat16Bits(float value) {
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);  // NaN
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

template <typename T>
void Store(std::vector<uint8_t>* data, size_t index, T value) {
  std::memcpy(data->data() + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

const char* Name(DType dtype) { return Facts(dtype).name; }
size_t SizeOf(DType dtype) { return Facts(dtype).size; }

std::optional<DType> DTypeByName(const std::string& name) {
  for (const DTypeFacts& facts : kDTypes) {
    if (name == facts.name) return facts.dtype;
  }
  return std::nullopt;
}

std::vector<std::string> DTypeNames() {
  std::vector<std::string> names;
  for (const DTypeFacts& facts : kDTypes) names.emplace_back(facts.name);
  return names;
}

std::string Text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string Text(DType dtype, const Shape& shape) { return Name(dtype) + Text(shape); }

std::optional<size_t> ByteCount(DType dtype, const Shape& shape) {
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  // Half of the address space: no object is larger, and differences of pointers stay defined.
  const uint64_t limit = std::numeric_limits<size_t>::max() / 2;
  uint64_t bytes = SizeOf(dtype);
  for (const int64_t dim : shape) {
    if (static_cast<uint64_t>(dim) > limit / bytes) return std::nullopt;
    bytes *= static_cast<uint64_t>(dim);
  }
  return static_cast<size_t>(bytes);
}

const Array* Find(const NamedArrays& arrays, const std::string& name) {
  for (const auto& [key, array] : arrays) {
    if (key == name) return &array;
  }
  return nullptr;
}

std::vector<std::string> Names(const NamedArrays& arrays) {
  std::vector<std::string> names;
  for (const auto& [key, array] : arrays) names.push_back(key);
  return names;
}

Array Bfloat16ToFloat32(const Array& array) {
  const size_t count = array.data.size() / 2;
  Array wide{DType::kFloat32, array.shape, std::vector<uint8_t>(count * 4)};
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, array.data.data() + i * 2, sizeof(bits));
    Store<uint32_t>(&wide.data, i, static_cast<uint32_t>(bits) << 16);
  }
  return wide;
}

Array Float32ToBfloat16(const Array& array) {
  const size_t count = array.data.size() / 4;
  Array narrow{DType::kBfloat16, array.shape, std::vector<uint8_t>(count * 2)};
  for (size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, array.data.data() + i * 4, sizeof(value));
    Store<uint16_t>(&narrow.data, i, Bfloat16Bits(value));
  }
  return narrow;
}

uint16_t HalfBits(float value) {
  const uint32_t bits = FloatBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);   // NaN
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // rounds to infinity
  uint32_t mantissa;
  uint32_t dropped;
  if (magnitude >= 0x38800000U) {  // normal half: rebias the exponent by 112
    mantissa = magnitude - (112U << 23);
    dropped = 13;
  } else if (magnitude >= 0x33000000U) {  // subnormal half
    dropped = 126 - (magnitude >> 23);
    mantissa = (magnitude & 0x7fffffU) | 0x800000U;
  } else {
    return static_cast<uint16_t>(sign);
  }
  const uint32_t half = 1U << (dropped - 1);
  const uint32_t odd = (mantissa >> dropped) & 1U;
  return static_cast<uint16_t>(sign | ((mantissa + half - 1 + odd) >> dropped));
}

Array ZeroArray(DType dtype, const Shape& shape) {
  const std::optional<size_t> bytes = ByteCount(dtype, shape);
  if (!bytes) BadInput("an array of shape " + Text(shape) + " can't exist: its size overflows");
  return Array{dtype, shape, std::vector<uint8_t>(*bytes)};
}

Array RandomArray(DType dtype, const Shape& shape, uint64_t seed) {
  Array array = ZeroArray(dtype, shape);
  const size_t count = array.data.size() / SizeOf(dtype);
  uint64_t state = seed;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t word = SplitMix64(&state);
    const uint64_t digit = (word >> 32) % 10;
    // 24 bits: exact in a float, so that all float types get the same numbers before rounding.
    const float real = static_cast<float>(static_cast<int64_t>(word >> 40) - (1 << 23)) / (1 << 23);
    switch (dtype) {
      case DType::kBool:
        Store<uint8_t>(&array.data, i, static_cast<uint8_t>(word >> 63));
        break;
      case DType::kInt8:
      case DType::kUint8:
        Store<uint8_t>(&array.data, i, static_cast<uint8_t>(digit));
        break;
      case DType::kInt16:
      case DType::kUint16:
        Store<uint16_t>(&array.data, i, static_cast<uint16_t>(digit));
        break;
      case DType::kInt32:
      case DType::kUint32:
        Store<uint32_t>(&array.data, i, static_cast<uint32_t>(digit));
        break;
      case DType::kInt64:
      case DType::kUint64:
        Store<uint64_t>(&array.data, i, digit);
        break;
      case DType::kFloat16:
        Store<uint16_t>(&array.data, i, HalfBits(real));
        break;
      case DType::kBfloat16:
        Store<uint16_t>(&array.data, i, Bfloat16Bits(real));
        break;
      case DType::kFloat32:
        Store<float>(&array.data, i, real);
        break;
      case DType::kFloat64:
        Store<double>(&array.data, i, static_cast<double>(real));
        break;
    }
  }
  return array;
}

}  // namespace rtvm
