#include "fsm/base/fit.h"

#include <algorithm>
#include <cstdint>

#include "fsm/base/names.h"

namespace dfsmr {

size_t Fit(std::string_view pattern, std::string_view action) {
  if (pattern == action) return SIZE_MAX;
  if (pattern == "*") return 1;
  if (!pattern.ends_with(".*")) return 0;
  pattern.remove_suffix(1);
  return action.starts_with(pattern) ? pattern.size() + 1 : 0;
}

bool Allowed(const std::vector<std::string>& patterns, std::string_view secret) {
  return std::ranges::any_of(patterns, [secret](std::string_view pattern) {
    if (!pattern.ends_with('*')) return pattern == secret;
    return secret.starts_with(pattern.substr(0, pattern.size() - 1));
  });
}

std::optional<std::string> SecretPatternProblem(std::string_view pattern) {
  if (pattern == "*") return std::nullopt;
  if (pattern.ends_with('*')) pattern.remove_suffix(1);
  auto problem = NameProblem("secret", pattern);
  if (problem) *problem += "; a pattern has one *, at its end";
  return problem;
}

}  // namespace dfsmr
