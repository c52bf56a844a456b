// Decompression of raw DEFLATE data (RFC 1951), enough for numpy's savez_compressed.
#ifndef RTVM_INFLATE_H_
#define RTVM_INFLATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rtvm {

// Fills `out` with exactly `expected` bytes; false when the data is damaged,
// truncated, or holds more or fewer bytes.
bool Inflate(const uint8_t* data, size_t size, size_t expected, std::vector<uint8_t>* out);

}  // namespace rtvm

#endif  // RTVM_INFLATE_H_
