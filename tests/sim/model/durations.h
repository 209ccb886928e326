// How long the attempts of each node took, as the feed tells, and what the contract's pages make of
// that: the percentile of all attempts, those that timed out counting as having lasted at least as
// long. The survival function is that of Kaplan and Meier, computed anew for each question.
//
// The pages do not say how a percentile lies between two samples, nor where it is when none lasted
// that long, nor whether a report that came too late to count, of an attempt that was cut short,
// tells how long that took: all that may be said lies between `from` and `to`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsm/machine/machine.h"
#include "fsm/rules/instance.h"

namespace dfsmr::model {

class Durations {
 public:
  // May be anything from `from` to `to`, both included.
  struct Range {
    Duration from{};
    Duration to{};
    bool Holds(Duration is) const { return is >= from && is <= to; }
  };

  // The next turn has these records.
  void Learn(const std::vector<Event>& turn);

  // An attempt that was told of as cut short was reported on.
  void Perhaps(const std::string& machine, const Event::Sample& late);

  // Of first attempts; nullopt: there is no sample, and nothing may be shown.
  std::optional<Range> Quantile(const std::string& machine, const std::string& node,
                                double percent) const;
  // The deadline of a claim that is made now, from now on. `under_way`: claims of the node that
  // live, at least and at most.
  Range Timeout(const std::string& machine, const std::string& node, const TimeoutPolicy& policy,
                bool retry, std::pair<size_t, size_t> under_way) const;

 private:
  struct Attempts {
    std::vector<Event::Sample> told;
    size_t before = 0;  // of them, those of the turns before this one
    std::vector<Event::Sample> perhaps;
  };
  // `of` what may be known, of first attempts and of retries.
  template <typename Of>
  std::optional<Range> Any(const std::string& machine, const std::string& node, const Of& of) const;

  std::map<std::pair<std::string, std::string>, Attempts> attempts_;  // by machine and node
};

}  // namespace dfsmr::model
