// A text as words, for those who read rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

// What stands between spaces and tabs.
std::vector<std::string_view> SplitWords(std::string_view text);
// ASCII letters only.
std::string UpperCase(std::string_view text);
std::string LowerCase(std::string_view text);
// Digits only, up to 6 of them.
std::optional<int> ReadWhole(std::string_view text);

}  // namespace dfsmr
