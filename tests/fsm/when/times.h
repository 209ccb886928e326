// Calendars written as in a document, and their times as texts.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fsm/when/calendar.h"
#include "storage/zones/zones.h"

namespace dfsmr {

inline ZonePtr ZoneOf(std::string_view name) {
  static Zones zones;
  const auto zone = zones.Find(name);
  REQUIRE(zone);
  return *zone;
}

// RFC 3339, or a date or date-time of UTC.
inline Timestamp Utc(std::string_view text) {
  const auto moment = ParseTimeText(text);
  REQUIRE_MESSAGE(moment, text);
  return Timestamp(moment->since_1970);
}

// The keys of a schedule; a list is separated by ";".
struct Texts {
  std::string_view cron = "", every = "", at = "", except = "";
  std::string_view timezone = "Europe/Berlin";
  std::string_view from = "", until = "";
  int64_t count = 0;
  Duration jitter{0};
};

inline std::vector<std::string_view> Split(std::string_view list) {
  std::vector<std::string_view> texts;
  while (!list.empty()) {
    const size_t end = std::min(list.find(';'), list.size());
    texts.push_back(list.substr(0, end));
    list.remove_prefix(std::min(list.size(), end + 1));
  }
  return texts;
}

template <typename T>
T Good(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return *std::move(result);
}

inline CalendarRules RulesOf(const Texts& written) {
  CalendarRules rules;
  for (auto text : Split(written.cron)) rules.cron.push_back(Good(ParseCron(text)).rule);
  for (auto text : Split(written.every)) rules.every.push_back(Good(ParseEvery(text)));
  for (auto text : Split(written.at)) rules.at.push_back(Good(ParseTimeText(text)));
  for (auto text : Split(written.except)) (void)Good(AddExcept(text, rules));
  rules.timezone = written.timezone;
  if (!written.from.empty()) rules.from = Good(ParseTimeText(written.from));
  if (!written.until.empty()) rules.until = Good(ParseTimeText(written.until));
  if (written.count != 0) rules.count = written.count;
  rules.jitter = written.jitter;
  return rules;
}

inline Calendar CalendarOf(const Texts& written) {
  return Calendar(RulesOf(written), ZoneOf(written.timezone));
}

// The times of UTC from `from` until just before `to`, "DD HH:MM" each, with seconds where there
// are some; found forwards, and the same backwards.
inline std::string TimesOf(const Calendar& calendar, std::string_view from, std::string_view to) {
  std::vector<std::string> texts;
  auto text = [](Timestamp time) {
    const std::string utc = UtcText(time);  // 2026-03-29T01:00:00Z
    return utc.substr(8, 2) + " " + utc.substr(11, utc[17] == '0' && utc[18] == '0' ? 5 : 8);
  };
  for (Timestamp time = calendar.Next(Utc(from) - Duration(1)); time < Utc(to);
       time = calendar.Next(time)) {
    texts.push_back(text(time));
    REQUIRE(texts.size() < 1000);
  }
  size_t back = texts.size();
  for (auto time = calendar.Previous(Utc(to)); time && *time >= Utc(from);
       time = calendar.Previous(*time)) {
    REQUIRE(back > 0);
    CHECK(texts[--back] == text(*time));
  }
  CHECK(back == 0);
  std::string all;
  for (const std::string& one : texts) all += (all.empty() ? "" : ", ") + one;
  return all;
}

inline std::string TimesOf(const Texts& written, std::string_view from, std::string_view to) {
  return TimesOf(CalendarOf(written), from, to);
}

}  // namespace dfsmr
