// The built-in keys of limits over several partitions. Home says which of them have a number. From
// then on instances elsewhere ask home for them as for any other key; and of those that run without
// having asked, since they had begun before, the other partitions tell how many there are, and of
// schedules and triggers which. Tasks of queues and actions have places (limit_places.h).
#pragma once

#include <cstdint>
#include <deque>
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
  LimitCensus(OpenTurn& turn, LimitNumbersBook& numbers, LimitCounts& counts, Messages& messages,
              LimitPlaces& places, const EngineOptions& options)
      : turn_(turn),
        numbers_(numbers),
        counts_(counts),
        messages_(messages),
        places_(places),
        options_(options) {}

  // At start, before instances are loaded.
  Result<Ok> Recover();
  // A namespace goes, and has no instances any more.
  void Forget(const std::string& ns);

  // At home: tells the others which keys have a number or are followed, if that has changed.
  void TellKeys();
  void TakeHeld(PartitionId from, const rows::Message::Held& held);

  // Elsewhere: what home says. True: other keys than before are counted here.
  bool TakeKey(const rows::Message::Counted& counted);
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
  // At the end of a turn.
  void TellHome();

 private:
  struct Key {
    bool counts = false;    // it has a number
    bool followed = false;  // it has none, but is counted
    int64_t held = 0;       // at home: elsewhere, unasked; elsewhere: as home was told
  };
  void Put(const std::string& full, const Key& key);
  void Enrol(const std::string& full, const Key& key);

  OpenTurn& turn_;
  LimitNumbersBook& numbers_;
  LimitCounts& counts_;
  Messages& messages_;
  LimitPlaces& places_;  // of queues and actions
  const EngineOptions& options_;
  std::map<std::string, Key> keys_;       // by ns\0key
  std::map<std::string, int64_t> asked_;  // elsewhere: that hold it and have asked, by ns\0key
  std::set<std::string> changed_;         // elsewhere: of keys_
  std::deque<std::pair<std::string, LimitHolders::Name>> enrolling_;  // elsewhere: up to this one
  uint64_t seen_ = UINT64_MAX;            // at home: the changes of numbers that were told
};

}  // namespace dfsmr
