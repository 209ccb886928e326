#include "fsm/when/civil.h"

#include <algorithm>
#include <cstdio>

namespace dfsmr {
namespace {

using std::chrono::days;
using std::chrono::seconds;

// `count` digits at `at`, which may be part of a longer text; -1: there are none.
int Digits(std::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return -1;
  int value = 0;
  for (char c : text.substr(at, count)) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value;
}

Civil CivilOf(LocalTime time) {
  const LocalDay day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date(day);
  const auto second = static_cast<int>((time - day).count());
  return {static_cast<int>(date.year()),
          static_cast<int>(unsigned{date.month()}),
          static_cast<int>(unsigned{date.day()}),
          second / 3600,
          second / 60 % 60,
          second % 60};
}

Month MakeMonth(std::chrono::year_month month) {
  const LocalDay first(month / 1);
  const auto length = static_cast<int>(unsigned{(month / std::chrono::last).day()});
  return {static_cast<int>(month.year()), static_cast<int>(unsigned{month.month()}), length,
          static_cast<int>(std::chrono::weekday(first).c_encoding()), first};
}

}  // namespace

Instant FloorSecond(Timestamp time) {
  return std::clamp(std::chrono::floor<seconds>(time), kFirstInstant, kLastInstant);
}

Instant CeilSecond(Timestamp time) {
  const Instant floor = std::chrono::floor<seconds>(time);
  const bool whole = time.time_since_epoch() % seconds(1) == Duration::zero();
  return std::clamp(whole ? floor : floor + seconds(1), kFirstInstant, kLastInstant);
}

Civil ToCivil(LocalTime time) { return CivilOf(time); }
Civil ToCivil(Instant time) { return CivilOf(LocalTime(time.time_since_epoch())); }

std::string DateText(LocalDay day) {
  const Civil civil = CivilOf(day);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d", civil.year, civil.month, civil.day);
  return text;
}

std::string ClockText(int second_of_day) {
  const int second = second_of_day % 60;
  char text[16];
  const int size = std::snprintf(text, sizeof text, "%02d:%02d", second_of_day / 3600 % 100,
                                 second_of_day / 60 % 60);
  if (second != 0) {
    const auto used = static_cast<size_t>(size);
    std::snprintf(text + used, sizeof text - used, ":%02d", second);
  }
  return text;
}

Month MonthOf(LocalDay day) {
  const std::chrono::year_month_day date(day);
  return MakeMonth(date.year() / date.month());
}

Month NextMonth(const Month& month) {
  const int number = month.month % 12 + 1;
  const int year = month.year + (number == 1 ? 1 : 0);
  return MakeMonth(std::chrono::year(year) / number);
}

Month PreviousMonth(const Month& month) {
  const int number = month.month == 1 ? 12 : month.month - 1;
  const int year = month.year - (number == 12 ? 1 : 0);
  return MakeMonth(std::chrono::year(year) / number);
}

std::optional<LocalDay> ReadDate(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const int year = Digits(text, 0, 4), month = Digits(text, 5, 2), day = Digits(text, 8, 2);
  if (year < 1 || month < 0 || day < 0) return std::nullopt;
  const auto date = std::chrono::year(year) / month / day;
  if (!date.ok()) return std::nullopt;
  return LocalDay(date);
}

std::optional<int> ReadClock(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != 1 && colon != 2) return std::nullopt;
  const int hour = Digits(text, 0, colon), minute = Digits(text, colon + 1, 2);
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59) return std::nullopt;
  if (text.size() == colon + 3) return hour * 3600 + minute * 60;
  const int second = Digits(text, colon + 4, 2);
  if (text.size() != colon + 6 || text[colon + 3] != ':' || second < 0 || second > 59) {
    return std::nullopt;
  }
  return hour * 3600 + minute * 60 + second;
}

}  // namespace dfsmr
