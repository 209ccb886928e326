// The times of a schedule in words.
#include <array>
#include <bit>

#include "fsm/base/duration.h"
#include "fsm/when/calendar.h"

namespace dfsmr {
namespace {

constexpr uint64_t kSixty = (uint64_t{1} << 60) - 1;
constexpr uint64_t kAllHours = (uint64_t{1} << 24) - 1;
constexpr int kTimesShown = 4;
constexpr size_t kRulesShown = 3;
constexpr std::array<std::string_view, 13> kMonthNames = {
    "",     "January", "February",  "March",   "April",    "May",     "June",
    "July", "August",  "September", "October", "November", "December"};
constexpr std::array<std::string_view, 5> kPlaces = {"first", "second", "third", "fourth", "fifth"};

// "a", "a and b", "a, b and c".
std::string List(const std::vector<std::string>& items) {
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  return text;
}

// The bits of a mask, three or more in a row as "9 to 17".
template <typename Name>
std::vector<std::string> Runs(uint64_t mask, Name name) {
  std::vector<std::string> items;
  while (mask != 0) {
    const int first = std::countr_zero(mask);
    const int length = std::countr_one(mask >> first);
    if (length >= 3) {
      items.push_back(std::string(name(first)) + " to " + std::string(name(first + length - 1)));
    } else {
      for (int i = 0; i < length; ++i) items.push_back(std::string(name(first + i)));
    }
    mask &= length + first >= 64 ? 0 : ~uint64_t{0} << (first + length);
  }
  return items;
}

std::string Numbers(uint64_t mask) {
  return List(Runs(mask, [](int value) { return std::to_string(value); }));
}

// Monday first; each weekday by its name.
std::vector<std::string> WeekdayRuns(uint8_t weekdays) {
  const auto from_monday = static_cast<uint64_t>((weekdays >> 1 & 0x3f) | (weekdays & 1) << 6);
  return Runs(from_monday, [](int day) { return kWeekdayNames[static_cast<size_t>(day + 1) % 7]; });
}

std::string WeekdayWords(const WeekdaySet& set, std::string_view whole) {
  std::vector<std::string> items = WeekdayRuns(set.every);
  for (size_t i = 0; i <= set.nth.size(); ++i) {
    const bool last = i == set.nth.size();
    const uint8_t which = last ? set.last : set.nth[i];
    if (which == 0) continue;
    items.push_back("the " + std::string(last ? "last" : kPlaces[i]) + " " +
                    List(WeekdayRuns(which)) + std::string(whole));
  }
  return List(items);
}

// 15 for a mask of 0, 15, 30 and 45 out of 60; 0: it has no such step.
int StepOf(uint64_t mask, int size) {
  const int step = std::countr_zero(mask & (mask - 1));
  if ((mask & 1) == 0 || step >= size || size % step != 0) return 0;
  uint64_t expected = 0;
  for (int value = 0; value < size; value += step) expected |= uint64_t{1} << value;
  return mask == expected ? step : 0;
}

// "every minute", "every 15 minutes", "at minute 5", "at minutes 5 and 20".
std::string Of(uint64_t mask, int size, const std::string& unit) {
  const int step = StepOf(mask, size);
  if (step == 1) return "every " + unit;
  if (step > 1) return "every " + std::to_string(step) + " " + unit + "s";
  return "at " + unit + (std::popcount(mask) == 1 ? " " : "s ") + Numbers(mask);
}

std::string TimesWords(const std::vector<int>& times) {
  std::vector<std::string> items;
  for (int time : times) items.push_back(ClockText(time));
  return List(items);
}

std::string TimeOfDay(const CronRule& rule) {
  const bool few = rule.hours != kAllHours && std::popcount(rule.seconds) == 1 &&
                   std::popcount(rule.hours) * std::popcount(rule.minutes) <= kTimesShown;
  if (few) {
    std::vector<int> times;
    for (uint64_t hours = rule.hours; hours != 0; hours &= hours - 1) {
      for (uint64_t minutes = rule.minutes; minutes != 0; minutes &= minutes - 1) {
        times.push_back(std::countr_zero(hours) * 3600 + std::countr_zero(minutes) * 60 +
                        std::countr_zero(rule.seconds));
      }
    }
    return "at " + TimesWords(times);
  }
  std::string text;
  if (rule.seconds != 1) text = Of(rule.seconds, 60, "second");
  if (rule.minutes == 1 && rule.seconds == 1) return Of(rule.hours, 24, "hour");
  if (text.empty()) {
    text = Of(rule.minutes, 60, "minute");
  } else if (rule.minutes != kSixty) {
    text += " of minute" + std::string(std::popcount(rule.minutes) == 1 ? " " : "s ") +
            Numbers(rule.minutes);
  }
  if (rule.hours != kAllHours) {
    text +=
        " of hour" + std::string(std::popcount(rule.hours) == 1 ? " " : "s ") + Numbers(rule.hours);
  } else if (text.starts_with("at minute")) {
    text += " of every hour";
  }
  return text;
}

std::string DayOfCron(const CronRule& rule) {
  const bool all_days = rule.days == (~uint32_t{0} & ~uint32_t{1});
  const bool all_weekdays = rule.weekdays.every == 0x7f;
  std::vector<std::string> numbers =
      Runs(rule.days, [](int value) { return std::to_string(value); });
  if (rule.last_day) numbers.emplace_back("the last");
  std::string day = std::popcount(rule.days) + (rule.last_day ? 1 : 0) == 1 ? "day " : "days ";
  if (rule.days == 0) {
    day = "the last day of the month";
  } else {
    day += List(numbers) + " of the month";
  }
  const std::string weekday = WeekdayWords(rule.weekdays, " of the month");
  std::string text;
  if (rule.day_given && rule.weekday_given) {
    text = " on " + day + " or on " + weekday;
  } else if (!all_days && !all_weekdays) {
    text = " on " + day + " if " + weekday;
  } else if (!all_days) {
    text = " on " + day;
  } else if (!all_weekdays) {
    text = " on " + weekday;
  }
  if (rule.months != 0x1ffe) {
    text += " in " + List(Runs(rule.months,
                               [](int month) { return kMonthNames[static_cast<size_t>(month)]; }));
  }
  return text;
}

std::string CronWords(const CronRule& rule) {
  const std::string day = DayOfCron(rule);
  const bool daily = rule.hours != kAllHours && day.empty();
  return TimeOfDay(rule) + (daily && TimeOfDay(rule).starts_with("at ") ? " every day" : day);
}

std::string ExceptWords(CronRule rule) {
  if (rule.seconds == kSixty) rule.seconds = 1;  // of whole minutes
  const bool whole_day = rule.minutes == kSixty && rule.hours == kAllHours;
  const std::string day = DayOfCron(rule);
  return whole_day && !day.empty() ? day.substr(1) : TimeOfDay(rule) + day;
}

std::string EveryWords(const EveryRule& rule) {
  constexpr std::array<std::string_view, 5> kUnitNames = {"", "day", "week", "month", "year"};
  if (rule.unit == EveryRule::Unit::kElapsed) {
    std::string text = "every " + FormatDuration(std::chrono::seconds(rule.n));
    if (rule.offset != 0) text += " offset " + FormatDuration(std::chrono::seconds(rule.offset));
    return text;
  }
  const std::string unit(kUnitNames[static_cast<size_t>(rule.unit)]);
  std::string text = "every " + (rule.n == 1 ? unit : std::to_string(rule.n) + " " + unit + "s");
  if (!rule.days.empty()) text += " on " + WeekdayWords(rule.days, " of the " + unit);
  if (!rule.times.empty()) text += " at " + TimesWords(rule.times);
  return text;
}

std::string WrittenTimeWords(const WrittenTime& moment) {
  if (moment.kind == WrittenTime::Kind::kInstant) return UtcText(Timestamp(moment.since_1970));
  std::string text = UtcText(Timestamp(moment.since_1970));
  return moment.kind == WrittenTime::Kind::kDate ? text.substr(0, 10)
                                                 : text.substr(0, text.size() - 1);
}

// The first few, and how many more there are.
std::string Joined(std::vector<std::string> items, std::string_view more) {
  if (items.size() > kRulesShown + 1) {
    const size_t rest = items.size() - kRulesShown;
    items.resize(kRulesShown);
    items.push_back(std::to_string(rest) + " more " + std::string(more));
  }
  return List(items);
}

std::string ExceptionsWords(const CalendarRules& rules) {
  std::vector<std::string> items;
  for (const CronRule& cron : rules.except) items.push_back(ExceptWords(cron));
  for (const LocalDay day : rules.except_dates) items.push_back("on " + DateText(day));
  return items.empty() ? "" : ", except " + Joined(std::move(items), "exceptions");
}

}  // namespace

std::string Summary(const CalendarRules& rules) {
  std::vector<std::string> items;
  for (const CronRule& cron : rules.cron) items.push_back(CronWords(cron));
  for (const EveryRule& every : rules.every) items.push_back(EveryWords(every));
  for (const WrittenTime& at : rules.at) items.push_back("at " + WrittenTimeWords(at));
  std::string text = Joined(std::move(items), "rules") + ", " + rules.timezone;
  if (rules.from) text += ", from " + WrittenTimeWords(*rules.from);
  if (rules.until) text += ", until " + WrittenTimeWords(*rules.until);
  if (rules.count)
    text += *rules.count == 1 ? ", once" : ", " + std::to_string(*rules.count) + " times";
  text += ExceptionsWords(rules);
  if (rules.jitter > Duration(0)) text += ", up to " + FormatDuration(rules.jitter) + " later";
  return text;
}

}  // namespace dfsmr
