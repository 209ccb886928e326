// Claims after the hand-out: what workers do to them besides reporting, and their deadlines.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "fsm/derived/latency.h"

namespace dfsmr {

class Claims : public Part {
 public:
  Claims(OpenTurn& turn, Catalog& catalog, Statistics& statistics, Residents& residents,
         Changer& changer, Throttle& throttle, const EngineOptions& options)
      : turn_(turn),
        catalog_(catalog),
        statistics_(statistics),
        residents_(residents),
        changer_(changer),
        throttle_(throttle),
        options_(options) {}

  Result<std::string> Relinquish(const std::string& ns, const std::string& id,
                                 const ClaimRef& claim, const GiveBackArgs& args);
  // `by` absent: as the node's timeout says.
  Extended Extend(const std::string& ns, const std::string& id, const ClaimRef& claim,
                  std::optional<Duration> by, ExtendArgs args);
  // As Engine::Undelivered.
  void Undelivered(const std::vector<Task>& tasks, bool perhaps);
  // A worker's stream has ended: gives the claim back in its place, unless its session keeps it.
  // Does nothing on a node that runs at most once.
  void Abandon(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim);
  // The same of a stream that its worker has half-closed: no session keeps the claim.
  void Return(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim);
  // The server that the worker's stream was with is gone: it may report through another, so only
  // what its session keeps is as if the stream had ended.
  void Leave(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim);
  // The session of a claim does not come back.
  void LoseForGood(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim);
  bool IsLive(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim) {
    return Find(ns, id, visit, claim).claim != nullptr;
  }
  void TimeOut(const ClaimDeadline& due);
  // The worker's process has ended without a report, of an instance that is being cancelled or has
  // stopped. `gave_back`: its work may be done again. False: the claim is none of those.
  bool End(const std::string& ns, const std::string& id, const ClaimRef& claim,
           bool gave_back = false);

  // Learns from a report that came too late and is refused how long its attempt took.
  void LateReport(const Instance& instance, ClaimId claim);
  // The last claim that was made before the instance was started: a claim that is not later belongs
  // to an earlier instance with the same id. Empty when `claim` is of this epoch: only claims that
  // a crash may have lost need this.
  ClaimId BornAfter(Resident& resident, ClaimId claim);

  void Absorb(const Change& change) override;

 private:
  // The breaker hears of it, unless it is of a dry run.
  void GivenBack(const Resident& resident, const Claim& claim);
  // A claim that ended without a report. A late report of its worker tells how long it took.
  struct Ended {
    Latency* latency;
    Timestamp claim_time;
    Duration censored_at;
    bool retry;
  };

  struct Held {
    Resident* resident = nullptr;
    const Token* token = nullptr;
    const Claim* claim = nullptr;
  };
  // A live claim; all null: it is not live any more.
  Held Find(const std::string& ns, const std::string& id, uint64_t visit, ClaimId claim);
  void Lose(Resident& resident, uint64_t visit, const Claim& claim, bool for_good);
  void Remember(const Change& change, NodeIndex node, const Claim& claim);
  // Whether the answer to a begin need not wait for the commit.
  bool BeginsEarly(const Resident& resident, const Token& token, const Claim& claim,
                   const ExtendArgs& args) const;
  Timestamp NewDeadline(const Resident& resident, const Token* token, std::optional<Duration> by);

  OpenTurn& turn_;
  Catalog& catalog_;
  Statistics& statistics_;
  Residents& residents_;
  Changer& changer_;
  Throttle& throttle_;
  const EngineOptions& options_;
  std::unordered_map<uint64_t, Ended> ended_;  // by serial, of this epoch
  std::deque<uint64_t> ended_order_;
};

}  // namespace dfsmr
