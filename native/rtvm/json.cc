#include "json.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "error.h"

namespace rtvm {
namespace {

constexpr int kMaxDepth = 64;

class Parser {
 public:
  Parser(const std::string& text, const std::string& where) : text_(text), where_(where) {}

  Json Parse() {
    Json value = Value(0);
    Skip();
    if (position_ < text_.size()) Fail("the end");
    return value;
  }

 private:
  [[noreturn]] void Fail(const std::string& expected) const {
    size_t line = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) line += text_[i] == '\n' ? 1 : 0;
    const std::string found =
        position_ < text_.size() ? Quoted(OneLine(text_.substr(position_, 20), 20)) : "the end of the file";
    BadInput(where_ + ", line " + std::to_string(line) + ": not valid JSON: expected " + expected +
             ", found " + found);
  }

  void Skip() {
    while (position_ < text_.size() && std::string(" \t\r\n").find(text_[position_]) != std::string::npos) {
      ++position_;
    }
  }

  bool Take(char wanted) {
    Skip();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  bool TakeWord(const std::string& word) {
    if (text_.compare(position_, word.size(), word) != 0) return false;
    position_ += word.size();
    return true;
  }

  Json Value(int depth) {
    if (depth > kMaxDepth) Fail("at most 64 levels");
    Skip();
    const char next = position_ < text_.size() ? text_[position_] : '\0';
    Json value;
    if (next == '{') return Object(depth);
    if (next == '[') return Array(depth);
    if (next == '"') {
      value.kind = Json::Kind::kString;
      value.string = String();
    } else if (next == '-' || (next >= '0' && next <= '9')) {
      return Number();
    } else if (TakeWord("true") || TakeWord("false")) {
      value.kind = Json::Kind::kBool;
      value.boolean = next == 't';
    } else if (!TakeWord("null")) {
      Fail("a value");
    }
    return value;
  }

  Json Object(int depth) {
    Json value;
    value.kind = Json::Kind::kObject;
    ++position_;
    if (Take('}')) return value;
    do {
      Skip();
      if (position_ >= text_.size() || text_[position_] != '"') Fail("a name in double quotes");
      std::string name = String();
      if (value.Find(name) != nullptr) Fail("no second " + Quoted(OneLine(name, 80)));
      if (!Take(':')) Fail("':'");
      value.members.emplace_back(std::move(name), Value(depth + 1));
    } while (Take(','));
    if (!Take('}')) Fail("',' or '}'");
    return value;
  }

  Json Array(int depth) {
    Json value;
    value.kind = Json::Kind::kArray;
    ++position_;
    if (Take(']')) return value;
    do {
      value.items.push_back(Value(depth + 1));
    } while (Take(','));
    if (!Take(']')) Fail("',' or ']'");
    return value;
  }

  size_t Digits() {
    const size_t begin = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') ++position_;
    if (position_ == begin) Fail("a digit");
    return position_ - begin;
  }

  Json Number() {
    const size_t begin = position_;
    Json value;
    value.kind = Json::Kind::kNumber;
    if (text_[position_] == '-') ++position_;
    const size_t first = position_;
    if (Digits() > 1 && text_[first] == '0') Fail("no leading zero");
    const size_t whole = position_;
    if (position_ < text_.size() && text_[position_] == '.') {
      ++position_;
      Digits();
    }
    if (position_ < text_.size() && (text_[position_] == 'e' || text_[position_] == 'E')) {
      ++position_;
      if (position_ < text_.size() && (text_[position_] == '+' || text_[position_] == '-')) ++position_;
      Digits();
    }
    const char* end = text_.data() + position_;
    value.number = std::strtod(text_.c_str() + begin, nullptr);
    value.integral =
        position_ == whole && std::from_chars(text_.data() + begin, end, value.integer).ec == std::errc();
    return value;
  }

  uint32_t Hex4() {
    if (text_.size() - position_ < 4) Fail("four hexadecimal digits");
    uint32_t code = 0;
    const char* begin = text_.data() + position_;
    if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) Fail("four hexadecimal digits");
    position_ += 4;
    return code;
  }

  void Unicode(std::string* out) {
    uint32_t code = Hex4();
    if (code >= 0xd800 && code < 0xdc00 && TakeWord("\\u")) {
      const uint32_t low = Hex4();
      if (low < 0xdc00 || low > 0xdfff) Fail("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code < 0xe000) {
      Fail("a whole surrogate pair");
    }
    const auto tail = [&](int shift) { out->push_back(static_cast<char>(0x80 | ((code >> shift) & 0x3f))); };
    if (code < 0x80) {
      out->push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out->push_back(static_cast<char>(0xc0 | (code >> 6)));
      tail(0);
    } else if (code < 0x10000) {
      out->push_back(static_cast<char>(0xe0 | (code >> 12)));
      tail(6);
      tail(0);
    } else {
      out->push_back(static_cast<char>(0xf0 | (code >> 18)));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string String() {
    static const std::string kShort = "\"\\/bfnrt";
    static const std::string kMeaning = "\"\\/\b\f\n\r\t";
    std::string value;
    ++position_;
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (static_cast<unsigned char>(c) < 0x20) Fail("no bare control character in a string");
      ++position_;
      if (c == '"') return value;
      if (c != '\\') {
        value += c;
        continue;
      }
      const size_t at = position_ < text_.size() ? kShort.find(text_[position_]) : std::string::npos;
      if (at != std::string::npos) {
        value += kMeaning[at];
        ++position_;
      } else if (TakeWord("u")) {
        Unicode(&value);
      } else {
        Fail("a known escape");
      }
    }
    Fail("the string's closing quote");
  }

  const std::string& text_;
  const std::string& where_;
  size_t position_ = 0;
};

// Length of the UTF-8 sequence at `at`, or 0 when there is none.
size_t Utf8Length(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : (lead & 0xf0) == 0xe0       ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size() - at) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

const Json* Json::Find(const std::string& name) const {
  for (const Member& member : members) {
    if (member.first == name) return &member.second;
  }
  return nullptr;
}

const char* Json::KindName() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "a boolean";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "nothing";
}

Json ParseJson(const std::string& text, const std::string& where) { return Parser(text, where).Parse(); }

std::string JsonQuoted(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t length = Utf8Length(text, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
      ++i;
    } else {
      out.append(text, i, length);
      i += length;
    }
  }
  return out + "\"";
}

}  // namespace rtvm
