#include "fsm/filter/values.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/when/written_time.h"

namespace dfsmr {
namespace {

constexpr std::string_view kStates[] = {"scheduled", "planning", "running", "paused", "stopped"};
constexpr std::string_view kResults[] = {"pending", "success",   "warning",
                                         "error",   "cancelled", "aborted"};
constexpr std::string_view kIs[] = {"ready",     "claimed", "waiting", "held",
                                    "suspended", "late",    "retried", "root"};
constexpr std::string_view kRange = "..";

std::string ListOf(std::span<const std::string_view> words) {
  std::string list;
  for (std::string_view word : words) list += (list.empty() ? "" : ", ") + std::string(word);
  return list;
}

Result<Ok> AddWord(const FilterValue& value, std::string_view what,
                   std::span<const std::string_view> words, bool upper, FilterTerm* term) {
  const std::string given = Lower(value.text);
  const bool open = value.open_front || value.open_back;
  if (open || std::ranges::find(words, given) == words.end()) {
    return BadFilter(value.column, "unknown " + std::string(what) + " " + Quoted(value.text) +
                                       Hint(given, words) + "; there are " + ListOf(words));
  }
  TextPattern pattern{given};
  if (upper) {
    for (char& c : pattern.text) c = static_cast<char>(c - 'a' + 'A');
  }
  term->texts.push_back(std::move(pattern));
  return Ok{};
}

struct Ends {
  std::string_view from;  // empty: left out
  std::string_view to;
  bool range = false;  // "..", else `from` is a single value
  size_t to_column = 0;
};

Result<Ends> Split(const FilterValue& value, std::string_view example) {
  const std::string_view text = value.text;
  if (value.open_front || value.open_back) {
    return BadFilter(value.column,
                     "'*' means nothing here; write a range, as in " + std::string(example));
  }
  const size_t dots = text.find(kRange);
  if (dots == std::string_view::npos) return Ends{text, {}, false, 0};
  const Ends ends{text.substr(0, dots), text.substr(dots + kRange.size()), true,
                  value.column + Characters(text.substr(0, dots + kRange.size()))};
  if (ends.from.empty() && ends.to.empty()) {
    return BadFilter(value.column, "a range has at least one end, as in " + std::string(example));
  }
  return ends;
}

std::optional<double> ToNumber(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const bool finite = number - number == 0;
  if (text.empty() || read.ec != std::errc() || read.ptr != end || !finite) return std::nullopt;
  return number;
}

Result<Ok> AddNumber(const FilterValue& value, FilterTerm* term) {
  constexpr std::string_view kExample = "3, 2..5, 2.. or ..5";
  auto ends = Split(value, kExample);
  if (!ends) return ends.error();
  const auto read = [&](std::string_view text, size_t column) -> Result<double> {
    if (const auto number = ToNumber(text)) return *number;
    return BadFilter(column, Quoted(text) + " is not a number; write a number or a range, as in " +
                                 std::string(kExample));
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  FilterRange<double> range{-kInfinity, kInfinity};
  if (!ends->from.empty() || !ends->range) {
    auto from = read(ends->from, value.column);
    if (!from) return from.error();
    range.from = *from;
    if (!ends->range) range.to = *from;
  }
  if (!ends->to.empty()) {
    auto to = read(ends->to, ends->to_column);
    if (!to) return to.error();
    range.to = *to;
  }
  if (range.from > range.to) {
    return BadFilter(value.column, "this range holds nothing: its begin is greater than its end");
  }
  term->numbers.push_back(range);
  return Ok{};
}

// The first and the last moment that a text means: of a date its whole day.
Result<FilterRange<Timestamp>> ToTimes(std::string_view text, size_t column, Timestamp now) {
  if (text.starts_with('-') && text.find(':') == std::string_view::npos) {
    auto ago = ParseDuration(text.substr(1));
    if (!ago) return BadFilter(column, ago.error().message + "; -30m is half an hour ago");
    return FilterRange<Timestamp>{now - *ago, now - *ago};
  }
  auto written = ParseTimeText(text);
  if (!written) return BadFilter(column, written.error().message + ", or -30m");
  const Timestamp begin(written->since_1970);
  switch (written->kind) {
    case WrittenTime::Kind::kInstant:
      return FilterRange<Timestamp>{begin, begin};
    case WrittenTime::Kind::kDate:
      return FilterRange<Timestamp>{begin, begin + std::chrono::hours(24) - Duration(1)};
    case WrittenTime::Kind::kLocal:
      break;
  }
  return BadFilter(column, Quoted(text) +
                               " has no offset from UTC; write it behind it, as in "
                               "2026-01-02T17:00:00+01:00, or Z for UTC");
}

Result<Ok> AddTime(const FilterValue& value, Timestamp now, FilterTerm* term) {
  constexpr std::string_view kExample = "-30m.., ..-2h or 2026-01-02..2026-01-05T12:00:00Z";
  auto ends = Split(value, kExample);
  if (!ends) return ends.error();
  FilterRange<Timestamp> range{Timestamp::min(), kNever};
  if (!ends->from.empty() || !ends->range) {
    auto from = ToTimes(ends->from, value.column, now);
    if (!from) return from.error();
    range.from = from->from;
    if (!ends->range && from->from == from->to) {
      return BadFilter(value.column,
                       "one moment is no range of time; write " + std::string(kExample));
    }
    if (!ends->range) range.to = from->to;
  }
  if (!ends->to.empty()) {
    auto to = ToTimes(ends->to, ends->to_column, now);
    if (!to) return to.error();
    range.to = to->to;
  }
  if (range.from > range.to) {
    return BadFilter(value.column, "this range holds nothing: its begin is later than its end");
  }
  term->times.push_back(range);
  return Ok{};
}

}  // namespace

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

Result<Ok> AddValue(const FilterValue& value, Timestamp now, FilterTerm* term) {
  switch (term->key) {
    case FilterKey::kState:
      return AddWord(value, "state", kStates, /*upper=*/true, term);
    case FilterKey::kResult:
      return AddWord(value, "result", kResults, /*upper=*/true, term);
    case FilterKey::kIs:
      return AddWord(value, "property", kIs, /*upper=*/false, term);
    case FilterKey::kVersion:
    case FilterKey::kPriority:
    case FilterKey::kProgress:
      return AddNumber(value, term);
    case FilterKey::kStarted:
    case FilterKey::kEnded:
    case FilterKey::kChanged:
      return AddTime(value, now, term);
    case FilterKey::kWord:
      term->texts.push_back({value.text, value.open_front, /*open_back=*/true});
      return Ok{};
    case FilterKey::kError:
      term->texts.push_back({Lower(value.text), /*open_front=*/true, /*open_back=*/true});
      return Ok{};
    default:
      term->texts.push_back({value.text, value.open_front, value.open_back});
      return Ok{};
  }
}

}  // namespace dfsmr
