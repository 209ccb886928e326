#include "dsrv/http/url.h"

#include <algorithm>
#include <cstdint>

namespace dfsmr::http {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

namespace {

int Digit64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

std::optional<std::string> DecodedWith(std::string_view text, bool plus) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += plus && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size() || HexDigit(text[i + 1]) < 0 || HexDigit(text[i + 2]) < 0) {
      return std::nullopt;
    }
    plain += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
    i += 2;
  }
  return plain;
}

}  // namespace

std::optional<std::string> Decoded(std::string_view text) { return DecodedWith(text, false); }

std::optional<Parameters> ReadQuery(std::string_view query) {
  Parameters parameters;
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (one.empty()) continue;
    const size_t equals = std::min(one.find('='), one.size());
    auto name = DecodedWith(one.substr(0, equals), true);
    auto value = DecodedWith(one.substr(std::min(equals + 1, one.size())), true);
    if (!name || !value) return std::nullopt;
    parameters.emplace_back(*std::move(name), *std::move(value));
  }
  return parameters;
}

std::optional<std::string> FromBase64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int digit = Digit64(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string ToBase64(std::string_view bytes, bool padded) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t have = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < have ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    }
    for (size_t i = 0; i <= have; ++i) text += kDigits[bits >> (18 - 6 * i) & 63];
    if (padded) text.append(3 - have, '=');
  }
  return text;
}

}  // namespace dfsmr::http
