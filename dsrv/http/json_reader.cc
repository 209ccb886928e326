#include "dsrv/http/json_reader.h"

#include "fsm/base/limits.h"

namespace dfsmr::http {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

void AppendUtf8(uint32_t c, std::string* out) {
  const auto put = [out](uint32_t byte) { *out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 63));
    }
    put(0x80 | (c >> 6 & 63));
  }
  put(0x80 | (c & 63));
}

void JsonReader::Fail(std::string what) {
  if (ok()) problem_ = std::move(what) + ", at byte " + std::to_string(at_ + 1);
  at_ = text_.size();
}

void JsonReader::SkipSpace() {
  while (at_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
    ++at_;
  }
}

char JsonReader::Peek() {
  SkipSpace();
  if (at_ >= text_.size()) return '\0';
  const char c = text_[at_];
  return IsDigit(c) || c == '-' ? '0' : c;
}

bool JsonReader::Take(char c) {
  if (Peek() != c || !ok()) return false;
  ++at_;
  return true;
}

void JsonReader::Expect(char c) {
  if (!Take(c)) Fail(std::string("'") + c + "' is missing");
}

std::string JsonReader::String() {
  std::string out;
  if (!Take('"')) {
    Fail("a string is missing");
    return out;
  }
  while (ok()) {
    if (at_ >= text_.size()) {
      Fail("a string does not end");
      break;
    }
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) {
      Fail("a string holds a control character, which is written as \\u and four digits");
      break;
    }
    ++at_;
    if (c == '"') return out;
    if (c == '\\') {
      Escape(&out);
    } else {
      out += c;
    }
  }
  return {};
}

std::optional<uint32_t> JsonReader::Hex4() {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : ' ';
    const char lower = static_cast<char>(c | 0x20);
    if (IsDigit(c)) {
      number = number << 4 | static_cast<uint32_t>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      number = number << 4 | static_cast<uint32_t>(lower - 'a' + 10);
    } else {
      Fail("\\u takes four hexadecimal digits");
      return std::nullopt;
    }
    ++at_;
  }
  return number;
}

void JsonReader::Escape(std::string* out) {
  constexpr std::string_view kFrom = "\"\\/bfnrt";
  constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (const size_t which = kFrom.find(c); c != '\0' && which != kFrom.npos) {
    ++at_;
    *out += kTo[which];
    return;
  }
  if (c != 'u') return Fail("a backslash is followed by one of \" \\ / b f n r t u");
  ++at_;
  auto first = Hex4();
  if (!first) return;
  if (*first >= 0xd800 && *first < 0xdc00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    auto second = Hex4();
    if (!second) return;
    if (*second < 0xdc00 || *second > 0xdfff) return Fail("half of a surrogate pair is missing");
    return AppendUtf8(0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00), out);
  }
  if (*first >= 0xd800 && *first <= 0xdfff) return Fail("half of a surrogate pair is missing");
  AppendUtf8(*first, out);
}

std::string_view JsonReader::Number() {
  SkipSpace();
  const size_t begin = at_;
  const auto digits = [this] {
    const size_t from = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ > from;
  };
  const auto is = [this](char c) {
    return at_ < text_.size() && (text_[at_] | 0x20) == (c | 0x20);
  };
  if (is('-')) ++at_;
  const size_t whole = at_;
  bool sound = digits() && (text_[whole] != '0' || at_ == whole + 1);
  if (sound && is('.')) sound = (++at_, digits());
  if (sound && is('e')) {
    ++at_;
    if (is('+') || is('-')) ++at_;
    sound = digits();
  }
  if (!sound) Fail("this is no number of JSON");
  return sound ? text_.substr(begin, at_ - begin) : std::string_view();
}

std::optional<bool> JsonReader::Literal() {
  SkipSpace();
  for (const std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return word == "null" ? std::nullopt : std::optional(word == "true");
  }
  Fail("this is no value of JSON");
  return std::nullopt;
}

std::string_view JsonReader::Value() {
  SkipSpace();
  const size_t begin = at_;
  SkipValue(0);
  return ok() ? text_.substr(begin, at_ - begin) : std::string_view();
}

void JsonReader::SkipValue(size_t depth) {
  if (depth > limits::kJsonDepth) return Fail("the JSON is nested too deep");
  const char first = Peek();
  if (first == '"') {
    String();
  } else if (first == '0') {
    Number();
  } else if (first == '{' || first == '[') {
    const char last = first == '{' ? '}' : ']';
    Take(first);
    if (Take(last)) return;
    do {
      if (first == '{') {
        String();
        Expect(':');
      }
      SkipValue(depth + 1);
    } while (Take(','));
    Expect(last);
  } else {
    Literal();
  }
}

void JsonReader::End() {
  if (Peek() != '\0' || at_ < text_.size()) Fail("something follows the value");
}

}  // namespace dfsmr::http
