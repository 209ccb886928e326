// Patterns of actions (NAME, NAME.* or *), and of secrets (names, and with one * at their end those
// that begin so).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr {

// How well a pattern serves an action: the longer the better, a name better than a pattern of it;
// 0: not at all.
size_t Fit(std::string_view pattern, std::string_view action);

// Whether one of the patterns takes the secret in.
bool Allowed(const std::vector<std::string>& patterns, std::string_view secret);
// What is wrong with a pattern of secrets; nullopt when it is fine.
std::optional<std::string> SecretPatternProblem(std::string_view pattern);

}  // namespace dfsmr
