// The limits of queues and actions over several partitions. Home has the places. A partition asks
// for some when tasks are ready there that have none, and gives each back when its task is over, or
// when nobody has taken a task for it in a while. So never more are in hand than may be; those that
// were in hand before the key had a number count besides, and are told of. Home knows which
// priorities want a place, and since when: the next task of all partitions gets the next place.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/agenda.h"
#include "fsm/derived/limit_table.h"
#include "storage/rows/guest.h"

namespace dfsmr {

class LimitPlaces {
 public:
  LimitPlaces(OpenTurn& turn, LimitTable& table, LimitNumbersBook& numbers, LimitCounts& counts,
              Agenda& agenda, Messages& messages, const EngineOptions& options)
      : turn_(turn),
        table_(table),
        numbers_(numbers),
        counts_(counts),
        agenda_(agenda),
        messages_(messages),
        options_(options) {}

  // At start, before instances are loaded: what a row says.
  void Restore(const rows::CountedRow& row);
  // At start, when all instances are loaded.
  void Loaded();
  // A namespace goes, and has no instances any more.
  void Forget(const std::string& ns);
  // A task was handed out in this partition under a key, which is ns\0key.
  void Took(const std::string& full);
  // When there is something to do, by real time.
  Timestamp Due() const { return due_; }

  // At home: whether tasks of this partition may have what room there is.
  bool HomeMay(const std::string& full) const;
  void TakeWanted(PartitionId from, const rows::Message::Wanted& wanted);
  void TakeHeld(PartitionId from, const rows::Message::Held& held);
  // Gives places to those that want some. False: there is none to give.
  bool Give();

  // Elsewhere.
  void TakeKey(const std::string& full, bool counts);
  void TakePlaces(const rows::Message::Places& places);
  void TellHome();

 private:
  struct Share {  // of another partition, or elsewhere of this one
    bool counts = false;  // elsewhere: it has a number
    uint64_t wanted = 0;
    uint64_t places = 0;
    int64_t held = 0;  // without places
    // Of those that want a place, the next first; elsewhere: as home was told.
    std::vector<Agenda::Turn> first;
  };
  struct Here : Share {         // elsewhere
    uint64_t fresh = 0;         // places for which no task has been handed out
    Timestamp until;            // these are kept
    Duration pause{};           // after which more are wanted, when nobody has taken the last
    Timestamp again;            // not before are more wanted
  };
  struct Key {  // at home
    std::map<PartitionId, Share> shares;
    uint64_t wanted = 0;  // of all of them
    bool own = false;      // it is home's turn
    Timestamp own_until;
    Timestamp own_again;  // home had its turn in vain, and has none before
  };

  void Put(const std::string& full, PartitionId partition, const Share& share);
  bool GiveOf(const std::string& full, Key& key);
  // The partition whose task is next; home, if that has its turn.
  PartitionId NextOf(const std::string& full, const Key& key) const;
  void Want(Key& key, Share& share, int64_t by);
  void TellOf(const std::string& full, Here& here);
  void Open(const std::string& full, const Here& here);
  uint64_t ReadyOf(const std::string& full) const;
  std::vector<Agenda::Turn> FirstOf(const std::string& full, size_t most) const;

  OpenTurn& turn_;
  LimitTable& table_;
  LimitNumbersBook& numbers_;
  LimitCounts& counts_;
  Agenda& agenda_;
  Messages& messages_;
  const EngineOptions& options_;
  std::map<std::string, Key> keys_;   // at home, by ns\0key
  std::set<std::string> wanting_;     // of these
  std::map<std::string, Here> here_;  // elsewhere, by ns\0key
  Timestamp due_ = kNever;
};

}  // namespace dfsmr
