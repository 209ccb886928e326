// The local times that `except` leaves out of all rules.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fsm/when/cron.h"

namespace dfsmr {

class Exceptions {
 public:
  static constexpr size_t kRules = 128;  // no more than so many cron texts are held

  Exceptions() = default;
  Exceptions(std::vector<CronRule> rules, std::vector<LocalDay> dates);

  bool empty() const { return rules_.empty() && dates_.empty(); }
  bool Has(LocalTime time) const;

  // What is left out of one day.
  class Day {
   public:
    bool whole() const { return whole_; }
    // Minutes of `hour` of which all `seconds` are left out, as far as one text says so.
    uint64_t Minutes(int hour, uint64_t seconds) const;
    uint64_t Seconds(int hour, int minute) const;
    bool Has(int second_of_day) const;

   private:
    friend class Exceptions;
    const std::vector<CronRule>* rules_ = nullptr;  // null: none matches the day
    std::bitset<kRules> matching_;
    bool whole_ = false;
  };
  Day On(LocalDay day, const Month& month) const;

  // Days of which nothing was left to a rule, so that none like them is searched again: many texts
  // that together leave everything out would cost a search of all minutes of each day.
  class Spent {
   public:
    bool Covers(const Day& day) const;
    void Add(const Day& day);

   private:
    std::array<std::bitset<kRules>, 8> days_;
    size_t added_ = 0;
  };

 private:
  std::vector<CronRule> rules_;
  std::vector<LocalDay> dates_;  // in order
};

}  // namespace dfsmr
