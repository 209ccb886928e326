#include "fsm/when/exceptions.h"

#include <algorithm>
#include <utility>

namespace dfsmr {

Exceptions::Exceptions(std::vector<CronRule> rules, std::vector<LocalDay> dates)
    : rules_(std::move(rules)), dates_(std::move(dates)) {
  if (rules_.size() > kRules) rules_.resize(kRules);
  std::ranges::sort(dates_);
}

Exceptions::Day Exceptions::On(LocalDay day, const Month& month) const {
  Day on;
  if (empty()) return on;
  on.whole_ = std::ranges::binary_search(dates_, day);
  const int number = DayOfMonth(day, month);
  for (size_t i = 0; i < rules_.size(); ++i) {
    if ((rules_[i].Days(month) >> number & 1) == 0) continue;
    on.matching_.set(i);
    on.rules_ = &rules_;
  }
  return on;
}

bool Exceptions::Spent::Covers(const Day& day) const {
  for (size_t i = 0; i < std::min(added_, days_.size()); ++i) {
    if ((day.matching_ & days_[i]) == days_[i]) return true;
  }
  return false;
}

void Exceptions::Spent::Add(const Day& day) {
  if (day.rules_ != nullptr) days_[added_++ % days_.size()] = day.matching_;
}

bool Exceptions::Has(LocalTime time) const {
  if (empty()) return false;
  const LocalDay day = std::chrono::floor<std::chrono::days>(time);
  const Day on = On(day, MonthOf(day));
  return on.whole() || on.Has(static_cast<int>((time - day).count()));
}

uint64_t Exceptions::Day::Minutes(int hour, uint64_t seconds) const {
  uint64_t minutes = 0;
  for (size_t i = 0; rules_ != nullptr && i < rules_->size(); ++i) {
    const CronRule& rule = (*rules_)[i];
    const bool all_seconds = (seconds & ~rule.seconds) == 0;
    if (matching_[i] && (rule.hours >> hour & 1) != 0 && all_seconds) minutes |= rule.minutes;
  }
  return minutes;
}

uint64_t Exceptions::Day::Seconds(int hour, int minute) const {
  uint64_t seconds = 0;
  for (size_t i = 0; rules_ != nullptr && i < rules_->size(); ++i) {
    const CronRule& rule = (*rules_)[i];
    const bool matches = (rule.hours >> hour & 1) != 0 && (rule.minutes >> minute & 1) != 0;
    if (matching_[i] && matches) seconds |= rule.seconds;
  }
  return seconds;
}

bool Exceptions::Day::Has(int second_of_day) const {
  const uint64_t seconds = Seconds(second_of_day / 3600, second_of_day / 60 % 60);
  return (seconds >> second_of_day % 60 & 1) != 0;
}

}  // namespace dfsmr
