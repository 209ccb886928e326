#include "fsm/when/every.h"

#include <algorithm>
#include <array>
#include <string>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/when/words.h"

namespace dfsmr {
namespace {

using std::chrono::days;
using Unit = EveryRule::Unit;

constexpr std::string_view kEveryForms =
    "; write elapsed time (15m, 6h offset 1h), or days of the calendar (day at 09:00, 2 weeks on "
    "MO,TU, month on LFR at 09:00,17:30)";
constexpr std::array<std::string_view, 7> kWeekdays = {"SU", "MO", "TU", "WE", "TH", "FR", "SA"};
constexpr std::array<std::string_view, 4> kUnits = {"day", "week", "month", "year"};
constexpr int kMost = 100'000;  // of a unit

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kNone, std::move(message)};
}

Result<int64_t> ReadSeconds(std::string_view word) {
  const auto duration = ParseDuration(word);
  if (!duration) return duration.error();
  const auto whole = std::chrono::floor<std::chrono::seconds>(*duration);
  if (whole != *duration) return Bad(Quoted(word) + " is not a whole number of seconds");
  return whole.count();
}

Result<EveryRule> ReadElapsed(const std::vector<std::string_view>& words) {
  EveryRule rule;
  const auto n = ReadSeconds(words[0]);
  if (!n) return n.error();
  if (*n < 1) return Bad(Quoted(words[0]) + " is too short; 1s or more is needed");
  rule.n = *n;
  if (words.size() == 1) return rule;
  if (LowerCase(words[1]) != "offset" || words.size() != 3) {
    return Bad(Quoted(words[1]) + " cannot follow " + Quoted(words[0]) +
               "; of elapsed time only an offset can be told: 6h offset 1h");
  }
  const auto offset = ReadSeconds(words[2]);
  if (!offset) return offset.error();
  if (*offset >= rule.n) {
    return Bad("the offset " + Quoted(words[2]) + " is not less than " + Quoted(words[0]));
  }
  rule.offset = *offset;
  return rule;
}

std::optional<Unit> ReadUnit(std::string_view word) {
  const std::string lower = LowerCase(word);
  for (size_t i = 0; i < kUnits.size(); ++i) {
    const std::string_view unit = kUnits[i];
    const bool plural = lower.size() == unit.size() + 1 && lower.back() == 's';
    if (!lower.starts_with(unit) || (lower.size() != unit.size() && !plural)) continue;
    return static_cast<Unit>(i + 1);
  }
  return std::nullopt;
}

// `MO`, `2MO`, `LFR` into the rule's days.
std::optional<Error> ReadDay(std::string_view word, EveryRule& rule) {
  const std::string upper = UpperCase(word);
  const std::string_view name =
      std::string_view(upper).substr(upper.size() < 2 ? 0 : upper.size() - 2);
  const std::string_view place = std::string_view(upper).substr(0, upper.size() - name.size());
  const auto weekday = std::ranges::find(kWeekdays, name);
  const bool numbered = place.size() == 1 && place[0] >= '1' && place[0] <= '5';
  if (weekday == kWeekdays.end() || (!place.empty() && !numbered && place != "L")) {
    return Bad(Quoted(word) +
               " is no weekday; they are MO, TU, WE, TH, FR, SA, SU; of a month or "
               "year also 2MO, the second (1 to 5), and LFR, the last");
  }
  const auto bit = static_cast<uint8_t>(1 << (weekday - kWeekdays.begin()));
  if (!place.empty() && (rule.unit == Unit::kDay || rule.unit == Unit::kWeek)) {
    return Bad(Quoted(word) + " is counted within a month or year; of days and weeks only " +
               std::string(name) + " can be told");
  }
  if (place.empty()) {
    rule.days.every |= bit;
  } else if (numbered) {
    rule.days.nth[static_cast<size_t>(place[0] - '1')] |= bit;
  } else {
    rule.days.last |= bit;
  }
  return std::nullopt;
}

std::optional<Error> ReadTime(std::string_view word, EveryRule& rule) {
  const auto clock = ReadClock(word);
  if (!clock) return Bad(Quoted(word) + " is no time of day; write 09:00, or 09:00:30");
  rule.times.push_back(*clock);
  return std::nullopt;
}

// The list that follows `on` or `at`: words up to the next of these, split at commas.
template <typename Read>
std::optional<Error> ReadList(const std::vector<std::string_view>& words, size_t& next,
                              EveryRule& rule, Read read) {
  const std::string_view key = words[next++];
  std::string list;
  for (; next < words.size(); ++next) {
    const std::string lower = LowerCase(words[next]);
    if (lower == "on" || lower == "at") break;
    if (!list.empty() && list.back() != ',' && words[next].front() != ',') {
      return Bad(Quoted(words[next]) + " cannot follow " + Quoted(words[next - 1]) +
                 std::string(kEveryForms));
    }
    list += words[next];
  }
  if (list.empty()) return Bad("nothing follows " + Quoted(key) + std::string(kEveryForms));
  for (std::string_view rest = list;;) {
    const size_t comma = rest.find(',');
    if (auto error = read(rest.substr(0, comma), rule)) return error;
    if (comma == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(comma + 1);
  }
}

std::optional<Error> ReadLists(const std::vector<std::string_view>& words, size_t next,
                               EveryRule& rule) {
  bool on = false, at = false;
  while (next < words.size()) {
    const std::string key = LowerCase(words[next]);
    std::optional<Error> error;
    if (key == "on" && !on && !at) {
      on = true;
      error = ReadList(words, next, rule, ReadDay);
    } else if (key == "at" && !at) {
      at = true;
      error = ReadList(words, next, rule, ReadTime);
    } else {
      error = Bad(Quoted(words[next]) + " cannot stand there" + std::string(kEveryForms));
    }
    if (error) return error;
  }
  std::ranges::sort(rule.times);
  rule.times.erase(std::unique(rule.times.begin(), rule.times.end()), rule.times.end());
  return std::nullopt;
}

Result<EveryRule> ReadCalendar(const std::vector<std::string_view>& words) {
  EveryRule rule;
  size_t next = 0;
  if (const auto n = ReadWhole(words[0])) {
    if (*n < 1 || *n > kMost) {
      return Bad(Quoted(words[0]) + " is out of range; 1 to " + std::to_string(kMost) +
                 " can be told");
    }
    rule.n = *n;
    ++next;
  }
  const std::optional<Unit> unit = next < words.size() ? ReadUnit(words[next]) : std::nullopt;
  if (!unit) {
    const std::string_view word = next < words.size() ? words[next] : words[0];
    const std::string lower = LowerCase(word);
    for (const std::string_view clock : {"hour", "minute", "second"}) {
      if (!lower.starts_with(clock)) continue;
      return Bad(Quoted(word) + " is no unit of the calendar; elapsed time is written " +
                 std::to_string(rule.n) + std::string(clock.substr(0, 1)));
    }
    return Bad(Quoted(word) + " is no unit" + Hint(lower, kUnits) + std::string(kEveryForms));
  }
  rule.unit = *unit;
  if (auto error = ReadLists(words, next + 1, rule)) return *error;
  return rule;
}

int64_t FloorMod(int64_t a, int64_t n) { return (a % n + n) % n; }

LocalDay MondayOf(LocalDay day) { return day - (std::chrono::weekday(day) - std::chrono::Monday); }

}  // namespace

std::string_view EveryRule::NeedsFrom() const {
  if (unit == Unit::kElapsed) return "";
  if (n != 1) return "a number of days, weeks, months or years is counted from it";
  if (unit != Unit::kDay && days.empty()) return "without `on` its day is taken";
  return "";
}

Result<EveryRule> ParseEvery(std::string_view text) {
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.empty()) return Bad("it is empty" + std::string(kEveryForms));
  const bool digit = words[0][0] >= '0' && words[0][0] <= '9';
  const bool number = ReadWhole(words[0]).has_value();
  return digit && !(number && words.size() > 1) ? ReadElapsed(words) : ReadCalendar(words);
}

AnchoredEvery::AnchoredEvery(const EveryRule& every, const std::optional<From>& from)
    : rule(every) {
  base = (from ? from->at : Instant()) + std::chrono::seconds(rule.offset);
  if (rule.unit == Unit::kElapsed) return;
  const LocalTime local = from ? from->local : LocalTime();
  day = std::chrono::floor<days>(local);
  if (rule.times.empty()) rule.times.push_back(static_cast<int>((local - day).count()));
  if (rule.unit == Unit::kWeek && rule.days.empty()) {
    rule.days.every = static_cast<uint8_t>(1 << std::chrono::weekday(day).c_encoding());
  }
}

uint32_t AnchoredEvery::EveryNDays(const Month& month) const {
  if (rule.n == 1) return AllDays(month);
  uint32_t mask = 0;
  for (int64_t number = FloorMod((day - month.first).count(), rule.n) + 1; number <= month.length;
       number += rule.n) {
    mask |= uint32_t{1} << number;
  }
  return mask;
}

uint32_t AnchoredEvery::EveryNWeeks(const Month& month) const {
  if (rule.n == 1) return AllDays(month);
  uint32_t mask = 0;
  const LocalDay monday = MondayOf(month.first);
  const int before = static_cast<int>((month.first - monday).count());
  const int64_t week = (monday - MondayOf(day)).count() / 7;
  for (int w = 0; w < 6; ++w) {
    if (FloorMod(week + w, rule.n) != 0) continue;
    const int first = w * 7 - before + 1;  // the number of that week's Monday
    const uint64_t days_of_week = first >= 0 ? uint64_t{0x7f} << first : uint64_t{0x7f} >> -first;
    mask |= static_cast<uint32_t>(days_of_week);
  }
  return mask & AllDays(month);
}

uint32_t AnchoredEvery::Days(const Month& month) const {
  const std::chrono::year_month_day anchor(day);
  const int anchor_year = static_cast<int>(anchor.year());
  const int anchor_month = static_cast<int>(unsigned{anchor.month()});
  const uint32_t same_day = uint32_t{1} << unsigned{anchor.day()} & AllDays(month);
  switch (rule.unit) {
    case Unit::kElapsed:
      return 0;
    case Unit::kDay:
      return EveryNDays(month) & (rule.days.empty() ? AllDays(month) : rule.days.InMonth(month));
    case Unit::kWeek:
      return EveryNWeeks(month) & rule.days.InMonth(month);
    case Unit::kMonth: {
      const int months = (month.year - anchor_year) * 12 + month.month - anchor_month;
      if (FloorMod(months, rule.n) != 0) return 0;
      return rule.days.empty() ? same_day : rule.days.InMonth(month);
    }
    case Unit::kYear:
      if (FloorMod(month.year - anchor_year, rule.n) != 0) return 0;
      if (!rule.days.empty()) return rule.days.InYear(month);
      return month.month == anchor_month ? same_day : 0;
  }
  return 0;
}

}  // namespace dfsmr
