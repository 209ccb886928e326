// What happens when its time has come. Timers are usually disarmed before they are due: deadlines
// of claims, ends of a ready_timeout, breakers that let a retry go. Alarms are not: the start of an
// instance, or the end of a wait. There may be millions of alarms, so an alarm holds little more
// than the name of its instance.
#pragma once

#include <absl/container/btree_map.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"

namespace dfsmr {

struct ClaimDeadline {
  Resident* resident;  // stays in memory as long as it is claimed
  uint64_t visit;
  ClaimId claim;
};
struct BreakerTick {
  MachineState* machine;
};
// A ready token by its instance, ns\0id, and its visit.
using ReadyToken = std::pair<std::string, uint64_t>;
struct ReadyEnd {
  const ReadyToken* token;  // that no worker has taken for so long
};
using Timer = std::variant<ClaimDeadline, BreakerTick, ReadyEnd>;
struct Alarm {
  std::string ns;
  std::string id;
  uint64_t visit;  // of the token whose wait is over; 0: the instance may start
};
using Happening = std::variant<ClaimDeadline, BreakerTick, ReadyEnd, Alarm>;

class Timers : public Part {
 public:
  using Key = std::pair<Timestamp, uint64_t>;

  explicit Timers(OpenTurn& turn) : turn_(turn) {}

  Key Arm(Timestamp at, Timer timer);
  void Disarm(const Key& key) { timers_.erase(key); }
  void Await(Timestamp at, ResidentName name, uint64_t visit);
  // One timer for a live claim, at its deadline as it is now.
  void ArmClaim(Resident& resident, uint64_t visit, const Claim& claim);

  // The earliest that is due; nullopt: nothing is due.
  std::optional<Happening> PopDue();
  // When the next is due; kNever: there is none.
  Timestamp Due() const;
  // How many have been due.
  uint64_t fired() const { return fired_; }
  // The next, if it is an alarm, and when it is due.
  std::optional<std::pair<Timestamp, Alarm>> NextAlarm() const;
  void ForgetNextAlarm() { alarms_.erase(alarms_.begin()); }

  void Load(Resident& resident) override;
  // Keeps one timer for each live claim, at its present deadline, and an alarm for each wait.
  void Absorb(const Change& change) override;

 private:
  // An Alarm in one block of bytes: the visit, then ns and id, each ended by a zero byte.
  class Packed {
   public:
    Packed(ResidentName name, uint64_t visit);
    Alarm Unpack() const;

   private:
    std::unique_ptr<char[]> bytes_;
  };

  bool AlarmIsNext() const;
  void DisarmClaim(Resident& resident, ClaimId claim);
  void AwaitStart(const Instance& instance);

  OpenTurn& turn_;
  std::map<Key, Timer> timers_;
  absl::btree_map<Key, Packed> alarms_;
  uint64_t fired_ = 0;
};

}  // namespace dfsmr
