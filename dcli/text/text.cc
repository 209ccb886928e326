#include "dcli/text/text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>

namespace dfsmr::cli {
namespace {

// The length of the UTF-8 character at the start of `text`, and what it is; 0 when malformed.
size_t Decode(std::string_view text, uint32_t* point) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  const size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return 0;
  if (text.size() < length) return 0;
  *point = length == 1 ? first : first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *point = *point << 6 | (byte(i) & 0x3fu);
  }
  static constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *point >= 0xd800 && *point <= 0xdfff;
  return *point < kSmallest[length] || *point > 0x10ffff || surrogate ? 0 : length;
}

// Characters that move the cursor, break the line or turn the direction of what follows.
bool Unshowable(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0xfeff ||
         (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

std::string EscapeOf(uint32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof text, point < 0x100 ? "\\x%02x" : "\\u%04x", point);
  return text;
}

// Edits (insert, drop, change, swap neighbours) that turn `a` into `b`.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    uint32_t point = 0;
    const size_t length = Decode(text, &point);
    if (length == 0) {
      escaped += EscapeOf(static_cast<uint8_t>(text[0]));
    } else if (Unshowable(point)) {
      escaped += EscapeOf(point);
    } else {
      escaped += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return escaped;
}

size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::string Shortened(std::string_view text, size_t columns) {
  if (Columns(text) <= columns) return std::string(text);
  size_t kept = 0;
  for (size_t seen = 0; kept < text.size(); ++kept) {
    const bool starts = (static_cast<uint8_t>(text[kept]) & 0xc0) != 0x80;
    if (starts && ++seen >= columns) break;
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) { return Lower(a) == Lower(b); }

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& known) {
  std::optional<std::string> nearest;
  size_t best = 2 + word.size() / 4;  // a word with more edits is a different word
  for (const std::string& candidate : known) {
    const bool begun = word.size() >= 2 && candidate.starts_with(word);
    const size_t distance = begun ? 0 : Distance(Lower(word), Lower(candidate));
    if (distance >= best || (distance > 0 && distance >= word.size())) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const auto nearest = Nearest(word, known);
  return nearest ? ": did you mean \"" + *nearest + "\"?" : "";
}

}  // namespace dfsmr::cli
