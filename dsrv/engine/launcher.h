// Launches: what schedules and triggers start and send. And what becomes of what they started: how
// many of it go on, and whether it succeeded. What lives in another partition is started or moved
// by a message; its end comes back as one.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "dsrv/engine/types.h"
#include "fsm/base/template.h"
#include "fsm/base/trace.h"
#include "fsm/when/document.h"
#include "fsm/when/launch.h"
#include "fsm/when/occurrence.h"
#include "storage/rows/message.h"

namespace dfsmr {

// A chain of change triggers that is deeper is taken for a loop.
inline constexpr uint32_t kLaunchDepthMax = 16;

// A schedule or trigger by its cause, as CauseOf writes it; nullopt: it is neither.
struct CauseName {
  DocumentKind kind;
  std::string_view name;  // borrowed
};
std::optional<CauseName> ReadCause(std::string_view cause);

// One launch: the source, what its references stand for, and what wins over it.
struct LaunchOrder {
  std::string ns;
  std::string cause;  // CauseOf the schedule or trigger
  const LaunchSource& source;
  Resolver resolve;        // what a reference stands for: an error names what is missing
  std::string default_id;  // of the instance, when the source names none
  std::string id_suffix;   // is added to a default id: "-again-2"
  Timestamp time;          // its time: `before` counts from it
  uint64_t occurrence = 0;  // its number
  uint32_t depth = 0;      // of what is started or sent, in a chain of change triggers
  bool backfill = false;   // overlap and failures do not count
  std::optional<TraceContext> trace = {};  // of the call that launches, for what is started
  // What wins over the source.
  std::string params;                 // a JSON object, whose members win; empty: none
  std::optional<Overlap> overlap;
  std::optional<std::string> group;
  std::optional<int32_t> priority;
};

class Launcher : public Part {
 public:
  Launcher(OpenTurn& turn, Changer& changer, Starter& starter, Reports& reports,
           Messages& messages, const EngineOptions& options)
      : turn_(turn),
        changer_(changer),
        starter_(starter),
        reports_(reports),
        messages_(messages),
        options_(options) {}

  // Names the keeper of schedules or triggers. Call it before the first change.
  void SetKeeper(DocumentKind kind, LaunchKeeper* keeper) { keepers_[kind] = keeper; }

  // The start that an order means, filled in. An error: a reference is missing, or what it gives
  // cannot be used. Changes nothing. REQUIRES: the source starts.
  static Result<StartArgs> Fill(const LaunchOrder& order);

  // The id that a source names, filled in. REQUIRES: it starts, and names one.
  static Result<std::string> IdOf(const LaunchSource& source, const Resolver& resolve);

  // Starts or sends. Only one error: there is no room (DISK_FULL), nothing has happened, and the
  // launch is to be tried again later. All else that is wrong is an outcome.
  Result<Launched> Launch(const LaunchOrder& order);

  // What other partitions have launched here for theirs. Only one error, as of Launch.
  Result<Launched> Begin(const rows::Message::Begin& begin);
  Result<Launched> Move(const rows::Message::Move& move);
  // What others tell of launches for schedules and triggers, which are all at home.
  void Decided(const rows::Message::Decided& decided);
  void Finished(const rows::Message::Finished& finished);

  LaunchCounts CountsOf(const std::string& ns, const std::string& cause) const;
  // What other partitions have, as long as home answers; see elsewhere.h.
  void AddElsewhere(const std::string& ns, const std::string& cause, const LaunchCounts& counts);
  void ForgetElsewhere() { elsewhere_.clear(); }
  // Of all in a namespace, by cause; only of those of which some go on.
  std::map<std::string, LaunchCounts> CountsIn(const std::string& ns) const;

  void Load(Resident& resident) override;
  void Absorb(const Change& change) override;
  // Tells a keeper of one end. False: there is none.
  bool TellEnd();
  bool Work() override { return TellEnd(); }

 private:
  using Ended = rows::Message::Finished;

  Result<Launched> Start(const LaunchOrder& order);
  Result<Launched> Start(StartArgs args);
  Result<Launched> Send(const LaunchOrder& order);
  LaunchKeeper* KeeperOf(std::string_view cause, std::string* name) const;
  void Count(const Instance& instance, InstanceState state, int64_t by);

  OpenTurn& turn_;
  Changer& changer_;
  Starter& starter_;
  Reports& reports_;
  Messages& messages_;
  const EngineOptions& options_;
  std::map<DocumentKind, LaunchKeeper*> keepers_;
  absl::flat_hash_map<std::string, LaunchCounts> counts_;  // ns\0cause; only of those that go on
  std::map<std::string, LaunchCounts> elsewhere_;          // the same of other partitions
  std::deque<Ended> ended_;
};

}  // namespace dfsmr
