#include "program_cache.h"

#include <cstring>

#include "error.h"
#include "files.h"

namespace rtvm {
namespace {

// Layout: magic, u32 key size, key, u32 checksum of the programs, programs up to the end.
constexpr char kMagic[] = "RTVMCL01";
constexpr size_t kMagicSize = 8;

uint32_t U32(const uint8_t* p) {
  return p[0] | (static_cast<uint32_t>(p[1]) << 8) | (static_cast<uint32_t>(p[2]) << 16) |
         (static_cast<uint32_t>(p[3]) << 24);
}

void Put32(std::vector<uint8_t>* out, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<uint8_t>(value >> shift));
}

}  // namespace

std::optional<std::vector<uint8_t>> ReadProgramCache(const std::string& path, const std::string& key) {
  const std::vector<uint8_t> bytes = ReadFile(path, "program cache");
  const std::string bad = "program cache " + path + ": ";
  const size_t fixed = kMagicSize + 8;
  if (bytes.size() < fixed || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0) {
    BadInput(bad + "not a cache that rtvm wrote; delete it or name another file");
  }
  const size_t key_size = U32(bytes.data() + kMagicSize);
  if (key_size > bytes.size() - fixed) BadInput(bad + "damaged; delete it");
  const uint8_t* text = bytes.data() + kMagicSize + 4;
  const std::vector<uint8_t> programs(text + key_size + 4, bytes.data() + bytes.size());
  if (Crc32(programs.data(), programs.size()) != U32(text + key_size)) BadInput(bad + "damaged; delete it");
  if (std::string(text, text + key_size) != key) return std::nullopt;
  return programs;
}

void WriteProgramCache(const std::string& path, const std::string& key,
                       const std::vector<uint8_t>& programs) {
  std::vector<uint8_t> bytes(kMagic, kMagic + kMagicSize);
  Put32(&bytes, static_cast<uint32_t>(key.size()));
  bytes.insert(bytes.end(), key.begin(), key.end());
  Put32(&bytes, Crc32(programs.data(), programs.size()));
  bytes.insert(bytes.end(), programs.begin(), programs.end());
  WriteFile(path, bytes, "program cache");
}

}  // namespace rtvm
