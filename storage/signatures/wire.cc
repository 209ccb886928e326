#include "storage/signatures/wire.h"

#include <algorithm>

namespace dfsmr {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::optional<std::string> FromBase64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(digit)) & 0xffffffU;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xffU);
  }
  if (count >= 6 || (bits & ((1U << count) - 1U)) != 0) return std::nullopt;
  return bytes;
}

std::string ToBase64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    const size_t digits = std::min<size_t>(bytes.size() - i, 3) + 1;
    for (size_t j = 0; j < 4; ++j) {
      text += j < digits ? kDigits[bits >> (18 - 6 * j) & 63U] : '=';
    }
  }
  return text;
}

void PutString(std::string_view bytes, std::string* to) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    *to += static_cast<char>(bytes.size() >> shift & 0xffU);
  }
  *to += bytes;
}

std::string_view WireReader::Bytes(size_t length) {
  if (!ok_ || rest_.size() < length) {
    ok_ = false;
    rest_ = {};
    return {};
  }
  const std::string_view taken = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return taken;
}

uint8_t WireReader::Byte() {
  const std::string_view byte = Bytes(1);
  return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
}

uint32_t WireReader::Number() {
  uint32_t number = 0;
  for (const char c : Bytes(4)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

}  // namespace dfsmr
