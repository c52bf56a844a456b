// The file of --pre-compiled: OpenCL program binaries, valid for one model on one device and driver.
#ifndef RTVM_PROGRAM_CACHE_H_
#define RTVM_PROGRAM_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rtvm {

// The programs in `path`, or nullopt when they were made for another `key` (other model, device
// or driver). A damaged file is an error: it may not be ours to replace.
std::optional<std::vector<uint8_t>> ReadProgramCache(const std::string& path, const std::string& key);
void WriteProgramCache(const std::string& path, const std::string& key, const std::vector<uint8_t>& programs);

}  // namespace rtvm

#endif  // RTVM_PROGRAM_CACHE_H_
