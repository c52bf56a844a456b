#include "elf_check.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "error.h"
#include "files.h"

namespace rtvm {
namespace {

struct Machine {
  int number;
  const char* name;
};

constexpr Machine kMachines[] = {{3, "x86"},       {40, "arm"},      {62, "x86_64"},
                                 {164, "hexagon"}, {183, "aarch64"}, {243, "riscv"}};

constexpr int kOwnMachine =
#if defined(__aarch64__)
    183;
#elif defined(__x86_64__)
    62;
#elif defined(__arm__)
    40;
#elif defined(__i386__)
    3;
#elif defined(__riscv)
    243;
#else
    0;
#endif

std::string MachineName(int number) {
  for (const Machine& machine : kMachines) {
    if (machine.number == number) return machine.name;
  }
  return "machine " + std::to_string(number);
}

}  // namespace

void CheckLibrary(const std::string& path) {
  const std::string what = "model library " + path;
  if (IsFolder(path)) BadInput(what + ": expected a file, found a folder");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) BadInput(what + ": can't be opened: " + std::strerror(errno));
  uint8_t head[20] = {};
  const size_t size = std::fread(head, 1, sizeof(head), file.get());
  if (size < sizeof(head) || std::memcmp(head, "\177ELF", 4) != 0) {
    BadInput(what + ": not a shared library: expected an ELF file" +
             (size < sizeof(head) ? ", found only " + std::to_string(size) + " bytes" : std::string()));
  }
  const int type = head[16] | (head[17] << 8);
  const int machine = head[18] | (head[19] << 8);
  const int own_class = sizeof(void*) == 8 ? 2 : 1;
  if (kOwnMachine != 0 && (machine != kOwnMachine || head[4] != own_class)) {
    BadInput(what + ": built for another machine: expected " + MachineName(kOwnMachine) + ", found " +
             MachineName(machine) + (machine == kOwnMachine ? " of the other word size" : ""));
  }
  if (type != 3)
    BadInput(what + ": expected a shared library, found an object file or program; link it with -shared");
}

}  // namespace rtvm
