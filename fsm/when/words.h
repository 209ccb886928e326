// A text as words, for those who read rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

// What stands between spaces and tabs.
std::vector<std::string_view> Words(std::string_view text);
// ASCII letters only.
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
// Digits only, up to 6 of them.
std::optional<int> ReadNumber(std::string_view text);

}  // namespace dfsmr
