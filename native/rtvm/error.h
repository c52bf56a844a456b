// How rtvm fails: one line that says what, where, and expected/found, and an exit code.
#ifndef RTVM_ERROR_H_
#define RTVM_ERROR_H_

#include <stdexcept>
#include <string>
#include <vector>

namespace rtvm {

enum ExitCode : int { kOk = 0, kRunFailed = 1, kBadInput = 2 };

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// The user's flags, files or device are at fault (exit code 2).
[[noreturn]] void BadInput(const std::string& message);
// The model or the runtime failed (exit code 1).
[[noreturn]] void RunFailed(const std::string& message);

std::string Quoted(const std::string& word);
// "'a', 'b'" or "none".
std::string Listed(const std::vector<std::string>& words);
// " (did you mean 'x'?)" when a candidate is near to the word, else "".
std::string DidYouMean(const std::string& word, const std::vector<std::string>& candidates);
// Many lines as one of at most `limit` bytes, so that an error stays one line.
std::string OneLine(const std::string& text, size_t limit = 600);

}  // namespace rtvm

#endif  // RTVM_ERROR_H_
