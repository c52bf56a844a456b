// tvm_rpc server --host=H --port=P --port-end=E --tracker=H:P --key=K
#include <tvm/runtime/base.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// The value of "--name=value", or the fallback.
std::string Flag(int argc, char** argv, const std::string& name, const std::string& fallback) {
  const std::string prefix = "--" + name + "=";
  for (int i = 2; i < argc; ++i) {
    if (std::strncmp(argv[i], prefix.c_str(), prefix.size()) == 0) return argv[i] + prefix.size();
  }
  return fallback;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "server") != 0) {
    std::puts("Usage: tvm_rpc server --host --port --port-end --tracker --key");
    return 0;
  }
  const std::string host = Flag(argc, argv, "host", "127.0.0.1");
  const int port = std::atoi(Flag(argc, argv, "port", "9090").c_str());
  const int port_end = std::atoi(Flag(argc, argv, "port-end", "9099").c_str());
  const std::string tracker = Flag(argc, argv, "tracker", "");
  const std::string key = Flag(argc, argv, "key", "");
  return MiniTVMRPCServerRun(host.c_str(), port, port_end, tracker.c_str(), key.c_str());
}
