#include "dcli/text/masks.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "dcli/text/json.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kShortest = 6;      // of a value
constexpr size_t kShortestLine = 8;  // of a line of one
constexpr std::string_view kStars = "***";

uint16_t KeyOf(std::string_view text) {
  return static_cast<uint16_t>(static_cast<unsigned char>(text[0]) << 8 |
                               static_cast<unsigned char>(text[1]));
}

constexpr std::string_view kPlainAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

// Without the padding at its end.
std::string Base64(std::string_view text, std::string_view alphabet) {
  std::string coded;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    bits = bits << 8 | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) coded += alphabet[bits >> (count - 6) & 63];
  }
  if (count > 0) coded += alphabet[bits << (6 - count) & 63];
  return coded;
}

// The characters of base64 that the value alone decides when `before` bytes stand in front of it
// and others behind.
std::string Base64Inside(std::string_view text, size_t before, std::string_view alphabet) {
  const std::string coded = Base64(std::string(before, '\0') + std::string(text), alphabet);
  const size_t begin = (before * 8 + 5) / 6;
  const size_t end = (before + text.size()) * 8 / 6;
  return end > begin ? coded.substr(begin, end - begin) : "";
}

std::string UrlEncoded(std::string_view text, std::string_view kept, bool lower, bool plus) {
  const std::string_view digits = lower ? "0123456789abcdef" : "0123456789ABCDEF";
  std::string coded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kept.find(c) != std::string_view::npos;
    if (plain) {
      coded += c;
    } else if (plus && c == ' ') {
      coded += '+';
    } else {
      coded += '%';
      coded += digits[byte >> 4];
      coded += digits[byte & 15];
    }
  }
  return coded;
}

// A JSON string, without its quotes, with all that is not ASCII escaped.
std::string AsciiJson(std::string_view quoted) {
  std::string escaped;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto unit = [&escaped, kDigits](uint32_t value) {
    escaped += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) escaped += kDigits[value >> shift & 15];
  };
  for (size_t i = 0; i < quoted.size();) {
    const auto byte = static_cast<unsigned char>(quoted[i]);
    if (byte < 0x80) {
      escaped += quoted[i++];
      continue;
    }
    const size_t size = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    uint32_t value = byte & (size == 4 ? 0x07U : size == 3 ? 0x0FU : 0x1FU);
    for (size_t k = 1; k < size && i + k < quoted.size(); ++k) {
      value = value << 6 | (static_cast<unsigned char>(quoted[i + k]) & 0x3FU);
    }
    i += size;
    if (value >= 0x10000) {
      unit(0xD800 + ((value - 0x10000) >> 10));
      unit(0xDC00 + ((value - 0x10000) & 0x3FF));
    } else {
      unit(value);
    }
  }
  return escaped;
}

std::string WithoutQuotes(const std::string& quoted) { return quoted.substr(1, quoted.size() - 2); }

std::string SlashesEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) escaped += c == '/' ? std::string("\\/") : std::string(1, c);
  return escaped;
}

// Where the JSON string that opens at `open` ends, after its quote.
size_t EndOfString(std::string_view json, size_t open) {
  for (size_t i = open + 1; i < json.size(); ++i) {
    if (json[i] == '\\')
      ++i;
    else if (json[i] == '"')
      return i + 1;
  }
  return json.size();
}

}  // namespace

void Masks::AddPattern(std::string pattern) {
  if (pattern.size() < kShortest) return;
  const uint16_t key = KeyOf(pattern);
  auto& known = patterns_[key];
  if (std::ranges::find(known, pattern) != known.end()) return;
  begins_.set(key);
  const auto longer = [](const std::string& a, const std::string& b) {
    return a.size() > b.size();
  };
  known.insert(std::upper_bound(known.begin(), known.end(), pattern, longer), pattern);
}

void Masks::Add(std::string_view value) {
  if (value.size() < kShortest) return;
  AddPattern(std::string(value));
  const std::string json = WithoutQuotes(JsonString(value));
  const std::string ascii = AsciiJson(json);
  for (const std::string& text : {json, ascii, SlashesEscaped(json), SlashesEscaped(ascii)}) {
    AddPattern(text);
  }
  for (const bool lower : {false, true}) {
    for (const bool plus : {false, true}) {
      for (const std::string_view kept : {"-_.~", "-_.~/", "-_.!~*'()"}) {
        AddPattern(UrlEncoded(value, kept, lower, plus));
      }
    }
  }
  for (const std::string_view alphabet : {kPlainAlphabet, kUrlAlphabet}) {
    std::string whole = Base64(value, alphabet);
    AddPattern(whole);
    while (whole.size() % 4 != 0) whole += '=';
    AddPattern(whole);
    for (const size_t before : {0U, 1U, 2U}) AddPattern(Base64Inside(value, before, alphabet));
  }
  if (value.find('\n') == std::string_view::npos) return;
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find('\n', at), value.size());
    std::string_view line = value.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() >= kShortestLine) Add(line);
    at = end + 1;
  }
}

size_t Masks::MatchAt(std::string_view text) const {
  if (text.size() < kShortest || !begins_.test(KeyOf(text))) return 0;
  for (const std::string& pattern : patterns_.at(KeyOf(text))) {
    if (text.starts_with(pattern)) return pattern.size();
  }
  return 0;
}

std::string Masks::Hide(std::string_view text) const {
  if (empty()) return std::string(text);
  std::string shown;
  shown.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (const size_t size = MatchAt(text.substr(i))) {
      shown += kStars;
      i += size;
    } else {
      shown += text[i++];
    }
  }
  return shown;
}

std::string Masks::HideInJson(std::string_view json) const {
  if (empty()) return std::string(json);
  std::string shown;
  for (size_t i = 0; i < json.size();) {
    if (json[i] == '"') {
      const size_t end = EndOfString(json, i);
      const std::string_view string = json.substr(i, end - i);
      const std::string said = Unquoted(string);
      const std::string hidden = Hide(said);
      shown += hidden == said ? std::string(string) : JsonString(hidden);
      i = end;
    } else if (json[i] == '-' || (json[i] >= '0' && json[i] <= '9')) {
      const size_t end = std::min(json.find_first_not_of("+-.0123456789eE", i), json.size());
      const std::string_view number = json.substr(i, end - i);
      const std::string hidden = Hide(number);
      shown += hidden == number ? hidden : JsonString(hidden);
      i = end;
    } else {
      shown += json[i++];
    }
  }
  return shown;
}

void Masks::HideIn(google::protobuf::Message* message) const {
  if (empty()) return;
  using google::protobuf::FieldDescriptor;
  const auto* reflection = message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool several = field->is_repeated();
    const int count = several ? reflection->FieldSize(*message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        HideIn(several ? reflection->MutableRepeatedMessage(message, field, i)
                       : reflection->MutableMessage(message, field));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        const std::string said = several ? reflection->GetRepeatedString(*message, field, i)
                                         : reflection->GetString(*message, field);
        const std::string shown = field->name() == "params" ? HideInJson(said) : Hide(said);
        several ? reflection->SetRepeatedString(message, field, i, shown)
                : reflection->SetString(message, field, shown);
      }
    }
  }
}

size_t Masks::Unsure(std::string_view text) const {
  if (empty()) return 0;
  size_t longest = 0;
  for (const auto& [key, patterns] : patterns_) {
    longest = std::max(longest, patterns.front().size());
  }
  for (size_t i = text.size() - std::min(text.size(), longest - 1); i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.size() > 1 && !begins_.test(KeyOf(rest))) continue;
    for (const auto& [key, patterns] : patterns_) {
      if (static_cast<char>(key >> 8) != rest[0]) continue;
      if (rest.size() > 1 && key != KeyOf(rest)) continue;
      for (const std::string& pattern : patterns) {
        if (pattern.size() > rest.size() && pattern.starts_with(rest)) return rest.size();
      }
    }
  }
  return 0;
}

std::string MaskedStream::Add(std::string_view piece) {
  if (masks_.empty() && held_.empty()) return std::string(piece);
  held_ += piece;
  std::string shown;
  size_t i = 0;
  const size_t sure = held_.size() - masks_.Unsure(held_);
  const std::string_view all = held_;
  while (i < sure) {
    if (const size_t size = masks_.MatchAt(all.substr(i))) {
      shown += kStars;
      i += size;
    } else {
      shown += all[i++];
    }
  }
  held_.erase(0, i);
  return shown;
}

std::string MaskedStream::FlushLines() {
  const size_t end = held_.rfind('\n');
  if (end == held_.npos) return "";
  const std::string lines = masks_.Hide(std::string_view(held_).substr(0, end + 1));
  held_.erase(0, end + 1);
  return lines;
}

std::string MaskedStream::Flush() {
  const std::string rest = masks_.Hide(held_);
  held_.clear();
  return rest;
}

}  // namespace dfsmr::cli
