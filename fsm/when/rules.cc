#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/when/calendar.h"
#include "fsm/when/words.h"

namespace dfsmr {
namespace {

std::string TooMany(size_t count, std::string_view what, size_t most) {
  return std::to_string(count) + " " + std::string(what) + " are too many; at most " +
         std::to_string(most) + " are allowed";
}

void CheckNumbers(const CalendarRules& rules, std::vector<CalendarProblem>& problems) {
  const size_t texts = rules.cron.size() + rules.every.size();
  if (texts + rules.at.size() == 0) {
    problems.push_back({"", 0, "it has no time: write cron, every or at"});
  }
  if (texts > limits::kCalendarRules) {
    const char* key = rules.cron.size() > limits::kCalendarRules ? "cron" : "every";
    problems.push_back({key, 0, TooMany(texts, "rules", limits::kCalendarRules)});
  }
  if (rules.at.size() > limits::kCalendarTimes) {
    problems.push_back({"at", 0, TooMany(rules.at.size(), "times", limits::kCalendarTimes)});
  }
  if (rules.except.size() > limits::kCalendarRules) {
    problems.push_back(
        {"except", 0, TooMany(rules.except.size(), "cron texts", limits::kCalendarRules)});
  }
  if (rules.except_dates.size() > limits::kCalendarTimes) {
    problems.push_back(
        {"except", 0, TooMany(rules.except_dates.size(), "dates", limits::kCalendarTimes)});
  }
}

}  // namespace

std::vector<CalendarProblem> Problems(const CalendarRules& rules) {
  std::vector<CalendarProblem> problems;
  CheckNumbers(rules, problems);
  for (size_t i = 0; i < rules.every.size() && !rules.from; ++i) {
    const std::string_view why = rules.every[i].NeedsFrom();
    if (why.empty()) continue;
    problems.push_back({"every", i, "it needs `from`: " + std::string(why)});
  }
  if (rules.count && (*rules.count < 1 || *rules.count > limits::kCalendarCount)) {
    problems.push_back({"count", 0,
                        std::to_string(*rules.count) + " is out of range; 1 to " +
                            std::to_string(limits::kCalendarCount) + " can be told"});
  }
  if (rules.jitter < Duration(0) || rules.jitter > limits::kJitter) {
    problems.push_back({"jitter", 0,
                        FormatDuration(rules.jitter) + " is out of range; up to " +
                            FormatDuration(limits::kJitter) + " can be told"});
  }
  return problems;
}

Result<std::string> AddExcept(std::string_view text, CalendarRules& rules) {
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.size() == 1 && words[0][0] != '@') {
    const auto day = ReadDate(words[0]);
    if (!day) {
      return Error{Code::kInvalidArgument, Reason::kNone,
                   Quoted(text) + " is neither a date (2026-12-24) nor a cron text (* * 24 12 *)"};
    }
    rules.except_dates.push_back(*day);
    return std::string();
  }
  auto cron = ParseExceptCron(text);
  if (!cron) return cron.error();
  rules.except.push_back(cron->rule);
  return std::move(cron->warning);
}

}  // namespace dfsmr
