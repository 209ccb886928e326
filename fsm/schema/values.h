// JSON values as JSON Schema sees them, and as its messages show them.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dfsmr::json_schema {

inline constexpr size_t kShownMax = 40;  // bytes of a string or key in a message

// At most `size` bytes of UTF-8, whole characters.
std::string Shorten(std::string text, size_t size);
std::string Show(const nlohmann::json& value);
// "1 item", "2 items".
std::string Count(size_t n, std::string_view one, std::string_view many);
std::string WithArticle(std::string_view type);

size_t Characters(std::string_view utf8);
// Exact for 64-bit integers of either sign.
long double Number(const nlohmann::json& value);
bool IsMultiple(const nlohmann::json& value, const nlohmann::json& divisor);
// `type` is one of the seven names of JSON Schema.
bool HasType(const nlohmann::json& value, std::string_view type);

}  // namespace dfsmr::json_schema
