#include "fsm/base/names.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kQuotedMax = 80;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool IsNameCharacter(char c) { return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-'; }
bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// U+0080 to U+009F: terminals take them for commands too.
bool HoldsC1Control(std::string_view utf8) {
  for (size_t i = 0; i + 1 < utf8.size(); ++i) {
    if (utf8[i] == '\xC2' && static_cast<unsigned char>(utf8[i + 1]) < 0xA0) return true;
  }
  return false;
}

void AppendHex(char c, std::string* out) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  *out += "\\x";
  *out += kHex[static_cast<unsigned char>(c) >> 4];
  *out += kHex[static_cast<unsigned char>(c) & 15];
}

void AppendEscaped(char c, std::string* out) {
  if (!IsControl(c)) {
    *out += c;
  } else if (c == '\n') {
    *out += "\\n";
  } else if (c == '\t') {
    *out += "\\t";
  } else {
    AppendHex(c, out);
  }
}

// The length of the sequence that starts `text`, 0 when it is not well-formed.
size_t Utf8SequenceLength(std::string_view text) {
  auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (first == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (first == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (first == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

bool ValidName(std::string_view name) {
  return !name.empty() && name.size() <= limits::kName && IsAlphanumeric(name.front()) &&
         std::ranges::all_of(name, IsNameCharacter);
}

bool ReservedName(std::string_view name) { return name.starts_with(kSystemPrefix); }

bool ValidInstanceId(std::string_view id) {
  return !id.empty() && id.size() <= limits::kInstanceId &&
         std::ranges::all_of(id, [](char c) { return c > 0x20 && c < 0x7F; });
}

bool ValidWorkerName(std::string_view name) {
  return !name.empty() && Characters(name) <= limits::kWorkerName &&
         std::ranges::none_of(name, IsControl) && !InvalidUtf8(name) && !HoldsC1Control(name);
}

std::optional<std::string> NameProblem(std::string_view what, std::string_view name) {
  std::string subject = std::string(what) + " name " + Quoted(name);
  if (ReservedName(name)) {
    return subject + " is reserved: names that start with '" + std::string(kSystemPrefix) +
           "' are the system's";
  }
  if (ValidName(name)) return std::nullopt;
  if (name.empty()) return std::string(what) + " name is empty";
  if (name.size() > limits::kName) {
    return subject + " has " + std::to_string(name.size()) + " characters; at most " +
           std::to_string(limits::kName) + " are allowed";
  }
  if (!IsAlphanumeric(name.front())) return subject + " must start with a letter or digit";
  return subject + " may only hold letters, digits, '.', '_' and '-'";
}

std::string OneLine(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8SequenceLength(text);
    if (length == 0) AppendHex(text.front(), &out);
    if (length == 1) AppendEscaped(text.front(), &out);
    if (length > 1) out += text.substr(0, length);
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

std::string_view Head(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string Cut(std::string_view text, size_t bytes) {
  return std::string(Head(text, bytes)) + (text.size() > bytes ? "…" : "");
}

std::string Quoted(std::string_view text) { return "'" + OneLine(Cut(text, kQuotedMax)) + "'"; }

std::optional<size_t> InvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t length = Utf8SequenceLength(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

size_t Characters(std::string_view text) {
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<size_t>(std::ranges::count_if(text, starts));
}

size_t EditDistance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() < b.size()) std::swap(a, b);
  if (a.size() - b.size() > limit) return limit + 1;
  // Three rows of the usual table: the one before last is for swapped neighbours.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    size_t smallest = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
      smallest = std::min(smallest, row[j]);
    }
    if (smallest > limit) return limit + 1;
    std::swap(before, last);
    std::swap(last, row);
  }
  return std::min(last[b.size()], limit + 1);
}

void Nearest::Try(std::string_view known) {
  // A third of the letters may be off, three at most: beyond that a guess confuses.
  size_t limit = std::min<size_t>(3, (std::max(word_.size(), known.size()) + 1) / 3);
  if (best_distance_ <= limit) {
    if (best_distance_ == 0) return;
    limit = best_distance_ - 1;
  }
  size_t distance = EditDistance(word_, known, limit);
  if (distance > limit) return;
  best_distance_ = distance;
  best_ = known;
}

std::string Nearest::Hint() const {
  return best_.empty() ? "" : " (did you mean " + Quoted(best_) + "?)";
}

std::string Hint(std::string_view word, std::span<const std::string_view> known) {
  Nearest nearest(word);
  for (std::string_view candidate : known) nearest.Try(candidate);
  return nearest.Hint();
}

}  // namespace dfsmr
