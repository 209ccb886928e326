// Prints the times of calendars for oracle.py: one case a line, its keys separated by tabs, lists
// by
// ";": cron, every, at, except, timezone, from, until, count, low, high (seconds since 1970). The
// answer is a line of the times from `low` to `high`, in seconds since 1970, or "error: …".
#include <array>
#include <cstdlib>
#include <iostream>
#include <string>

#include "fsm/when/calendar.h"
#include "storage/zones/zones.h"

namespace dfsmr {
namespace {

struct Case {
  std::array<std::string, 10> keys;
};

Case Split(const std::string& line) {
  Case split;
  size_t at = 0;
  for (std::string& key : split.keys) {
    const size_t end = std::min(line.find('\t', at), line.size());
    key = line.substr(at, end - at);
    at = std::min(line.size(), end + 1);
  }
  return split;
}

// Calls `add` for each text of a list; the first error, or "".
template <typename Add>
std::string Each(const std::string& list, Add add) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(';', at), list.size());
    const std::string error = add(list.substr(at, end - at));
    if (!error.empty()) return error;
    at = end + 1;
  }
  return "";
}

template <typename T, typename Keep>
std::string Kept(const Result<T>& result, Keep keep) {
  if (!result) return result.error().message;
  keep(*result);
  return "";
}

std::string ReadRules(const Case& read, CalendarRules& rules) {
  auto moment = [](std::optional<WrittenTime>& where) {
    return [&where](const std::string& text) {
      return Kept(ParseTimeText(text), [&where](const WrittenTime& m) { where = m; });
    };
  };
  std::string error = Each(read.keys[0], [&rules](const std::string& text) {
    return Kept(ParseCron(text),
                [&rules](const CronText& cron) { rules.cron.push_back(cron.rule); });
  });
  if (error.empty())
    error = Each(read.keys[1], [&rules](const std::string& text) {
      return Kept(ParseEvery(text),
                  [&rules](const EveryRule& every) { rules.every.push_back(every); });
    });
  if (error.empty())
    error = Each(read.keys[2], [&rules](const std::string& text) {
      return Kept(ParseTimeText(text), [&rules](const WrittenTime& at) { rules.at.push_back(at); });
    });
  if (error.empty())
    error = Each(read.keys[3], [&rules](const std::string& text) {
      return Kept(AddExcept(text, rules), [](const std::string&) {});
    });
  rules.timezone = read.keys[4];
  if (error.empty()) error = Each(read.keys[5], moment(rules.from));
  if (error.empty()) error = Each(read.keys[6], moment(rules.until));
  if (!read.keys[7].empty()) rules.count = std::atoll(read.keys[7].c_str());
  for (const CalendarProblem& problem : Problems(rules)) error += problem.message;
  return error;
}

Timestamp At(const std::string& text) {
  return Timestamp(std::chrono::seconds(std::atoll(text.c_str())));
}

std::string Answer(const Case& read, Zones& zones) {
  CalendarRules rules;
  const std::string error = ReadRules(read, rules);
  if (!error.empty()) return "error: " + error;
  const auto zone = zones.Find(rules.timezone);
  if (!zone) return "error: " + zone.error().message;
  Calendar calendar(rules, *zone);
  calendar.EndAt(calendar.LastOfCount(At(read.keys[8])));
  const Timestamp low = At(read.keys[8]), high = At(read.keys[9]);
  std::vector<Timestamp> times;
  std::string text;
  for (Timestamp time = calendar.Next(low - Duration(1)); time <= high;
       time = calendar.Next(time)) {
    times.push_back(time);
    text += (text.empty() ? "" : " ") + std::to_string(Micros(time) / 1'000'000);
  }
  if (calendar.Count(low - Duration(1), high, 1'000'000) != times.size()) return "Count differs";
  size_t back = times.size();
  for (auto time = calendar.Previous(high + Duration(1)); time && *time >= low;
       time = calendar.Previous(*time)) {
    if (back == 0 || times[--back] != *time) return "Previous differs at " + UtcText(*time);
  }
  return back == 0 ? text : "Previous stops after " + UtcText(times[back]);
}

}  // namespace
}  // namespace dfsmr

int main() {
  dfsmr::Zones zones;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << dfsmr::Answer(dfsmr::Split(line), zones) << '\n';
  }
}
