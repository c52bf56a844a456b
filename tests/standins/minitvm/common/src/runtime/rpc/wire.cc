#include "wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace minitvm {
namespace {

constexpr int32_t kLongestText = 1 << 16;

sockaddr_in Address(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const std::string number = host == "localhost" ? "127.0.0.1" : host;
  if (inet_pton(AF_INET, number.c_str(), &address.sin_addr) != 1) address.sin_family = AF_UNSPEC;
  return address;
}

bool SendAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = recv(fd, data, size, 0);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

int Listen(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const sockaddr_in address = Address(host, port);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 8) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

int Connect(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Address(host, port);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

bool SendInt(int fd, int32_t value) { return SendAll(fd, reinterpret_cast<const char*>(&value), 4); }

bool ReceiveInt(int fd, int32_t* value) { return ReceiveAll(fd, reinterpret_cast<char*>(value), 4); }

bool SendText(int fd, const std::string& text) {
  return SendInt(fd, static_cast<int32_t>(text.size())) && SendAll(fd, text.data(), text.size());
}

bool ReceiveText(int fd, std::string* text) {
  int32_t size = 0;
  if (!ReceiveInt(fd, &size) || size < 0 || size > kLongestText) return false;
  text->resize(static_cast<size_t>(size));
  return size == 0 || ReceiveAll(fd, &(*text)[0], text->size());
}

}  // namespace minitvm
