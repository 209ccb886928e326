// Elsewhere than at home: tells home what instances here have of limits, and knows which of its
// answers are to the last word. The limits of all partitions are decided at home.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/turn.h"
#include "fsm/machine/limit.h"
#include "storage/rows/message.h"

namespace dfsmr {

class LimitEnvoy {
 public:
  using Stake = rows::Message::Stake;

  LimitEnvoy(OpenTurn& turn, Messages& messages) : turn_(turn), messages_(messages) {}

  // Whether this is elsewhere.
  bool Speaks() const { return !turn_.at_home(); }
  // At start: what home was told last.
  Result<Ok> Recover();

  // With which words an instance or a token asks, if the change under way has it ask.
  void Say(const std::string& ns, const std::string& id, uint64_t visit, LimitAsks asks);
  // The words said last for it; nullopt: none.
  std::optional<LimitAsks> TakeSaid(const std::string& ns, const std::string& id, uint64_t visit);
  // Tells home what one has from now on.
  void Tell(Stake stake);
  // Home keeps a place for one that is not to be: unless it is there, and has told home by itself.
  void GiveUp(const std::string& ns, const std::string& id);
  // Whether this answers what home was told last.
  bool Expects(const rows::Message::Verdict& verdict) const;

 private:
  using Name = std::pair<std::string, uint64_t>;  // ns\0id, visit

  OpenTurn& turn_;
  Messages& messages_;
  std::map<Name, uint64_t> told_;  // the number of the last stake; of those that hold or wait
  std::optional<std::pair<Name, LimitAsks>> said_;
};

}  // namespace dfsmr
