// JSON (RFC 8259): a reader with line numbers in its errors, and escaping for output.
#ifndef RTVM_JSON_H_
#define RTVM_JSON_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rtvm {

struct Json {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, Json>;

  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;
  bool integral = false;  // the number is written without fraction or exponent and fits `integer`
  int64_t integer = 0;
  std::string string;
  std::vector<Json> items;
  std::vector<Member> members;  // in the text's order; no name twice

  const Json* Find(const std::string& name) const;
  const char* KindName() const;  // "a string"
};

Json ParseJson(const std::string& text, const std::string& where);
// The text in double quotes; bytes that are not UTF-8 become U+FFFD.
std::string JsonQuoted(const std::string& text);

}  // namespace rtvm

#endif  // RTVM_JSON_H_
