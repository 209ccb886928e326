#include "fsm/machine/retry.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"timeout", "crashed", "unclaimed"};
constexpr std::array<std::string_view, 6> kTexts = {"timeout", "timed out", "connection",
                                                    "network", "temporar",  "unavailable"};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool SameLetter(char a, char b) { return Lower(a) == Lower(b); }

// Letters beyond ASCII that have two cases and two bytes in UTF-8: from `first` to `last` the small
// one comes `by` after the capital; by 1: each second one is a capital.
struct Capitals {
  uint32_t first;
  uint32_t last;
  uint32_t by;
};
constexpr Capitals kCapitals[] = {
    {0xC0, 0xD6, 32},  {0xD8, 0xDE, 32},   {0x100, 0x12E, 1},  {0x132, 0x136, 1}, {0x139, 0x147, 1},
    {0x14A, 0x176, 1}, {0x179, 0x17D, 1},  {0x386, 0x386, 38}, {0x388, 0x38A, 37}, {0x391, 0x3A1, 32},
    {0x3A3, 0x3AB, 32}, {0x400, 0x40F, 80}, {0x410, 0x42F, 32}, {0x460, 0x480, 1}, {0x48A, 0x4BE, 1},
    {0x4D0, 0x52E, 1}, {0x531, 0x556, 48}};

uint32_t Lower(uint32_t letter) {
  for (const Capitals& range : kCapitals) {
    if (letter < range.first || letter > range.last) continue;
    const bool capital = range.by > 1 || (letter - range.first) % 2 == 0;
    return capital ? letter + range.by : letter;
  }
  return letter == 0x178 ? 0xFF : letter == 0x3C2 ? 0x3C3 : letter;  // Ÿ, and the final sigma
}

bool Plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c & 0x80) == 0; });
}

// The text with those letters small, as long as it was. ASCII is left as it is.
std::string Folded(std::string_view text) {
  std::string folded(text);
  for (size_t i = 0; i + 1 < folded.size(); ++i) {
    const auto lead = static_cast<uint8_t>(folded[i]);
    const auto next = static_cast<uint8_t>(folded[i + 1]);
    if ((lead & 0xE0) != 0xC0 || (next & 0xC0) != 0x80) continue;
    const uint32_t small = Lower((lead & 0x1Fu) << 6 | (next & 0x3Fu));
    folded[i] = static_cast<char>(0xC0 | small >> 6);
    folded[++i] = static_cast<char>(0x80 | (small & 0x3F));
  }
  return folded;
}

bool Same(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, SameLetter); }

bool Holds(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(), SameLetter) !=
             text.end() ||
         part.empty();
}

bool Matches(std::string_view entry, std::string_view kind, std::string_view error) {
  if (Same(entry, kind) || Holds(error, entry)) return true;
  if (!Plain(entry)) return Holds(Folded(error), Folded(entry));
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
