#include "inflate.h"

#include <array>

namespace rtvm {
namespace {

constexpr int kMaxBits = 15;

class BitReader {
 public:
  BitReader(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  // The next `count` (<= 16) bits, low bit first; sets failed() past the end.
  uint32_t Bits(int count) {
    while (held_ < count) {
      if (position_ == size_) {
        failed_ = true;
        return 0;
      }
      buffer_ |= static_cast<uint32_t>(data_[position_++]) << held_;
      held_ += 8;
    }
    const uint32_t value = buffer_ & ((1U << count) - 1U);
    buffer_ >>= count;
    held_ -= count;
    return value;
  }

  // Drops the rest of the current byte and copies whole bytes.
  bool Bytes(size_t count, std::vector<uint8_t>* out) {
    buffer_ = 0;
    held_ = 0;
    if (count > size_ - position_) return false;
    out->insert(out->end(), data_ + position_, data_ + position_ + count);
    position_ += count;
    return true;
  }

  void AlignToByte() {
    buffer_ = 0;
    held_ = 0;
  }

  bool failed() const { return failed_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t position_ = 0;
  uint32_t buffer_ = 0;
  int held_ = 0;
  bool failed_ = false;
};

// A canonical Huffman code: how many codes of each length, and the symbols in code order.
struct Code {
  std::array<int, kMaxBits + 1> count{};
  std::vector<int> symbols;

  // False when the lengths ask for more codes than there are.
  bool Build(const uint8_t* lengths, size_t size) {
    count.fill(0);
    for (size_t i = 0; i < size; ++i) ++count[lengths[i]];
    count[0] = 0;
    int left = 1;
    for (int bits = 1; bits <= kMaxBits; ++bits) {
      left = left * 2 - count[static_cast<size_t>(bits)];
      if (left < 0) return false;
    }
    std::array<size_t, kMaxBits + 2> offset{};
    for (size_t bits = 1; bits <= kMaxBits; ++bits) {
      offset[bits + 1] = offset[bits] + static_cast<size_t>(count[bits]);
    }
    symbols.assign(offset[kMaxBits + 1], 0);
    for (size_t i = 0; i < size; ++i) {
      if (lengths[i] != 0) symbols[offset[lengths[i]]++] = static_cast<int>(i);
    }
    return true;
  }

  // The next symbol, or -1 on damaged or ended data.
  int Decode(BitReader* in) const {
    int code = 0;
    int first = 0;
    size_t index = 0;
    for (size_t bits = 1; bits <= kMaxBits; ++bits) {
      code |= static_cast<int>(in->Bits(1));
      if (in->failed()) return -1;
      if (code - first < count[bits]) return symbols[index + static_cast<size_t>(code - first)];
      index += static_cast<size_t>(count[bits]);
      first = (first + count[bits]) << 1;
      code <<= 1;
    }
    return -1;
  }
};

constexpr uint16_t kLengthBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr uint8_t kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                    2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr uint16_t kDistanceBase[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr uint8_t kDistanceExtra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                      6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

bool CopyMatch(int symbol, BitReader* in, const Code& distances, size_t limit, std::vector<uint8_t>* out) {
  if (symbol > 285) return false;
  const auto row = static_cast<size_t>(symbol - 257);
  const size_t length = kLengthBase[row] + in->Bits(kLengthExtra[row]);
  const int code = distances.Decode(in);
  if (code < 0 || code > 29) return false;
  const auto column = static_cast<size_t>(code);
  const size_t distance = kDistanceBase[column] + in->Bits(kDistanceExtra[column]);
  if (in->failed() || distance > out->size() || length > limit - out->size()) return false;
  for (size_t i = 0; i < length; ++i) out->push_back((*out)[out->size() - distance]);
  return true;
}

bool InflateCodes(BitReader* in, const Code& literals, const Code& distances, size_t limit,
                  std::vector<uint8_t>* out) {
  for (;;) {
    const int symbol = literals.Decode(in);
    if (symbol < 0) return false;
    if (symbol == 256) return true;
    if (symbol > 256) {
      if (!CopyMatch(symbol, in, distances, limit, out)) return false;
    } else {
      if (out->size() == limit) return false;
      out->push_back(static_cast<uint8_t>(symbol));
    }
  }
}

bool ReadStored(BitReader* in, size_t limit, std::vector<uint8_t>* out) {
  in->AlignToByte();
  const uint32_t length = in->Bits(16);
  const uint32_t complement = in->Bits(16);
  if (in->failed() || length != (complement ^ 0xffffU) || length > limit - out->size()) return false;
  return in->Bytes(length, out);
}

bool FixedCodes(Code* literals, Code* distances) {
  std::array<uint8_t, 288> lengths{};
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  std::array<uint8_t, 30> even{};
  even.fill(5);
  return literals->Build(lengths.data(), lengths.size()) && distances->Build(even.data(), even.size());
}

bool DynamicCodes(BitReader* in, Code* literals, Code* distances) {
  constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const size_t literal_count = in->Bits(5) + 257;
  const size_t distance_count = in->Bits(5) + 1;
  const size_t code_count = in->Bits(4) + 4;
  if (literal_count > 286 || distance_count > 30) return false;
  std::array<uint8_t, 19> code_lengths{};
  for (size_t i = 0; i < code_count; ++i) code_lengths[kOrder[i]] = static_cast<uint8_t>(in->Bits(3));
  Code code;
  if (in->failed() || !code.Build(code_lengths.data(), code_lengths.size())) return false;
  std::vector<uint8_t> lengths;
  const size_t total = literal_count + distance_count;
  while (lengths.size() < total) {
    const int symbol = code.Decode(in);
    if (symbol < 0) return false;
    if (symbol < 16) {
      lengths.push_back(static_cast<uint8_t>(symbol));
      continue;
    }
    if (symbol == 16 && lengths.empty()) return false;
    const uint8_t value = symbol == 16 ? lengths.back() : uint8_t{0};
    const size_t repeat = symbol == 16 ? 3 + in->Bits(2) : symbol == 17 ? 3 + in->Bits(3) : 11 + in->Bits(7);
    if (in->failed() || repeat > total - lengths.size()) return false;
    lengths.insert(lengths.end(), repeat, value);
  }
  return literals->Build(lengths.data(), literal_count) &&
         distances->Build(lengths.data() + literal_count, distance_count);
}

}  // namespace

bool Inflate(const uint8_t* data, size_t size, size_t expected, std::vector<uint8_t>* out) {
  BitReader in(data, size);
  out->clear();
  for (bool last = false; !last;) {
    last = in.Bits(1) != 0;
    const uint32_t kind = in.Bits(2);
    if (in.failed()) return false;
    if (kind == 0) {
      if (!ReadStored(&in, expected, out)) return false;
      continue;
    }
    Code literals;
    Code distances;
    const bool built = kind == 1   ? FixedCodes(&literals, &distances)
                       : kind == 2 ? DynamicCodes(&in, &literals, &distances)
                                   : false;
    if (!built || !InflateCodes(&in, literals, distances, expected, out)) return false;
  }
  return out->size() == expected;
}

}  // namespace rtvm
