// Feeds damaged files to rtvm's readers (.npz, .npy, model.json). They must refuse them with an
// rtvm::Error or read them; anything else is a fault that the sanitizers or abort() show.
//
// With clang's runtime, coverage-guided:
//   clang++ -std=c++17 -g -fsanitize=fuzzer,address,undefined -DRTVM_LIBFUZZER -I.. fuzz.cc <readers> -o fuzz
// With any compiler, the same mutations on every machine:
//   fuzz mutate SEED COUNT FILE...   and   fuzz copy IN.npz OUT.npz

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "error.h"
#include "files.h"
#include "json.h"
#include "npy.h"
#include "npz.h"

namespace {

using Bytes = std::vector<uint8_t>;

[[noreturn]] void Fault(const char* what) {
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

bool Same(const rtvm::NamedArrays& a, const rtvm::NamedArrays& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const rtvm::Array& left = a[i].second;
    const rtvm::Array& right = b[i].second;
    if (a[i].first != b[i].first || left.dtype != right.dtype || left.shape != right.shape) return false;
    if (left.data != right.data) return false;
  }
  return true;
}

// What is read must survive being written and read again.
void ReadNpz(const Bytes& bytes) {
  const rtvm::NamedArrays arrays = rtvm::ParseNpz(bytes.data(), bytes.size(), "fuzz");
  const Bytes written = rtvm::FormatNpz(arrays);
  if (!Same(arrays, rtvm::ParseNpz(written.data(), written.size(), "fuzz"))) Fault("arrays changed");
}

void ReadNpy(const Bytes& bytes) {
  const rtvm::Array array = rtvm::ParseNpy(bytes.data(), bytes.size(), "fuzz");
  const Bytes written = rtvm::FormatNpy(array);
  if (!Same({{"x", array}}, {{"x", rtvm::ParseNpy(written.data(), written.size(), "fuzz")}})) {
    Fault("an array changed");
  }
}

void ReadJson(const Bytes& bytes) {
  const rtvm::Json value = rtvm::ParseJson(std::string(bytes.begin(), bytes.end()), "fuzz");
  const std::string quoted = rtvm::JsonQuoted(value.string);
  rtvm::ParseJson(quoted, "fuzz");
}

enum class Format { kNpz, kNpy, kJson };

Format FormatOf(const Bytes& bytes) {
  if (bytes.size() > 6 && std::memcmp(bytes.data(), "\x93NUMPY", 6) == 0) return Format::kNpy;
  return !bytes.empty() && bytes[0] == '{' ? Format::kJson : Format::kNpz;
}

// True when the reader takes the file.
bool Read(const Bytes& bytes, Format format) {
  try {
    if (format == Format::kNpz) ReadNpz(bytes);
    if (format == Format::kNpy) ReadNpy(bytes);
    if (format == Format::kJson) ReadJson(bytes);
    return true;
  } catch (const rtvm::Error& error) {
    const std::string message = error.what();
    if (message.empty() || message.find('\n') != std::string::npos) Fault("an error that is not one line");
    return false;
  }
}

}  // namespace

#ifdef RTVM_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes(data, data + size);
  Read(bytes, FormatOf(bytes));
  return 0;
}

#else

namespace {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  size_t Below(size_t bound) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return bound == 0 ? 0 : static_cast<size_t>((state_ >> 33) % bound);
  }

 private:
  uint64_t state_;
};

void Mutate(Random* random, Bytes* bytes) {
  static const uint32_t kNumbers[] = {0,          1,          0x7f,       0xff,       0x7fff,    0xffff,
                                      0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x02014b50};
  const size_t at = random->Below(bytes->size());
  switch (random->Below(7)) {
    case 0:
      (*bytes)[at] ^= static_cast<uint8_t>(1U << random->Below(8));
      break;
    case 1:
      (*bytes)[at] = static_cast<uint8_t>(random->Below(256));
      break;
    case 2:
      bytes->resize(at);
      break;
    case 3:
      bytes->insert(bytes->begin() + static_cast<std::ptrdiff_t>(at), 1 + random->Below(8), (*bytes)[at]);
      break;
    case 4: {
      const size_t end = at + random->Below(bytes->size() - at);
      const auto begin = bytes->begin();
      bytes->erase(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end));
      break;
    }
    case 5: {
      const uint32_t number = kNumbers[random->Below(sizeof(kNumbers) / sizeof(kNumbers[0]))];
      const size_t width = random->Below(2) == 0 ? 2 : 4;
      for (size_t i = 0; i < width && at + i < bytes->size(); ++i) {
        (*bytes)[at + i] = static_cast<uint8_t>(number >> (8 * i));
      }
      break;
    }
    default: {
      // The last bytes hold the archive's directory, where damage matters most.
      const size_t back = 1 + random->Below(bytes->size() < 90 ? bytes->size() : 90);
      (*bytes)[bytes->size() - back] = static_cast<uint8_t>(random->Below(256));
    }
  }
}

int MutateAll(uint64_t seed, long count, const std::vector<std::string>& files) {
  std::vector<Bytes> originals;
  for (const std::string& file : files) {
    originals.push_back(rtvm::ReadFile(file, "file"));
    if (!Read(originals.back(), FormatOf(originals.back()))) rtvm::BadInput(file + " can't be read unharmed");
  }
  Random random(seed);
  long taken = 0;
  for (long i = 0; i < count; ++i) {
    const Bytes& original = originals[static_cast<size_t>(i) % originals.size()];
    Bytes bytes = original;
    for (size_t edits = 1 + random.Below(4); edits > 0 && !bytes.empty(); --edits) Mutate(&random, &bytes);
    taken += Read(bytes, FormatOf(original)) ? 1 : 0;
  }
  std::printf("%ld files: %ld read, %ld refused\n", count, taken, count - taken);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "copy") {
      rtvm::WriteNpz(words[2], rtvm::ReadNpz(words[1], "file"), "file");
      return 0;
    }
    if (words.size() >= 4 && words[0] == "mutate") {
      return MutateAll(std::strtoull(words[1].c_str(), nullptr, 10),
                       std::strtol(words[2].c_str(), nullptr, 10), {words.begin() + 3, words.end()});
    }
  } catch (const rtvm::Error& error) {
    std::fprintf(stderr, "fuzz: %s\n", error.what());
    return error.code();
  }
  std::fprintf(stderr, "usage: fuzz mutate SEED COUNT FILE... | fuzz copy IN.npz OUT.npz\n");
  return 2;
}

#endif  // RTVM_LIBFUZZER
