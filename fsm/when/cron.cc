#include "fsm/when/cron.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "fsm/base/names.h"
#include "fsm/when/words.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                      "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> kDays = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct CronField {
  std::string_view name;
  int least;
  int most;
  std::span<const std::string_view> names = {};  // the first stands for `least`
  int wrap = 0;  // ranges may go past the end: what to subtract then; 0: they may not
};
constexpr CronField kSecond{"second", 0, 59};
constexpr CronField kMinute{"minute", 0, 59};
constexpr CronField kHour{"hour", 0, 23};
constexpr CronField kDay{"day", 1, 31};
constexpr CronField kMonth{"month", 1, 12, kMonths, 12};
constexpr CronField kWeekday{"weekday", 0, 7, kDays, 7};

struct Nickname {
  std::string_view name;
  std::string_view text;
};
constexpr std::array<Nickname, 5> kNicknames = {{{"@hourly", "0 * * * *"},
                                                 {"@daily", "0 0 * * *"},
                                                 {"@weekly", "0 0 * * 0"},
                                                 {"@monthly", "0 0 1 * *"},
                                                 {"@yearly", "0 0 1 1 *"}}};

Error Bad(const CronField& field, std::string_view item, std::string_view why) {
  return {Code::kInvalidArgument, Reason::kNone,
          std::string(field.name) + " " + Quoted(item) + std::string(why)};
}

std::string Range(const CronField& field) {
  std::string text = std::to_string(field.least) + " to " + std::to_string(field.most);
  if (!field.names.empty()) {
    text += " or " + std::string(field.names.front()) + " to " + std::string(field.names.back());
  }
  return text;
}

// What people know from other crons, and what says it here.
std::string Advice(const CronField& field, std::string_view word) {
  const std::string upper = UpperCase(word);
  if (upper == "L" && field.name == kWeekday.name) return "; the last Friday is 5L or FRIL";
  if (upper == "L") return "; L, the last one, is for days and weekdays (5L)";
  if (upper.find('W') != std::string::npos && field.name == kDay.name) {
    return "; there is no W: `every: month on …` and `except` say it";
  }
  if (upper.starts_with('H')) return "; there is no H: `jitter` spreads schedules";
  return "; it takes " + Range(field);
}

Result<int> ReadValue(const CronField& field, std::string_view item, std::string_view word) {
  const auto name = std::ranges::find(field.names, UpperCase(word));
  if (name != field.names.end()) return field.least + static_cast<int>(name - field.names.begin());
  const std::optional<int> number = ReadWhole(word);
  if (number && *number >= field.least && *number <= field.most) return *number;
  if (word.empty()) return Bad(field, item, " lacks a value; it takes " + Range(field));
  if (number) return Bad(field, item, " is out of range; it takes " + Range(field));
  return Bad(field, item, " is none that there is" + Advice(field, word));
}

// All values of a list's item but L and #: `*`, `a`, `a-b`, each with `/n`.
Result<uint64_t> ReadItem(const CronField& field, std::string_view item) {
  const size_t slash = item.find('/');
  const std::string_view range = item.substr(0, slash);
  int step = 1;
  if (slash != std::string_view::npos) {
    const auto number = ReadWhole(item.substr(slash + 1));
    const int values = field.most - field.least + 1;
    if (!number || *number < 1 || *number > values) {
      return Bad(field, item,
                 " has a step that is none: after / stands 1 to " + std::to_string(values));
    }
    step = *number;
  }
  int first = field.least, last = field.most;
  const size_t dash = range.find('-');
  if (range != "*" && range != "?") {
    const auto a = ReadValue(field, item, range.substr(0, dash));
    if (!a) return a.error();
    first = *a;
    if (slash == std::string_view::npos) last = first;
    if (dash != std::string_view::npos) {
      const auto b = ReadValue(field, item, range.substr(dash + 1));
      if (!b) return b.error();
      last = *b;
    }
  }
  if (last < first && field.wrap == 0) {
    return Bad(field, item, " goes backwards: only months and weekdays may go past their end");
  }
  if (last < first) last += field.wrap;
  uint64_t mask = 0;
  for (int value = first; value <= last; value += step) {
    mask |= uint64_t{1} << (value > field.most ? value - field.wrap : value);
  }
  return mask;
}

std::vector<std::string_view> Items(std::string_view field) {
  std::vector<std::string_view> items;
  while (true) {
    const size_t comma = field.find(',');
    items.push_back(field.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    field.remove_prefix(comma + 1);
  }
}

Result<uint64_t> ReadField(const CronField& field, std::string_view text) {
  uint64_t mask = 0;
  for (const std::string_view item : Items(text)) {
    const auto values = ReadItem(field, item);
    if (!values) return values.error();
    mask |= *values;
  }
  return mask;
}

std::optional<Error> ReadDays(std::string_view text, CronRule& rule) {
  rule.day_given = !text.starts_with('*') && !text.starts_with('?');
  for (const std::string_view item : Items(text)) {
    if (item == "L" || item == "l") {
      rule.last_day = true;
      continue;
    }
    const auto values = ReadItem(kDay, item);
    if (!values) return values.error();
    rule.days |= static_cast<uint32_t>(*values);
  }
  return std::nullopt;
}

// 7 is Sunday, as 0 is.
uint8_t Folded(uint64_t weekdays) {
  return static_cast<uint8_t>((weekdays | weekdays >> 7) & 0x7f);
}

// `5L` and `FRI#2`; false: the item is none of these.
Result<bool> ReadPlace(std::string_view item, WeekdaySet& weekdays) {
  const size_t hash = item.find('#');
  const bool last = item.size() > 1 && (item.ends_with('L') || item.ends_with('l'));
  if (hash == std::string_view::npos && !last) return false;
  const std::string_view word = item.substr(0, last ? item.size() - 1 : hash);
  const auto weekday = ReadValue(kWeekday, item, word);
  if (!weekday) return weekday.error();
  const uint8_t bit = Folded(uint64_t{1} << *weekday);
  if (last) {
    weekdays.last |= bit;
    return true;
  }
  const auto number = ReadWhole(item.substr(hash + 1));
  if (!number || *number < 1 || *number > 5) {
    return Bad(kWeekday, item, " counts no weeks of a month: after # stands 1 to 5");
  }
  weekdays.nth[static_cast<size_t>(*number - 1)] |= bit;
  return true;
}

std::optional<Error> ReadWeekdays(std::string_view text, CronRule& rule) {
  rule.weekday_given = !text.starts_with('*') && !text.starts_with('?');
  for (const std::string_view item : Items(text)) {
    const auto place = ReadPlace(item, rule.weekdays);
    if (!place) return place.error();
    if (*place) continue;
    const auto values = ReadItem(kWeekday, item);
    if (!values) return values.error();
    rule.weekdays.every |= Folded(*values);
  }
  return std::nullopt;
}

// `fields` are five: minute, hour, day, month, weekday.
std::optional<Error> ReadFields(const std::string_view* fields, CronRule& rule) {
  const auto minutes = ReadField(kMinute, fields[0]);
  if (!minutes) return minutes.error();
  rule.minutes = *minutes;
  const auto hours = ReadField(kHour, fields[1]);
  if (!hours) return hours.error();
  rule.hours = static_cast<uint32_t>(*hours);
  rule.elapsed = fields[1].starts_with('*') || fields[1].starts_with('?');
  if (auto error = ReadDays(fields[2], rule)) return error;
  const auto months = ReadField(kMonth, fields[3]);
  if (!months) return months.error();
  rule.months = static_cast<uint16_t>(*months);
  return ReadWeekdays(fields[4], rule);
}

Error UnknownNickname(std::string_view text) {
  Nearest nearest(text);
  for (const Nickname& known : kNicknames) nearest.Try(known.name);
  return {
      Code::kInvalidArgument, Reason::kNone,
      Quoted(text) + " is none of @hourly, @daily, @weekly, @monthly, @yearly" + nearest.Hint()};
}

Result<CronText> Parse(std::string_view text, uint64_t seconds_of_five) {
  std::vector<std::string_view> fields = SplitWords(text);
  if (fields.size() == 1 && fields[0].starts_with('@')) {
    const std::string lower = LowerCase(fields[0]);
    const auto known = std::ranges::find(kNicknames, lower, &Nickname::name);
    if (known == kNicknames.end()) return UnknownNickname(fields[0]);
    fields = SplitWords(known->text);
  }
  if (fields.size() != 5 && fields.size() != 6) {
    return Error{
        Code::kInvalidArgument, Reason::kNone,
        Quoted(text) + " has " + std::to_string(fields.size()) +
            (fields.size() == 1 ? " field" : " fields") +
            "; a cron text has five: minute, hour, day, month, weekday (30 2 * * MON-FRI); "
            "or six, the first for seconds"};
  }
  CronText cron;
  cron.rule.seconds = seconds_of_five;
  if (fields.size() == 6) {
    const auto second = ReadField(kSecond, fields[0]);
    if (!second) return second.error();
    cron.rule.seconds = *second;
  }
  if (auto error = ReadFields(&fields[fields.size() - 5], cron.rule)) return *error;
  if (cron.rule.day_given && cron.rule.weekday_given) {
    cron.warning =
        "day and weekday are both given, so that a day that either of them matches is "
        "taken; write * for one of them if that is not meant";
  }
  return cron;
}

constexpr uint64_t kAllSeconds = (uint64_t{1} << 60) - 1;

}  // namespace

uint32_t CronRule::Days(const Month& month) const {
  if ((months >> month.month & 1) == 0) return 0;
  const uint32_t by_number = (days | (last_day ? uint32_t{1} << month.length : 0)) & AllDays(month);
  const uint32_t by_weekday = weekdays.InMonth(month);
  return day_given && weekday_given ? by_number | by_weekday : by_number & by_weekday;
}

Result<CronText> ParseCron(std::string_view text) { return Parse(text, 1); }
Result<CronText> ParseExceptCron(std::string_view text) { return Parse(text, kAllSeconds); }

}  // namespace dfsmr
