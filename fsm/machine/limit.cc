#include "fsm/machine/limit.h"

#include <algorithm>
#include <array>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 6> kWords = {"fail",   "wait",   "skip",
                                                    "latest", "cancel", "replace"};
// In the order of BuiltIn.
constexpr std::array<std::string_view, 7> kBuiltIns = {
    "namespace:", "group:", "schedule:", "trigger:", "machine:", "queue:", "action:"};

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

BuiltIn BuiltInOf(std::string_view key) {
  for (size_t i = 0; i < kBuiltIns.size(); ++i) {
    if (key.starts_with(kBuiltIns[i])) return static_cast<BuiltIn>(i + 1);
  }
  return BuiltIn::kNone;
}

std::optional<std::string> WrittenKeyProblem(std::string_view key) {
  if (auto problem = LimitKeyProblem(key)) return problem;
  if (ReservedName(key)) {
    return "the key " + Quoted(key) + " begins with " + std::string(kSystemPrefix) +
           ", which is reserved: choose another key";
  }
  const BuiltIn kind = BuiltInOf(key);
  if (kind == BuiltIn::kNone) return std::nullopt;
  const std::string prefix(kBuiltIns[static_cast<size_t>(kind) - 1]);
  return "the key " + Quoted(key) + " begins with " + prefix +
         " as the built-in keys do, whose holders the server counts by itself: remove it here and "
         "give it a number by 'dcli limits set " +
         prefix + "NAME', or choose another key";
}

}  // namespace dfsmr
