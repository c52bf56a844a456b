#include "npy.h"

#include <cstring>

#include "error.h"

namespace rtvm {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kMaxRank = 64;  // numpy's own limit

struct Descr {
  const char* code;
  DType dtype;
};

constexpr Descr kDescrs[] = {
    {"b1", DType::kBool},   {"i1", DType::kInt8},    {"i2", DType::kInt16},   {"i4", DType::kInt32},
    {"i8", DType::kInt64},  {"u1", DType::kUint8},   {"u2", DType::kUint16},  {"u4", DType::kUint32},
    {"u8", DType::kUint64}, {"f2", DType::kFloat16}, {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
};

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  HeaderParser(std::string text, std::string where) : text_(std::move(text)), where_(std::move(where)) {}

  Header Parse() {
    Header header;
    bool seen[3] = {};
    Expect('{');
    while (!Take('}')) {
      const std::string key = String();
      Expect(':');
      if (key == "descr") {
        if (Peek() == '[') BadInput(where_ + ": structured arrays are not supported; save plain ones");
        header.descr = String();
        seen[0] = true;
      } else if (key == "fortran_order") {
        header.fortran = Boolean();
        seen[1] = true;
      } else if (key == "shape") {
        header.shape = Tuple();
        seen[2] = true;
      } else {
        Damaged();
      }
      if (!Take(',')) {
        Expect('}');
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2] || Peek() != '\0') Damaged();
    return header;
  }

 private:
  [[noreturn]] void Damaged() const {
    BadInput(where_ + ": damaged .npy header: expected a dict of descr, fortran_order and shape, found " +
             Quoted(OneLine(text_, 80)));
  }

  char Peek() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n')) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    ++position_;
    return true;
  }

  void Expect(char wanted) {
    if (!Take(wanted)) Damaged();
  }

  std::string String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Damaged();
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string::npos) Damaged();
    std::string value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return value;
  }

  bool Boolean() {
    Peek();
    for (const bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(position_, word.size(), word) == 0) {
        position_ += word.size();
        return value;
      }
    }
    Damaged();
  }

  int64_t Integer() {
    const bool negative = Take('-');
    int64_t value = 0;
    const size_t begin = position_;
    for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; ++position_) {
      if (position_ - begin >= 18) BadInput(where_ + ": a size in the shape has more than 18 digits");
      value = value * 10 + (text_[position_] - '0');
    }
    if (position_ == begin) Damaged();
    Take('L');  // written by Python 2
    return negative ? -value : value;
  }

  Shape Tuple() {
    Shape shape;
    Expect('(');
    while (!Take(')')) {
      Peek();
      shape.push_back(Integer());
      if (shape.size() > kMaxRank) BadInput(where_ + ": more than 64 dimensions");
      if (!Take(',')) {
        Expect(')');
        break;
      }
    }
    return shape;
  }

  std::string text_;
  std::string where_;
  size_t position_ = 0;
};

DType DTypeOf(const std::string& descr, const std::string& where) {
  const std::string code = descr.size() == 3 ? descr.substr(1) : "";
  for (const Descr& known : kDescrs) {
    if (code != known.code) continue;
    if (descr[0] == '<' || (SizeOf(known.dtype) == 1 && descr[0] == '|')) return known.dtype;
    if (descr[0] == '>') {
      BadInput(where + ": big-endian " + Quoted(descr) + " is not supported; save it with astype('<" + code +
               "')");
    }
  }
  if (!code.empty() && code[0] == 'V') {
    BadInput(where + ": raw type " + Quoted(descr) +
             " is not supported; save bfloat16 arrays with astype('float32')");
  }
  BadInput(where + ": type " + Quoted(OneLine(descr, 40)) +
           " is not supported; expected bool, int8..64, uint8..64, float16, float32 or float64");
}

// Fortran order has the first index running fastest; C order the last.
Array Transposed(const Array& array) {
  const size_t size = SizeOf(array.dtype);
  const size_t rank = array.shape.size();
  Array out{array.dtype, array.shape, std::vector<uint8_t>(array.data.size())};
  std::vector<int64_t> index(rank, 0);
  std::vector<size_t> stride;
  size_t step = size;
  for (const int64_t dim : array.shape) {
    stride.push_back(step);
    step *= static_cast<size_t>(dim);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.data.size(); to += size) {
    std::memcpy(out.data.data() + to, array.data.data() + from, size);
    for (size_t axis = rank; axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < array.shape[axis]) break;
      from -= stride[axis] * static_cast<size_t>(array.shape[axis]);
      index[axis] = 0;
    }
  }
  return out;
}

}  // namespace

Array ParseNpy(const uint8_t* data, size_t size, const std::string& where) {
  if (size < kMagicSize + 4 || std::memcmp(data, kMagic, kMagicSize) != 0) {
    BadInput(where + ": not an .npy array: expected the bytes \\x93NUMPY at its start");
  }
  const int version = data[kMagicSize];
  if (version < 1 || version > 3) {
    BadInput(where + ": .npy format " + std::to_string(version) + " is not supported; expected 1, 2 or 3");
  }
  const size_t width = version == 1 ? 2 : 4;
  size_t begin = kMagicSize + 2;
  if (size - begin < width) BadInput(where + ": truncated .npy header");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= static_cast<size_t>(data[begin + i]) << (8 * i);
  begin += width;
  if (length > size - begin) BadInput(where + ": truncated .npy header");
  const Header header = HeaderParser(std::string(data + begin, data + begin + length), where).Parse();
  begin += length;

  Array array;
  array.dtype = DTypeOf(header.descr, where);
  array.shape = header.shape;
  const std::optional<size_t> bytes = ByteCount(array.dtype, array.shape);
  if (!bytes) BadInput(where + ": impossible shape " + Text(array.shape) + ": negative or too large");
  if (*bytes != size - begin) {
    BadInput(where + ": wrong amount of data for " + Text(array.dtype, array.shape) + ": expected " +
             std::to_string(*bytes) + " bytes, found " + std::to_string(size - begin));
  }
  array.data.assign(data + begin, data + size);
  return header.fortran && array.shape.size() > 1 ? Transposed(array) : array;
}

std::vector<uint8_t> FormatNpy(const Array& array) {
  const char* code = nullptr;
  for (const Descr& known : kDescrs) {
    if (known.dtype == array.dtype) code = known.code;
  }
  if (code == nullptr) RunFailed(std::string("numpy has no type for ") + Name(array.dtype));
  std::string shape;
  for (const int64_t dim : array.shape) shape += std::to_string(dim) + ", ";
  std::string header = std::string("{'descr': '") + (SizeOf(array.dtype) == 1 ? "|" : "<") + code +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // The data begins at a multiple of 64, as the format asks.
  const size_t fixed = kMagicSize + 4;
  header.append(63 - (fixed + header.size()) % 64, ' ');
  header += '\n';
  std::vector<uint8_t> out(kMagic, kMagic + kMagicSize);
  out.push_back(1);
  out.push_back(0);
  out.push_back(static_cast<uint8_t>(header.size() & 0xffU));
  out.push_back(static_cast<uint8_t>(header.size() >> 8));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), array.data.begin(), array.data.end());
  return out;
}

}  // namespace rtvm
