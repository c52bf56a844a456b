// TVM's RPC words on a TCP socket: little-endian int32 lengths before strings.
#pragma once

#include <cstdint>
#include <string>

namespace minitvm {

constexpr int32_t kServerMagic = 0xff271;
constexpr int32_t kTrackerMagic = 0x2f271;

int Listen(const std::string& host, int port);
int Connect(const std::string& host, int port);
bool SendInt(int fd, int32_t value);
bool ReceiveInt(int fd, int32_t* value);
bool SendText(int fd, const std::string& text);
bool ReceiveText(int fd, std::string* text);

}  // namespace minitvm
