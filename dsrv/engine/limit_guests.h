// At home: what instances of other partitions have of limits. They hold keys and stand in lines as
// those do that live here, and are told when it is their turn.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/limit_judge.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/limit_table.h"
#include "storage/rows/message.h"

namespace dfsmr {

class LimitGuests {
 public:
  using Stake = rows::Message::Stake;

  LimitGuests(OpenTurn& turn, LimitTable& table, LimitNumbersBook& numbers, LimitCounts& counts,
              LimitJudge& judge, Messages& messages, const EngineOptions& options)
      : turn_(turn),
        table_(table),
        numbers_(numbers),
        counts_(counts),
        judge_(judge),
        messages_(messages),
        options_(options) {}

  // At start: those that hold keys, then those that wait.
  Result<Ok> Recover();

  // What one has of limits from now on. If it asks, it is answered as soon as there is something to
  // answer. Returns who is to be cancelled in its favour.
  std::vector<LimitVictim> Take(Stake stake);
  // Whether one may begin elsewhere that limits may leave out: kLeftOut if they do. Its place is
  // kept until it asks, or until ten seconds have passed, and with this engine: it is in no row.
  LimitAnswer Reserve(Stake stake);
  // When the next place is kept no longer, by real time.
  Timestamp Due() const { return reserved_.empty() ? kNever : reserved_.front().first; }
  // Gives up a place that is kept no longer. False: there is none.
  bool GiveUpOne();
  // It is the turn of one of them. False: it is none of them.
  bool LetIn(const LimitTable::Waiter& next);
  // One is told to give way. Until it has, it takes no turn: let in, it would count as the newest
  // that holds the key, and others would give way in its stead.
  void SetAside(const std::string& ns, const std::string& instance);

 private:
  struct Guest {
    Stake stake;
    std::vector<LimitKey> line;  // in which it stands: the keys that its instance does not hold
    std::optional<Timestamp> kept_until;  // it has not asked yet; absent: it has
  };
  using Name = std::pair<std::string, uint64_t>;  // ns\0id, visit

  static Name NameOf(const Stake& stake);
  static LimitTable::Turn TurnOf(const Stake& stake);
  std::vector<LimitVictim> Judge(Stake stake);
  // Brings the table from what it had to what it has now; keeps it, unless it has nothing, or has
  // not asked yet.
  void Move(Stake stake, std::optional<Timestamp> kept_until = {});
  void LeaveLine(Guest& guest);
  void Stand(Guest& guest);
  void Hold(const Stake& stake, bool anew);
  void Release(const Stake& stake, const std::string& key);
  void Answer(const Stake& stake, const LimitAnswer& answer, bool for_ever);

  OpenTurn& turn_;
  LimitTable& table_;
  LimitNumbersBook& numbers_;
  LimitCounts& counts_;
  LimitJudge& judge_;
  Messages& messages_;
  const EngineOptions& options_;
  std::map<Name, Guest> guests_;
  std::deque<std::pair<Timestamp, Name>> reserved_;  // until when; of some that have asked since
};

}  // namespace dfsmr
