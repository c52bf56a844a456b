#include "error.h"

#include <algorithm>
#include <cctype>

namespace rtvm {
namespace {

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

void BadInput(const std::string& message) { throw Error(kBadInput, message); }
void RunFailed(const std::string& message) { throw Error(kRunFailed, message); }

std::string Quoted(const std::string& word) { return "'" + word + "'"; }

std::string Listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + Quoted(word);
  return text.empty() ? "none" : text;
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& candidates) {
  if (word.size() > 64) return "";
  const std::string* best = nullptr;
  size_t best_distance = word.size() / 3 + 1;  // Farther ones are other words, not typing slips.
  for (const std::string& candidate : candidates) {
    if (candidate.size() > 64) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance <= best_distance && (best == nullptr || distance < best_distance)) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : " (did you mean " + Quoted(*best) + "?)";
}

std::string OneLine(const std::string& text, size_t limit) {
  std::string line;
  bool gap = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isspace(byte) || std::iscntrl(byte)) {
      gap = !line.empty();
      continue;
    }
    if (gap) line += ' ';
    gap = false;
    line += c;
    if (line.size() >= limit) return line + "...";
  }
  return line;
}

}  // namespace rtvm
