// The feed as everybody was told of it: one sequence of records from 1 on, without gaps, of which
// none is ever told otherwise, whatever crashes. Retention takes the oldest, not before its time
// and soon after.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fsm/rules/instance.h"

namespace dfsmr::model {

inline bool IsDry(const Event& event) { return event.about && event.about->dry_run; }

class Feed {
 public:
  using Fail = std::function<void(const std::string& what)>;
  // `retention`: what the server keeps records for.
  Feed(Duration retention, Fail fail) : retention_(retention), fail_(std::move(fail)) {}

  // The next records, of one turn, or of what was written before a crash.
  void Tell(const std::vector<Event>& events, bool unheard);
  // A call of this turn has made this version of a machine.
  void Defines(const std::string& machine, uint32_t version);
  void EndTurn();
  // What the store has, from its first record `first` on; nothing is left to be done at `now`.
  void Compare(const std::vector<Event>& stored, uint64_t first, Timestamp now);

 private:
  void Expect(bool good, const std::string& what) {
    if (!good) fail_(what);
  }

  const Duration retention_;
  const Fail fail_;
  std::map<uint64_t, Event> told_;
  std::map<uint64_t, Timestamp> written_;  // by record: the latest that was written with it
  std::vector<std::pair<std::string, uint32_t>> defined_;  // as the feed tells, in this turn
};

}  // namespace dfsmr::model
