#include "fsm/base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "fsm/base/limits.h"

namespace dfsmr::json {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool EndsScalar(char c) {
  return IsSpace(c) || c == ',' || c == ':' || c == ']' || c == '}' || c == '[' || c == '{' ||
         c == '"';
}

size_t SkipSpace(std::string_view text, size_t i) {
  while (i < text.size() && IsSpace(text[i])) ++i;
  return i;
}

// After the value that starts at `i`; `i` itself when none does. Brackets are counted, not matched.
size_t ValueEnd(std::string_view text, size_t i) {
  size_t depth = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"') {
      i = StringEnd(text, i);
    } else if (c == '{' || c == '[') {
      ++depth;
      ++i;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return i;
      --depth;
      ++i;
    } else if (depth > 0) {
      ++i;
      continue;
    } else {
      while (i < text.size() && !EndsScalar(text[i])) ++i;
    }
    if (depth == 0) return i;
  }
  return i;
}

// Where the members or items of what `open` begins start; npos when it does not.
size_t Inside(std::string_view text, char open) {
  size_t i = SkipSpace(text, 0);
  return i < text.size() && text[i] == open ? i + 1 : std::string_view::npos;
}

size_t SkipComma(std::string_view text, size_t i) {
  i = SkipSpace(text, i);
  return i < text.size() && text[i] == ',' ? SkipSpace(text, i + 1) : i;
}

struct RawMember {
  std::string_view name;  // with its quotes
  std::string_view value;
};

std::optional<RawMember> NextMember(std::string_view text, size_t* at) {
  size_t name = SkipComma(text, *at);
  if (name >= text.size() || text[name] != '"') return std::nullopt;
  const size_t name_end = StringEnd(text, name);
  size_t value = SkipSpace(text, name_end);
  if (value >= text.size() || text[value] != ':') return std::nullopt;
  value = SkipSpace(text, value + 1);
  *at = ValueEnd(text, value);
  if (*at == value) return std::nullopt;
  return RawMember{text.substr(name, name_end - name), text.substr(value, *at - value)};
}

bool Names(std::string_view quoted, std::string_view name) {
  if (quoted.find('\\') != std::string_view::npos) return Unquote(quoted) == name;
  return quoted.size() == name.size() + 2 && quoted.substr(1, name.size()) == name;
}

void AppendUtf8(uint32_t c, std::string* out) {
  auto byte = [out](uint32_t value) { *out += static_cast<char>(value); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | (c >> 6));
    byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | (c >> 12));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | (c >> 18));
    byte(0x80 | ((c >> 12) & 0x3F));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  }
}

constexpr uint32_t kNoUnit = UINT32_MAX;
// The four hex digits at `i`.
uint32_t HexUnit(std::string_view text, size_t i) {
  if (i + 4 > text.size()) return kNoUnit;
  uint32_t value = 0;
  for (char c : text.substr(i, 4)) {
    uint32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A' + 10);
    } else {
      return kNoUnit;
    }
    value = value * 16 + digit;
  }
  return value;
}

// `i` is after the `\u`; what is no character becomes U+FFFD. Returns where it goes on.
size_t AppendUnicode(std::string_view text, size_t i, std::string* out) {
  constexpr uint32_t kReplacement = 0xFFFD;
  uint32_t unit = HexUnit(text, i);
  if (unit == kNoUnit) {
    AppendUtf8(kReplacement, out);
    return i;
  }
  i += 4;
  if (unit >= 0xD800 && unit < 0xDC00 && text.substr(i, 2) == "\\u") {
    const uint32_t low = HexUnit(text, i + 2);
    if (low != kNoUnit && low >= 0xDC00 && low < 0xE000) {
      AppendUtf8(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00), out);
      return i + 6;
    }
  }
  AppendUtf8(unit >= 0xD800 && unit < 0xE000 ? kReplacement : unit, out);
  return i;
}

char Unescaped(char c) {
  switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;
  }
}

void AppendMember(std::string_view name, std::string_view value, std::string* out) {
  if (out->size() > 1) *out += ',';
  *out += name;
  *out += ':';
  *out += value;
}

}  // namespace

size_t StringEnd(std::string_view text, size_t open) {
  size_t i = open + 1;
  while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
  return i < text.size() ? i + 1 : text.size();
}

Kind KindOf(std::string_view value) {
  const size_t i = SkipSpace(value, 0);
  if (i == value.size()) return Kind::kNull;
  switch (value[i]) {
    case 'n': return Kind::kNull;
    case 't':
    case 'f': return Kind::kBoolean;
    case '"': return Kind::kString;
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    default: return Kind::kNumber;
  }
}

std::string_view Trim(std::string_view value) {
  value.remove_prefix(SkipSpace(value, 0));
  while (!value.empty() && IsSpace(value.back())) value.remove_suffix(1);
  return value;
}

std::optional<std::string_view> Member(std::string_view object, std::string_view name) {
  std::optional<std::string_view> found;
  size_t at = Inside(object, '{');
  if (at == std::string_view::npos) return found;
  while (auto member = NextMember(object, &at)) {
    if (Names(member->name, name)) found = member->value;
  }
  return found;
}

std::optional<std::string_view> Item(std::string_view array, size_t index) {
  size_t at = 0;
  std::optional<std::string_view> item = NextItem(array, &at);
  for (size_t i = 0; item && i < index; ++i) item = NextItem(array, &at);
  return item;
}

void ForEachMember(
    std::string_view object,
    const std::function<bool(std::string_view name, std::string_view value)>& visit) {
  size_t at = Inside(object, '{');
  if (at == std::string_view::npos) return;
  while (auto member = NextMember(object, &at)) {
    if (!visit(Unquote(member->name), member->value)) return;
  }
}

void ForEachItem(std::string_view array, const std::function<bool(std::string_view item)>& visit) {
  size_t at = 0;
  while (auto item = NextItem(array, &at)) {
    if (!visit(*item)) return;
  }
}

std::optional<std::string_view> NextItem(std::string_view array, size_t* at) {
  if (*at == 0) *at = Inside(array, '[');
  if (*at >= array.size()) return std::nullopt;
  const size_t begin = SkipComma(array, *at);
  const size_t end = ValueEnd(array, begin);
  *at = end == begin ? array.size() : end;
  if (end == begin) return std::nullopt;
  return array.substr(begin, end - begin);
}

std::string Unquote(std::string_view string) {
  string = Trim(string);
  if (string.starts_with('"')) {
    const size_t end = StringEnd(string, 0);
    const bool closed = end > 1 && string[end - 1] == '"';
    string = string.substr(1, end - (closed ? 2 : 1));
  }
  std::string out;
  out.reserve(string.size());
  for (size_t i = 0; i < string.size();) {
    const size_t escape = std::min(string.find('\\', i), string.size());
    out += string.substr(i, escape - i);
    if (escape + 1 >= string.size()) break;
    i = escape + 2;
    if (string[escape + 1] == 'u') {
      i = AppendUnicode(string, i, &out);
    } else {
      out += Unescaped(string[escape + 1]);
    }
  }
  return out;
}

std::string Quote(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  out.reserve(text.size() + 2);
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += c;
    }
  }
  out += '"';
  return out;
}

namespace {

// digits × 10^exponent, without zeros at either end of the digits; none of them: it is 0.
struct Number {
  bool negative = false;
  std::string digits;
  int64_t exponent = 0;
  friend bool operator==(const Number&, const Number&) = default;
};

Number ReadNumber(std::string_view text) {
  Number number;
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  if (e < text.size()) {
    const size_t sign = text.substr(e + 1, 1) == "+" ? 2 : 1;
    const char* const begin = std::min(text.data() + e + sign, text.data() + text.size());
    const auto read = std::from_chars(begin, text.data() + text.size(), number.exponent);
    // So large that it is as good as any other.
    constexpr int64_t kMost = int64_t{1} << 40;
    if (read.ec == std::errc::result_out_of_range) number.exponent = *begin == '-' ? -kMost : kMost;
    number.exponent = std::clamp(number.exponent, -kMost, kMost);
  }
  bool fraction = false;
  for (char c : text.substr(0, e)) {
    if (c == '-') number.negative = true;
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    if (fraction) --number.exponent;
    if (c != '0' || !number.digits.empty()) number.digits += c;
  }
  while (number.digits.ends_with('0')) {
    number.digits.pop_back();
    ++number.exponent;
  }
  return number.digits.empty() ? Number() : number;
}

struct Part;
struct Value {
  std::string_view text;
  // Of an object by name, each once; of an array in their order, without names.
  std::vector<Part> parts;
};
struct Part {
  std::string name;
  Value value;
};

// The value at `*at`, which is left after it. What is nested too deep is kept as text.
Value ReadValue(std::string_view text, size_t* at, size_t depth) {
  *at = SkipSpace(text, *at);
  const size_t begin = *at;
  const char open = begin < text.size() ? text[begin] : '\0';
  Value value;
  if ((open != '{' && open != '[') || depth == 0) {
    *at = ValueEnd(text, begin);
    value.text = text.substr(begin, *at - begin);
    return value;
  }
  ++*at;
  for (*at = SkipComma(text, *at); *at < text.size(); *at = SkipComma(text, *at)) {
    std::string name;
    if (open == '{') {
      if (text[*at] != '"') break;
      const size_t end = StringEnd(text, *at);
      name = Unquote(text.substr(*at, end - *at));
      *at = SkipSpace(text, end);
      if (*at == text.size() || text[*at] != ':') break;
      ++*at;
    }
    const size_t before = *at;
    Value part = ReadValue(text, at, depth - 1);
    if (*at == before) break;
    value.parts.push_back({std::move(name), std::move(part)});
  }
  if (*at < text.size()) ++*at;  // the bracket
  value.text = text.substr(begin, *at - begin);
  if (open == '[') return value;
  // Of members with the same name the last one counts.
  std::ranges::stable_sort(value.parts, {}, &Part::name);
  const auto overridden =
      std::unique(value.parts.rbegin(), value.parts.rend(),
                  [](const Part& a, const Part& b) { return a.name == b.name; });
  value.parts.erase(value.parts.begin(), overridden.base());
  return value;
}

bool Same(const Value& a, const Value& b) {
  if (a.text == b.text) return true;
  const Kind kind = KindOf(a.text);
  if (kind != KindOf(b.text)) return false;
  if (kind == Kind::kNumber) return ReadNumber(a.text) == ReadNumber(b.text);
  if (kind == Kind::kString) return Unquote(a.text) == Unquote(b.text);
  if (kind != Kind::kObject && kind != Kind::kArray) return false;
  return std::ranges::equal(a.parts, b.parts, [](const Part& one, const Part& other) {
    return one.name == other.name && Same(one.value, other.value);
  });
}

}  // namespace

bool Same(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto read = [](std::string_view text) {
    size_t at = 0;
    return ReadValue(text.empty() ? "{}" : text, &at, limits::kJsonDepth);
  };
  return Same(read(a), read(b));
}

int CompareNumbers(std::string_view a, std::string_view b) {
  const auto sign = [](const Number& n) { return n.digits.empty() ? 0 : n.negative ? -1 : 1; };
  // How many digits there are before the point.
  const auto whole = [](const Number& n) {
    return static_cast<int64_t>(n.digits.size()) + n.exponent;
  };
  const Number one = ReadNumber(Trim(a));
  const Number other = ReadNumber(Trim(b));
  if (sign(one) != sign(other)) return sign(one) - sign(other);
  if (sign(one) == 0) return 0;
  if (whole(one) != whole(other)) return whole(one) < whole(other) ? -sign(one) : sign(one);
  return sign(one) * one.digits.compare(other.digits);
}

namespace {

size_t SkipDigits(std::string_view text, size_t i) {
  while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
  return i;
}

// As JSON writes numbers: no plus in front, no zero in front of others, digits around a point.
bool IsNumber(std::string_view text) {
  size_t i = text.starts_with('-') ? 1 : 0;
  const size_t whole = i;
  i = SkipDigits(text, i);
  if (i == whole || (text[whole] == '0' && i > whole + 1)) return false;
  if (i < text.size() && text[i] == '.') {
    const size_t fraction = i + 1;
    i = SkipDigits(text, fraction);
    if (i == fraction) return false;
  }
  if (i == text.size()) return true;
  if (text[i] != 'e' && text[i] != 'E') return false;
  ++i;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  return i < text.size() && SkipDigits(text, i) == text.size();
}

}  // namespace

std::string Bounded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '"') {
      end = StringEnd(text, i);
    } else {
      while (!EndsScalar(text[i]) && end < text.size() && !EndsScalar(text[end])) ++end;
    }
    const std::string part(text.substr(i, end - i));
    if (IsNumber(part) && std::isinf(std::strtod(part.c_str(), nullptr))) {
      out += part.starts_with('-') ? "-1.7976931348623157e308" : "1.7976931348623157e308";
    } else {
      out += part;
    }
    i = end;
  }
  return out;
}

std::string Merge(std::string_view object, std::string_view changes) {
  std::map<std::string, RawMember> by_name;
  std::vector<std::string> order;
  size_t at = Inside(changes, '{');
  while (at != std::string_view::npos) {
    auto member = NextMember(changes, &at);
    if (!member) break;
    std::string name = Unquote(member->name);
    if (by_name.insert_or_assign(name, *member).second) order.push_back(std::move(name));
  }

  std::string out = "{";
  std::set<std::string, std::less<>> placed;
  at = Inside(object, '{');
  while (at != std::string_view::npos) {
    auto member = NextMember(object, &at);
    if (!member) break;
    std::string name = Unquote(member->name);
    auto change = by_name.find(name);
    if (change == by_name.end()) {
      AppendMember(member->name, member->value, &out);
    } else if (placed.insert(std::move(name)).second) {
      AppendMember(member->name, change->second.value, &out);
    }
  }
  for (const std::string& name : order) {
    const RawMember& change = by_name.find(name)->second;
    if (!placed.contains(name)) AppendMember(change.name, change.value, &out);
  }
  return out + "}";
}

}  // namespace dfsmr::json
