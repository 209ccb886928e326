// Whether limits have room for one that asks, and what becomes of it if they have none.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/limit_gathering.h"
#include "dsrv/engine/names.h"
#include "fsm/derived/limit_table.h"
#include "fsm/rules/instance.h"
#include "fsm/rules/rules.h"

namespace dfsmr {

// One that asks: an instance as a whole, or a token of it.
struct LimitRequest {
  std::string ns;
  std::string id;
  std::string parent;  // empty: no step started it
  LimitTable::Turn turn;
  bool force = false;
  bool in_line = false;  // it waits already, so it asks as one that waits its turn
  // What it has asked for before, so that its numbers were heard; null: nothing.
  const std::vector<LimitKey>* asked = nullptr;
  bool looks = false;  // it only looks whether there is room: it asks later
  // Its parent and those above, where it lives elsewhere; null: they are here.
  const std::vector<std::string>* above = nullptr;
  // Places that others of the same report are to take, by ns\0key; null: none.
  const std::map<std::string, uint64_t>* reserved = nullptr;
};

// An instance that is to be cancelled in favour of another one.
struct LimitVictim {
  std::string ns;
  std::string id;
  CancelMode mode = CancelMode::kCancel;
  std::string why;
};

struct LimitVerdict {
  LimitAnswer answer;
  bool for_ever = false;  // kFails: only its ancestors hold what it lacks
  std::vector<LimitVictim> victims;
};

class LimitJudge {
 public:
  LimitJudge(OpenTurn& turn, Residents& residents, LimitTable& table, LimitNumbersBook& numbers,
             LimitCounts& counts)
      : turn_(turn), residents_(residents), table_(table), numbers_(numbers), counts_(counts) {}

  LimitVerdict Judge(const LimitRequest& asker, const LimitAsks& asks);
  // For finding who is to be cancelled so that the asker, which asked at `since`, has room.
  LimitGathering GatheringFor(const LimitRequest& asker, const LimitAsks& asks,
                              Timestamp since) const;
  // Looks at the next `most`, and adds those that are to be cancelled, not too many at once. True:
  // these were the last.
  bool Gather(LimitGathering* all, size_t most, std::vector<LimitVictim>* to) const;
  std::set<std::string> AncestorsOf(const LimitRequest& asker) const;
  // Visits the instances that hold a key, whether they have asked for it or not.
  void ForEachHolder(const std::string& ns, const std::string& key,
                     const std::function<bool(DatedInstance)>& visit) const;
  // Why one that waits for a key would wait for ever: only its ancestors hold it. nullopt: it would
  // not.
  std::optional<std::string> WhyForEver(const LimitRequest& asker, const LimitKey& key) const;
  // "limit 'env/prod' has no room: 1 of 1 is held by instance 'a'".
  std::string Why(const std::string& ns, const LimitAsk& ask) const;
  // The instances that hold a key, oldest first, at most `most`; of a thousand, when there are
  // more.
  std::vector<std::string> HoldersOf(const std::string& ns, const std::string& key,
                                     size_t most) const;

 private:
  using Dated = DatedInstance;

  // The numbers with which it asks count from now on, unless it has asked before.
  void Hear(const LimitRequest& asker, const LimitKey& key);
  // How many of the key's places others of the same report are to take.
  static uint64_t Reserved(const LimitRequest& asker, const std::string& key);
  bool HasRoom(const LimitRequest& asker, const LimitAsk& ask) const;
  bool HasPlace(const LimitRequest& asker, const LimitAsk& ask) const;
  // Whether an instance holds a key, having asked for it or not.
  bool Holds(const std::string& ns, const std::string& key, const std::string& instance) const;
  bool AncestorsAlone(const LimitRequest& asker, const std::string& key) const;
  void LookAtWaiters(LimitGathering* all, size_t* left) const;
  void LookAtHolders(LimitGathering* all, size_t* left) const;
  void Note(LimitGathering* all, const std::string& instance, Timestamp since, bool holds) const;
  void Choose(LimitGathering* all) const;
  void LetGo(LimitGathering* all, size_t* left, size_t* victims,
             std::vector<LimitVictim>* to) const;

  OpenTurn& turn_;
  Residents& residents_;
  LimitTable& table_;
  LimitNumbersBook& numbers_;
  LimitCounts& counts_;
};

}  // namespace dfsmr
