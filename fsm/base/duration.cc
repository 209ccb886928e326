#include "fsm/base/duration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

struct Unit {
  std::string_view name;
  int64_t micros;
};
constexpr std::array<Unit, 6> kUnits = {{{"us", 1},
                                         {"ms", 1'000},
                                         {"s", 1'000'000},
                                         {"m", 60'000'000},
                                         {"h", 3'600'000'000},
                                         {"d", 86'400'000'000}}};
constexpr std::string_view kExample =
    "; write a number with a unit, such as 250ms, 30s, 5m, 2h, 7d";

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kNone, std::move(message)};
}

// Digits, at most one point among them, at least one digit first.
bool IsDecimal(std::string_view text) {
  auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty() || !digit(text.front()) || !digit(text.back())) return false;
  return std::ranges::all_of(text, [&digit](char c) { return digit(c) || c == '.'; }) &&
         std::ranges::count(text, '.') <= 1;
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  size_t split = text.find_first_not_of("0123456789.");
  std::string_view number = text.substr(0, split);
  std::string_view unit = split == std::string_view::npos ? "" : text.substr(split);
  if (text.starts_with('-')) return Bad(Quoted(text) + " is negative; a duration cannot be");
  if (!IsDecimal(number)) return Bad(Quoted(text) + " is not a duration" + std::string(kExample));
  if (unit.empty()) {
    return Bad(Quoted(text) + " has no unit; write " + std::string(number) + "s for seconds, or " +
               "another of us, ms, s, m, h, d");
  }
  auto known = std::ranges::find(kUnits, unit, &Unit::name);
  if (known == kUnits.end()) {
    return Bad(Quoted(text) + " has unit " + Quoted(unit) +
               ", which is none of us, ms, s, m, h, d");
  }
  double value = 0;
  auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  double micros = value * static_cast<double>(known->micros);
  if (error != std::errc() || micros > static_cast<double>(kDurationMax.count())) {
    return Bad(Quoted(text) + " is too long; at most 100 years (36525d) are allowed");
  }
  return Duration(std::llround(micros));
}

std::string FormatDuration(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  auto unit = std::find_if(kUnits.rbegin(), kUnits.rend(), [duration](const Unit& u) {
    return duration.count() % u.micros == 0;
  });
  return std::to_string(duration.count() / unit->micros) + std::string(unit->name);
}

}  // namespace dfsmr
