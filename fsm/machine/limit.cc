#include "fsm/machine/limit.h"

#include <algorithm>
#include <array>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 6> kWords = {"fail",   "wait",   "skip",
                                                    "latest", "cancel", "replace"};

}  // namespace

std::string_view Name(OnConflict word) { return kWords[static_cast<size_t>(word)]; }

std::optional<OnConflict> ConflictNamed(std::string_view word) {
  const auto* found = std::ranges::find(kWords, word);
  if (found == kWords.end()) return std::nullopt;
  return static_cast<OnConflict>(found - kWords.begin());
}

std::optional<std::string> LimitKeyProblem(std::string_view key) {
  if (key.empty()) return "a limit's key is not empty; write one such as env/prod";
  if (key.size() > 4 * kLimitKey || Characters(key) > kLimitKey) {
    return "a limit's key has at most " + std::to_string(kLimitKey) + " characters";
  }
  const bool control = std::ranges::any_of(
      key, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control) return "a limit's key is printable: " + Quoted(key) + " has control characters";
  return std::nullopt;
}

}  // namespace dfsmr
