#include "fsm/machine/retry.h"

#include <algorithm>
#include <array>

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"timeout", "crashed", "unclaimed"};
constexpr std::array<std::string_view, 6> kTexts = {"timeout", "timed out", "connection",
                                                    "network", "temporar",  "unavailable"};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool SameLetter(char a, char b) { return Lower(a) == Lower(b); }

bool Same(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, SameLetter); }

bool Holds(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(), SameLetter) !=
             text.end() ||
         part.empty();
}

bool Matches(std::string_view entry, std::string_view kind, std::string_view error) {
  if (Same(entry, kind) || Holds(error, entry)) return true;
  if (!Same(entry, kTransient)) return false;
  return std::ranges::any_of(kKinds, [&](std::string_view one) { return Same(one, kind); }) ||
         std::ranges::any_of(kTexts, [&](std::string_view one) { return Holds(error, one); });
}

}  // namespace

bool TriesAgain(const RetryPolicy& policy, std::string_view kind, std::string_view error) {
  return policy.on.empty() || std::ranges::any_of(policy.on, [&](const std::string& entry) {
           return Matches(entry, kind, error);
         });
}

}  // namespace dfsmr
