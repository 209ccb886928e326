// What may be called what: the rules for names and ids, and the guess at what a misspelt one meant.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dfsmr {

// What names of the system's own begin with.
inline constexpr std::string_view kSystemPrefix = "dfsmr.";

// Machines, nodes, transitions, queues, actions, namespaces, labels: letters, digits, '.', '_' and
// '-', a letter or digit first, at most limits::kName of them. Reserved names are valid here.
bool ValidName(std::string_view name);
// Starts with "dfsmr.": the system's own.
bool ReservedName(std::string_view name);
// 1 to limits::kInstanceId printable ASCII characters, no space.
bool ValidInstanceId(std::string_view id);
// Workers and clients: 1 to limits::kWorkerName characters of UTF-8, none of them a control.
bool ValidWorkerName(std::string_view name);

// What is wrong with a name that people choose, and what would be right; nullopt when it is fine.
// `what` is what it names, for example "node".
std::optional<std::string> NameProblem(std::string_view what, std::string_view name);

// The whole characters among the first so many bytes.
std::string_view Head(std::string_view text, size_t bytes);
// The text, or its head and "…".
std::string Cut(std::string_view text, size_t bytes);

// In single quotes, control characters escaped, cut to a length that fits a message of one line.
std::string Quoted(std::string_view text);

// Control characters escaped, nothing cut: any text made fit for one line.
std::string OneLine(std::string_view text);

// Where the first byte is that is not well-formed UTF-8 (overlong forms and surrogates are not);
// nullopt when there is none.
std::optional<size_t> InvalidUtf8(std::string_view text);

// How many there are in well-formed UTF-8.
size_t Characters(std::string_view text);

// The known word nearest to `word`, or "" when none is near enough to have been meant. Ties go to
// the first.
class Nearest {
 public:
  explicit Nearest(std::string_view word) : word_(word) {}
  void Try(std::string_view known);
  std::string_view Best() const { return best_; }
  // " (did you mean 'transitions'?)", or "".
  std::string Hint() const;

 private:
  std::string_view word_;
  std::string_view best_;
  size_t best_distance_ = SIZE_MAX;
};

std::string Hint(std::string_view word, std::span<const std::string_view> known);

// Letters inserted, dropped, changed or swapped with their neighbour; `limit` + 1 when more than
// `limit` of them.
size_t EditDistance(std::string_view a, std::string_view b, size_t limit);

}  // namespace dfsmr
