#include "fsm/schema/values.h"

#include <algorithm>
#include <cmath>

#include "fsm/base/names.h"

namespace dfsmr::json_schema {

using Json = nlohmann::json;

std::string Shorten(std::string text, size_t size) {
  if (text.size() <= size) return text;
  text.resize(size);
  while (!text.empty() && InvalidUtf8(text)) text.pop_back();
  return text + "…";
}

std::string Show(const Json& value) {
  if (value.is_object()) return value.empty() ? "{}" : "an object";
  if (value.is_array()) return value.empty() ? "[]" : "an array";
  if (value.is_string()) return Json(Shorten(value.get<std::string>(), kShownMax)).dump();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Count(size_t n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

size_t Characters(std::string_view utf8) {
  return static_cast<size_t>(std::ranges::count_if(
      utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

long double Number(const Json& value) {
  if (value.is_number_unsigned()) return static_cast<long double>(value.get<uint64_t>());
  if (value.is_number_integer()) return static_cast<long double>(value.get<int64_t>());
  return value.get<double>();
}

bool IsMultiple(const Json& value, const Json& divisor) {
  if (value.is_number_integer() && divisor.is_number_integer()) {
    return std::fmod(Number(value), Number(divisor)) == 0;
  }
  // To people 0.3 is a multiple of 0.1, although its binary fraction is not.
  long double quotient = Number(value) / Number(divisor);
  return std::isfinite(quotient) &&
         std::fabs(quotient - std::round(quotient)) < 1e-9L * std::max(1.0L, std::fabs(quotient));
}

// 1.0 is an integer, too.
static bool IsInteger(const Json& value) {
  if (!value.is_number()) return false;
  return value.is_number_integer() || std::trunc(Number(value)) == Number(value);
}

bool HasType(const Json& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "integer") return IsInteger(value);
  return value.is_number();
}

std::string WithArticle(std::string_view type) {
  if (type == "null") return "null";
  const bool vowel = type == "array" || type == "integer" || type == "object";
  return (vowel ? "an " : "a ") + std::string(type);
}

}  // namespace dfsmr::json_schema
