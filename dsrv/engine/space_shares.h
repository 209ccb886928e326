// Quotas of namespaces over several partitions. Whether an instance may be started is decided where
// it will live, by what is counted there and what the others are known to count: each partition
// tells home what it has, and home tells each what the others have.
//
// So far from a quota nobody need be told; near to it everything is told at once. A difference that
// is not told is less than a share of what is left, so that, when all messages have come, nobody
// lets one in that is too many. What is let in while they are on their way may be: in the worst case
// each partition lets in what was left.
#pragma once

#include <map>
#include <set>
#include <string>

#include "dsrv/engine/names.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/types.h"
#include "storage/rows/message.h"

namespace dfsmr {

class SpaceShares {
 public:
  SpaceShares(OpenTurn& turn, Spaces& spaces, Messages& messages, const EngineOptions& options)
      : turn_(turn),
        spaces_(spaces),
        messages_(messages),
        options_(options),
        due_(options.partitions > 1 ? Timestamp() : kNever) {}

  // Home is told what another partition has, or another partition what the others have.
  void Take(PartitionId from, const rows::Message::Uses& uses);
  // At the end of a turn: tells what is to be told.
  void Write();
  // When there is something to tell, by real time.
  Timestamp Due() const { return due_; }

 private:
  using Use = rows::Message::Use;
  struct Known {  // of another partition
    Use use;      // what it has; its starts are those since home has been open
    Use told;     // what it was told of the others
    bool heard = false;
  };
  struct Told {  // elsewhere, to home
    Use use;
    bool heard = true;  // by the engine that home has now
  };
  struct Space {
    Timestamp made;
    Use last;  // what home had itself when it looked last
    std::map<PartitionId, Known> known;
  };

  // At home.
  // True: there is a namespace that quotas count.
  bool TellOthers();
  void TakeOne(PartitionId from, const Use& use);
  Space& Of(const std::string& ns);
  Use SumOf(const std::string& ns, const Space& space) const;
  // Elsewhere.
  bool TellHome();

  // Whether there is so much between what is and what was told, that it is to be told. `share`: of
  // what is left to a quota.
  static bool Matters(const SpaceStand& stand, const Use& now, const Use& told, uint64_t share);

  OpenTurn& turn_;
  Spaces& spaces_;
  Messages& messages_;
  const EngineOptions& options_;
  bool stirred_ = true;  // something may be to tell
  bool counts_ = false;  // there is a namespace that quotas count
  bool anew_ = true;     // what the others know is to be told to this engine, which has just begun
  uint64_t changes_ = 0;  // of Spaces::changes, that have been looked at
  Timestamp next_;        // not to be told before
  Timestamp due_;
  std::map<std::string, Space> known_;  // at home, by namespace
  std::set<std::string> changed_;       // of these
  std::map<std::string, Told> told_;    // elsewhere
};

}  // namespace dfsmr
