// A server that binds, registers with a TVM tracker and shakes hands; it serves no functions.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <tvm/runtime/base.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "wire.h"

namespace minitvm {
namespace {

constexpr auto kRetry = std::chrono::seconds(5);
constexpr int kTrackerPut = 3;
constexpr int kTrackerUpdateInfo = 5;

// Tracker messages are JSON texts; each is answered with one.
bool Tell(int fd, const std::string& message) {
  std::string answer;
  return SendText(fd, message) && ReceiveText(fd, &answer);
}

int Register(const std::string& tracker, int port, const std::string& key) {
  const size_t colon = tracker.rfind(':');
  if (colon == std::string::npos) return -1;
  const int fd = Connect(tracker.substr(0, colon), std::atoi(tracker.c_str() + colon + 1));
  if (fd < 0) return -1;
  int32_t magic = 0;
  const std::string number = std::to_string(port);
  const std::string info = "[" + std::to_string(kTrackerUpdateInfo) + ", {\"key\": \"server:" + key +
                           "\", \"addr\": [null, " + number + "]}]";
  const std::string put = "[" + std::to_string(kTrackerPut) + ", \"" + key + "\", [" + number + ", \"" + key +
                          ":0.5\"], null]";
  if (SendInt(fd, kTrackerMagic) && ReceiveInt(fd, &magic) && magic == kTrackerMagic && Tell(fd, info) &&
      Tell(fd, put)) {
    return fd;
  }
  close(fd);
  return -1;
}

void ShakeHands(int fd, const std::string& key) {
  int32_t magic = 0;
  std::string client;
  if (!ReceiveInt(fd, &magic) || magic != kServerMagic || !ReceiveText(fd, &client)) return;
  SendInt(fd, kServerMagic);
  SendText(fd, "server:" + key);
}

void Serve(int listener, const std::string& tracker, int port, const std::string& key) {
  int tracker_fd = -1;
  for (;;) {
    if (!tracker.empty() && tracker_fd < 0) {
      tracker_fd = Register(tracker, port, key);
      if (tracker_fd < 0) std::printf("Cannot connect to tracker %s, retry in 5 secs...\n", tracker.c_str());
      std::fflush(stdout);
    }
    const bool waiting = !tracker.empty() && tracker_fd < 0;
    pollfd ready{listener, POLLIN, 0};
    if (poll(&ready, 1, waiting ? static_cast<int>(std::chrono::milliseconds(kRetry).count()) : -1) <= 0) continue;
    const int client = accept(listener, nullptr, nullptr);
    if (client < 0) continue;
    ShakeHands(client, key);
    close(client);
  }
}

}  // namespace
}  // namespace minitvm

int MiniTVMRPCServerRun(const char* host, int port, int port_end, const char* tracker, const char* key) {
  int listener = -1;
  int bound = -1;
  for (int candidate = port; candidate < port_end && listener < 0; ++candidate) {
    listener = minitvm::Listen(host, candidate);
    if (listener >= 0) bound = candidate;
  }
  std::printf("bind to %s:%d\n", host, bound);
  std::fflush(stdout);
  // The real server, too, goes on running when it could bind nothing.
  if (listener < 0) {
    for (;;) pause();
  }
  minitvm::Serve(listener, tracker, bound, key);
  return 0;
}
