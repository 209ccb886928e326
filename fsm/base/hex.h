// Bytes as hexadecimal digits, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

// Two small digits for each byte.
std::string ToHex(std::string_view bytes);

// Sixteen small digits, so that texts are in the order of their numbers.
std::string ToHex(uint64_t number);

// The bytes that `digits`, small or capital, stand for; nothing when they are no pairs of digits.
std::optional<std::string> FromHex(std::string_view digits);

}  // namespace dfsmr
