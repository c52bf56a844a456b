#include "npz.h"

#include <limits>

#include "error.h"
#include "files.h"
#include "inflate.h"
#include "npy.h"

namespace rtvm {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kCentralHeader = 0x02014b50;
constexpr uint32_t kEndOfDirectory = 0x06054b50;
constexpr size_t kLocalSize = 30;
constexpr size_t kCentralSize = 46;
constexpr size_t kEndSize = 22;
constexpr uint32_t kZip64Mark = 0xffffffffU;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kUtf8Name = 1 << 11;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint64_t kMaxDeflateRatio = 1032;  // DEFLATE can't do better
constexpr const char* kSuffix = ".npy";

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size, std::string where)
      : data_(data), size_(size), where_(std::move(where)) {}

  size_t size() const { return size_; }
  const uint8_t* At(size_t offset, size_t count) const {
    if (offset > size_ || count > size_ - offset) Damaged("it ends too early");
    return data_ + offset;
  }
  uint16_t U16(size_t offset) const {
    const uint8_t* p = At(offset, 2);
    return static_cast<uint16_t>(p[0] | (p[1] << 8));
  }
  uint32_t U32(size_t offset) const {
    return static_cast<uint32_t>(U16(offset)) | (static_cast<uint32_t>(U16(offset + 2)) << 16);
  }
  [[noreturn]] void Damaged(const std::string& how) const {
    BadInput(where_ + ": damaged .npz file: " + how);
  }

 private:
  const uint8_t* data_;
  size_t size_;
  std::string where_;
};

struct Member {
  std::string name;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint32_t packed = 0;
  uint32_t unpacked = 0;
  uint32_t offset = 0;
};

size_t FindEnd(const Bytes& zip, const std::string& where) {
  if (zip.size() < kEndSize || (zip.U32(0) != kLocalHeader && zip.U32(0) != kEndOfDirectory)) {
    BadInput(where + ": not an .npz file: expected a zip archive as numpy.savez writes it");
  }
  const size_t last = zip.size() - kEndSize;
  const size_t reach = std::numeric_limits<uint16_t>::max();  // the longest comment
  for (size_t back = 0; back <= last && back <= reach; ++back) {
    const size_t at = last - back;
    if (zip.U32(at) == kEndOfDirectory && zip.U16(at + 20) == back) return at;
  }
  zip.Damaged("no directory at its end (truncated?)");
}

std::vector<Member> ReadDirectory(const Bytes& zip, size_t end, const std::string& where) {
  const size_t count = zip.U16(end + 10);
  const uint32_t begin = zip.U32(end + 16);
  if (zip.U16(end + 4) != 0 || zip.U16(end + 6) != 0) zip.Damaged("it is one part of several");
  if (begin == kZip64Mark || count == 0xffff)
    BadInput(where + ": zip64 archives (over 4 GiB) are not supported");
  if (begin > end) zip.Damaged("its directory lies outside");
  std::vector<Member> members;
  size_t at = begin;
  for (size_t i = 0; i < count; ++i) {
    if (at > end || end - at < kCentralSize || zip.U32(at) != kCentralHeader) {
      zip.Damaged("its directory is cut off");
    }
    Member member;
    member.flags = zip.U16(at + 8);
    member.method = zip.U16(at + 10);
    member.crc = zip.U32(at + 16);
    member.packed = zip.U32(at + 20);
    member.unpacked = zip.U32(at + 24);
    member.offset = zip.U32(at + 42);
    const size_t name_size = zip.U16(at + 28);
    const uint8_t* name = zip.At(at + kCentralSize, name_size);
    member.name.assign(name, name + name_size);
    if (member.packed == kZip64Mark || member.unpacked == kZip64Mark || member.offset == kZip64Mark) {
      BadInput(where + ": zip64 archives (over 4 GiB) are not supported");
    }
    members.push_back(member);
    at += kCentralSize + name_size + zip.U16(at + 30) + zip.U16(at + 32);
  }
  if (at > end) zip.Damaged("its directory is cut off");
  return members;
}

std::vector<uint8_t> Unpack(const Bytes& zip, const Member& member, const std::string& where) {
  if ((member.flags & kEncrypted) != 0) BadInput(where + ": encrypted archives are not supported");
  if (zip.U32(member.offset) != kLocalHeader) zip.Damaged("no data for " + Quoted(OneLine(member.name, 80)));
  const size_t begin =
      member.offset + kLocalSize + zip.U16(member.offset + size_t{26}) + zip.U16(member.offset + size_t{28});
  const uint8_t* packed = zip.At(begin, member.packed);
  std::vector<uint8_t> content;
  if (member.method == kStored) {
    if (member.packed != member.unpacked) zip.Damaged("two sizes for " + Quoted(OneLine(member.name, 80)));
    content.assign(packed, packed + member.packed);
  } else if (member.method == kDeflated) {
    if (member.unpacked > uint64_t{member.packed} * kMaxDeflateRatio ||
        !Inflate(packed, member.packed, member.unpacked, &content)) {
      BadInput(where + ": damaged compressed data");
    }
  } else {
    BadInput(where + ": compression method " + std::to_string(member.method) +
             " is not supported; save with numpy.savez or savez_compressed");
  }
  if (Crc32(content.data(), content.size()) != member.crc) {
    BadInput(where + ": damaged data: its checksum differs");
  }
  return content;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void Put16(std::vector<uint8_t>* out, size_t value) {
  out->push_back(static_cast<uint8_t>(value & 0xffU));
  out->push_back(static_cast<uint8_t>((value >> 8) & 0xffU));
}

void Put32(std::vector<uint8_t>* out, uint32_t value) {
  Put16(out, value & 0xffffU);
  Put16(out, value >> 16);
}

// The fields that local and central headers share: version needed .. extra length.
void PutCommon(std::vector<uint8_t>* out, const Member& member) {
  constexpr size_t kVersion = 20;
  constexpr size_t kDate1980 = (1 << 5) | 1;  // a fixed date: equal arrays give equal bytes
  Put16(out, kVersion);
  Put16(out, kUtf8Name);
  Put16(out, kStored);
  Put16(out, 0);
  Put16(out, kDate1980);
  Put32(out, member.crc);
  Put32(out, member.packed);
  Put32(out, member.unpacked);
  Put16(out, member.name.size());
  Put16(out, 0);
}

}  // namespace

NamedArrays ParseNpz(const uint8_t* data, size_t size, const std::string& where) {
  const Bytes zip(data, size, where);
  const std::vector<Member> members = ReadDirectory(zip, FindEnd(zip, where), where);
  uint64_t packed = 0;
  for (const Member& member : members) packed += member.packed;
  // Members that share bytes would let a small file fill the memory.
  if (packed > size) zip.Damaged("its members overlap");
  NamedArrays arrays;
  for (const Member& member : members) {
    const std::string shown = where + ": " + Quoted(OneLine(member.name, 80));
    if (!EndsWith(member.name, kSuffix)) BadInput(shown + ": expected only .npy members");
    const std::string name = member.name.substr(0, member.name.size() - 4);
    if (Find(arrays, name) != nullptr) BadInput(shown + ": the name is there twice");
    const std::vector<uint8_t> content = Unpack(zip, member, shown);
    arrays.emplace_back(name, ParseNpy(content.data(), content.size(), shown));
  }
  return arrays;
}

NamedArrays ReadNpz(const std::string& path, const std::string& what) {
  const std::vector<uint8_t> bytes = ReadFile(path, what);
  return ParseNpz(bytes.data(), bytes.size(), what + " " + path);
}

std::vector<uint8_t> FormatNpz(const NamedArrays& arrays) {
  std::vector<uint8_t> out;
  std::vector<Member> members;
  for (const auto& [name, array] : arrays) {
    const std::vector<uint8_t> content = FormatNpy(array);
    const std::string file = name + kSuffix;
    if (uint64_t{out.size()} + content.size() + file.size() + kLocalSize >= kZip64Mark) {
      RunFailed("array " + Quoted(name) + ": an .npz over 4 GiB can't be written");
    }
    Member member;
    member.name = file;
    member.crc = Crc32(content.data(), content.size());
    member.packed = static_cast<uint32_t>(content.size());
    member.unpacked = member.packed;
    member.offset = static_cast<uint32_t>(out.size());
    Put32(&out, kLocalHeader);
    PutCommon(&out, member);
    out.insert(out.end(), file.begin(), file.end());
    out.insert(out.end(), content.begin(), content.end());
    members.push_back(std::move(member));
  }
  const size_t directory = out.size();
  for (const Member& member : members) {
    Put32(&out, kCentralHeader);
    Put16(&out, 20);  // made by: format version 2.0
    PutCommon(&out, member);
    Put16(&out, 0);  // no comment
    Put16(&out, 0);  // first disk
    Put16(&out, 0);  // no internal attributes
    Put32(&out, 0);  // no external attributes
    Put32(&out, member.offset);
    out.insert(out.end(), member.name.begin(), member.name.end());
  }
  const size_t directory_size = out.size() - directory;
  Put32(&out, kEndOfDirectory);
  Put16(&out, 0);
  Put16(&out, 0);
  Put16(&out, members.size());
  Put16(&out, members.size());
  Put32(&out, static_cast<uint32_t>(directory_size));
  Put32(&out, static_cast<uint32_t>(directory));
  Put16(&out, 0);
  return out;
}

void WriteNpz(const std::string& path, const NamedArrays& arrays, const std::string& what) {
  WriteFile(path, FormatNpz(arrays), what);
}

}  // namespace rtvm
