// The built-in keys of limits over several partitions. Home says which of them have a number. From
// then on instances elsewhere ask home for them as for any other key; and of those that run without
// having asked, since they had begun before, the other partitions tell how many there are, and of
// schedules and triggers which. Tasks of queues and actions have places (limit_places.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/limit_holders.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "storage/rows/guest.h"

namespace dfsmr {

class LimitPlaces;

class LimitCensus {
 public:
  LimitCensus(OpenTurn& turn, LimitTable& table, LimitNumbersBook& numbers, LimitCounts& counts,
              Messages& messages, LimitPlaces& places, const EngineOptions& options)
      : turn_(turn),
        table_(table),
        numbers_(numbers),
        counts_(counts),
        messages_(messages),
        places_(places),
        options_(options) {}

  // At start, before instances are loaded.
  Result<Ok> Recover();
  // A namespace goes, and has no instances any more.
  void Forget(const std::string& ns);

  // At start, when all instances are loaded.
  void Loaded();

  // At home: tells the others which keys have a number or are followed, if that has changed. Under
  // a key that gets a number nobody begins until all of them have told who holds it.
  void TellKeys();
  // Has `tell` run after the commit in which all have answered what they have been told of keys so
  // far, or ten seconds later: from then on a number holds for all, wherever they live.
  void AfterHeard(std::function<void()> tell);
  void TellHeard();  // at the end of a turn
  // Before a stop: nobody is waited for any more.
  void StopWaiting();
  // When the next is waited for no longer, by real time.
  Timestamp Due() const { return awaiting_.empty() ? kNever : awaiting_.front().until; }
  // At home: so many more elsewhere hold a key without having asked for it.
  void TakeHeld(PartitionId from, const rows::Message::Held& held);

  // Elsewhere: what home says of a key.
  void TakeKey(const rows::Message::Counted& counted);
  // Elsewhere: some that run, were started by a schedule or trigger while they might overlap, and
  // may not any more. Home does not know which they are until they hold its key.
  struct Unasked {
    std::string ns;
    std::string key;
    std::vector<std::string> instances;
  };
  std::optional<Unasked> NextUnasked();
  // Elsewhere: one more or less holds a built-in key that it has asked home for.
  void CountAsked(const std::string& ns, const std::string& key, int64_t by);
  // Elsewhere: another number of instances holds a key that is counted, by ns\0key.
  void Changed(const std::string& full) { changed_.insert(full); }
  // At the end of a turn. AnswerHome: when all that counts is told.
  void TellHome();
  void AnswerHome();

 private:
  struct Key {
    bool counts = false;    // it has a number
    bool followed = false;  // it has none, but is counted
    int64_t held = 0;       // at home: elsewhere, unasked; elsewhere: as home was told
    uint64_t round = 0;     // that is answered; at home:
    std::set<PartitionId> unheard = {};  //   these have not yet
  };
  void Put(const std::string& full, const Key& key);
  void Enrol(const std::string& full, const Key& key);
  void Hear(PartitionId from, const rows::Message::Held& held);

  OpenTurn& turn_;
  LimitTable& table_;
  LimitNumbersBook& numbers_;
  LimitCounts& counts_;
  Messages& messages_;
  LimitPlaces& places_;  // of queues and actions
  const EngineOptions& options_;
  std::map<std::string, Key> keys_;       // by ns\0key
  std::map<std::string, int64_t> asked_;  // elsewhere: that hold it and have asked, by ns\0key
  std::set<std::string> changed_;         // elsewhere: of keys_
  std::map<std::string, uint64_t> to_answer_;  // elsewhere: rounds, by ns\0key
  std::deque<std::pair<std::string, LimitHolders::Name>> enrolling_;  // elsewhere: up to this one
  struct Awaiting {
    std::set<std::string> keys;  // of which some have not answered
    Timestamp until;             // by real time
    std::function<void()> tell;
  };
  std::vector<Awaiting> awaiting_;        // at home
  bool waits_ = true;                     // there: until the engine is to stop
  uint64_t seen_ = UINT64_MAX;            // at home: the changes of numbers that were told
};

}  // namespace dfsmr
