#include "files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "error.h"

namespace rtvm {
namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

std::string Reason() { return std::strerror(errno); }

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

bool Exists(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0;
}

bool IsFolder(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::vector<uint8_t> ReadFile(const std::string& path, const std::string& what) {
  if (IsFolder(path)) BadInput(what + " " + path + ": expected a file, found a folder");
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) BadInput(what + " " + path + ": can't be opened: " + Reason());
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> chunk(1 << 16);
  for (;;) {
    const size_t got = std::fread(chunk.data(), 1, chunk.size(), file.get());
    bytes.insert(bytes.end(), chunk.data(), chunk.data() + got);
    if (got < chunk.size()) break;
  }
  if (std::ferror(file.get()) != 0) BadInput(what + " " + path + ": can't be read: " + Reason());
  return bytes;
}

void WriteFile(const std::string& path, const std::vector<uint8_t>& bytes, const std::string& what) {
  const std::string part = path + ".part" + std::to_string(::getpid());
  File file(std::fopen(part.c_str(), "wb"));
  if (!file) BadInput(what + " " + path + ": can't be created: " + Reason());
  const bool written =
      std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size() && std::fflush(file.get()) == 0;
  std::string reason = Reason();
  bool closed = std::fclose(file.release()) == 0;
  if (written && closed && std::rename(part.c_str(), path.c_str()) == 0) return;
  if (written) reason = Reason();
  std::remove(part.c_str());
  RunFailed(what + " " + path + ": can't be written: " + reason);
}

void CheckWritable(const std::string& path, const std::string& what) {
  if (IsFolder(path)) BadInput(what + " " + path + ": expected a file name, found a folder");
  const std::string folder = FolderOf(path);
  if (!IsFolder(folder)) BadInput(what + " " + path + ": no folder " + folder);
  if (::access(folder.c_str(), W_OK) != 0) {
    BadInput(what + " " + path + ": folder " + folder + " is not writable: " + Reason());
  }
}

std::string AbsolutePath(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> full(::realpath(path.c_str(), nullptr), &std::free);
  return full ? std::string(full.get()) : path;
}

uint32_t Crc32(const uint8_t* data, size_t size) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0xedb88320U : 0U);
      entries[i] = value;
    }
    return entries;
  }();
  uint32_t crc = 0xffffffffU;
  for (size_t i = 0; i < size; ++i) crc = table[(crc ^ data[i]) & 0xffU] ^ (crc >> 8);
  return crc ^ 0xffffffffU;
}

}  // namespace rtvm
