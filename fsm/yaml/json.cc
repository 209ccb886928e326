// Trees as JSON text. The YAML core schema decides what a plain scalar means.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/yaml/tree.h"

namespace dfsmr {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t SkipDigits(std::string_view text, size_t i) {
  while (i < text.size() && IsDigit(text[i])) ++i;
  return i;
}

// [-+]? ( [0-9]+ ( '.' [0-9]* )? | '.' [0-9]+ ) ( [eE] [-+]? [0-9]+ )?
bool IsNumber(std::string_view text) {
  size_t i = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  size_t whole = SkipDigits(text, i);
  size_t fraction = whole;
  if (whole < text.size() && text[whole] == '.') fraction = SkipDigits(text, whole + 1);
  const bool digits = whole > i || fraction > whole + 1;
  if (!digits) return false;
  if (fraction == text.size()) return true;
  if (text[fraction] != 'e' && text[fraction] != 'E') return false;
  size_t exponent = fraction + 1;
  if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
  return exponent < text.size() && SkipDigits(text, exponent) == text.size();
}

// 0x1F and 0o17 in decimal digits; empty: `text` is neither, or too large to be exact.
std::string FromOtherBase(std::string_view text) {
  int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : 0;
  if (base == 0) return "";
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data() + 2, end, value, base);
  return error == std::errc() && stopped == end && text.size() > 2 ? std::to_string(value) : "";
}

// A number of the core schema in JSON's spelling: no '+', no leading zeros, digits on both sides of
// the point.
std::string JsonNumber(std::string_view text) {
  std::string out = text[0] == '-' ? "-" : "";
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  size_t whole = SkipDigits(text, 0);
  size_t zeros = std::min(text.find_first_not_of('0'), whole);
  out += zeros < whole ? text.substr(zeros, whole - zeros) : "0";
  text.remove_prefix(whole);
  if (text.starts_with('.')) {
    size_t fraction = SkipDigits(text, 1);
    out += fraction > 1 ? text.substr(0, fraction) : ".0";
    text.remove_prefix(fraction);
  }
  return out + std::string(text);
}

// The JSON text of a plain scalar that means a number, boolean or null; empty: it means a string.
std::string Resolve(const YamlNode& scalar) {
  std::string_view text = scalar.text;
  if (!scalar.plain) return "";
  if (scalar.IsNull()) return "null";
  if (text == "true" || text == "True" || text == "TRUE") return "true";
  if (text == "false" || text == "False" || text == "FALSE") return "false";
  if (IsNumber(text)) return JsonNumber(text);
  return FromOtherBase(text);
}

constexpr std::string_view kHex = "0123456789abcdef";

// How far the `\uXXXX` at the start of the text is above `base`; nullopt: not by 0 to 1023.
std::optional<uint32_t> Half(std::string_view text, uint32_t base) {
  uint32_t code = 0;
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, code, 16);
  if (error != std::errc() || end != text.data() + 6) return std::nullopt;
  if (code < base || code >= base + 1024) return std::nullopt;
  return code - base;
}

void AppendString(std::string_view text, std::string* out) {
  *out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *out += "\\u00";
      *out += kHex[static_cast<unsigned char>(c) >> 4];
      *out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void AppendScalar(const YamlNode& node, bool canonical, std::string* out) {
  std::string resolved = Resolve(node);
  if (resolved.empty()) {
    AppendString(node.text, out);
  } else {
    // The text counts, since 1e3 and 1000.0 are different names.
    *out += canonical ? node.text : resolved;
  }
}

void AppendTree(const YamlNode& node, bool canonical, std::string* out) {
  if (node.IsScalar()) return AppendScalar(node, canonical, out);
  *out += node.IsMap() ? '{' : '[';
  const size_t open = out->size();
  for (const YamlNode* item : node.items) {
    if (out->size() > open) *out += ',';
    AppendTree(*item, canonical, out);
  }
  std::vector<const YamlEntry*> entries;
  for (const YamlEntry& entry : node.entries) entries.push_back(&entry);
  if (canonical) std::ranges::sort(entries, {}, &YamlEntry::key);
  for (const YamlEntry* entry : entries) {
    if (out->size() > open) *out += ',';
    AppendString(entry->key, out);
    *out += ':';
    AppendTree(*entry->value, canonical, out);
  }
  *out += node.IsMap() ? '}' : ']';
}

}  // namespace

std::string JsonText(const YamlNode& node) {
  std::string out;
  AppendTree(node, false, &out);
  return out;
}

// YAML has no surrogate pairs: two escapes that form one become the character itself.
std::string YamlOfJson(std::string_view text) {
  if (text.size() > limits::kSource || text.find("\\u") == std::string_view::npos ||
      (!nlohmann::json::accept(text) && !nlohmann::json::accept(json::Bounded(text)))) {
    return std::string(text);
  }
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      out += text[i++];
      continue;
    }
    const std::optional<uint32_t> high = Half(text.substr(i), 0xD800);
    const std::optional<uint32_t> low = high ? Half(text.substr(i + 6), 0xDC00) : std::nullopt;
    if (!low) {
      out += text.substr(i, 2);
      i += 2;
      continue;
    }
    const uint32_t code = 0x10000 + (*high << 10) + *low;
    out += "\\U000";
    for (int shift = 16; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 15];
    i += 12;
  }
  return out;
}

std::string CanonicalText(const YamlNode& node) {
  std::string out;
  AppendTree(node, true, &out);
  return out;
}

}  // namespace dfsmr
