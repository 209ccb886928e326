// The feed as everybody was told of it: one sequence of records from 1 on, without gaps, of which
// none is ever told otherwise, whatever crashes. Retention takes the oldest, not before its time
// and soon after.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fsm/rules/instance.h"

namespace dfsmr::model {

class Feed {
 public:
  // `retention`: what the server keeps records for.
  explicit Feed(Duration retention) : retention_(retention) {}

  // The first thing that was found wrong; empty: all is well.
  const std::string& problem() const { return problem_; }

  // The next records, of one turn, or of what was written before a crash.
  void Tell(const std::vector<Event>& events, bool unheard);
  // A call of this turn has made this version of a machine.
  void Defines(const std::string& machine, uint32_t version);
  void EndTurn();
  // What the store has, from its first record `first` on; nothing is left to be done at `now`.
  void Compare(const std::vector<Event>& stored, uint64_t first, Timestamp now);

 private:
  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }

  const Duration retention_;
  std::map<uint64_t, Event> told_;
  std::map<uint64_t, Timestamp> written_;  // by record: the latest that was written with it
  std::vector<std::pair<std::string, uint32_t>> defined_;  // as the feed tells, in this turn
  std::string problem_;
};

}  // namespace dfsmr::model
