// What stands in the target of a request.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dfsmr::http {

// 0 to 15; -1: it is none.
int HexDigit(char c);

// %41 → A. nullopt: what follows a percent sign are not two hexadecimal digits.
std::optional<std::string> Decoded(std::string_view text);

// The parameters of a query in order, decoded, where '+' is a space. nullopt: one is malformed.
using Parameters = std::vector<std::pair<std::string, std::string>>;
std::optional<Parameters> ReadQuery(std::string_view query);

// Of base64 in either alphabet, padded or not. nullopt: it is none.
std::optional<std::string> FromBase64(std::string_view text);
// In the standard alphabet.
std::string ToBase64(std::string_view bytes, bool padded);

}  // namespace dfsmr::http
