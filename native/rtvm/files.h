// Whole files in, whole files out (never a half-written one).
#ifndef RTVM_FILES_H_
#define RTVM_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace rtvm {

bool Exists(const std::string& path);
bool IsFolder(const std::string& path);
// Reads a regular file; `what` names it in errors ("input file").
std::vector<uint8_t> ReadFile(const std::string& path, const std::string& what);
// Writes beside `path` and renames, so that readers see the old file or the new one.
void WriteFile(const std::string& path, const std::vector<uint8_t>& bytes, const std::string& what);
// Fails now rather than after a long run when `path` can't be written.
void CheckWritable(const std::string& path, const std::string& what);
std::string AbsolutePath(const std::string& path);

uint32_t Crc32(const uint8_t* data, size_t size);

}  // namespace rtvm

#endif  // RTVM_FILES_H_
