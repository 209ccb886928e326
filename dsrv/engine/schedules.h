// Schedules: instances that begin, and transitions that are sent, when their time comes. Of a
// schedule that waits only the time of its next occurrence is in memory; where it has come to is a
// row, and its document is parsed when it is due. Position, occurrence and instance are one batch.
#pragma once

#include <absl/container/btree_set.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/document_keeper.h"
#include "dsrv/engine/launch_keeper.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/part.h"
#include "fsm/when/schedule.h"
#include "storage/rows/document.h"
#include "storage/rows/schedule.h"

namespace dfsmr {

// An occurrence by hand.
struct RunArgs {
  std::string ns;
  std::string name;
  std::string params;  // a JSON object, whose members win; empty: none
  std::optional<Overlap> overlap;
  std::optional<Timestamp> time;  // absent: now, to the second
  std::optional<TraceContext> trace = {};  // of the call
};

// How a time runs in a backfill.
struct BackfillRun {
  std::string group;
  std::string suffix;  // of the id
  std::optional<int32_t> priority;
};

class Schedules : public Part, public DocumentKeeper, public LaunchKeeper {
 public:
  Schedules(OpenTurn& turn, Documents& documents, Occurrences& occurrences, Launcher& launcher,
            Limits& limits, const Spaces& spaces)
      : turn_(turn),
        documents_(documents),
        occurrences_(occurrences),
        launcher_(launcher),
        limits_(limits),
        spaces_(spaces) {}

  // At start: when each of them is due next.
  Result<Ok> Recover();
  // When the next one is due; kNever: none is.
  Timestamp Due() const;
  // How often one was due since the start.
  uint64_t fired() const { return fired_; }

  // Pausing a paused one changes its note; resuming one that is not changes nothing. NO_SUCH_SCHEDULE.
  Result<Ok> SetPaused(const std::string& ns, const std::string& name, bool paused,
                       const std::string& note, const std::string& client);
  // Those of a namespace do as when paused, from now on, or go on. What was due before its freeze is
  // taken: call BeforeFreeze while the namespace is not frozen yet, and the other when that is so
  // or is over.
  void BeforeFreeze(const std::string& ns);
  void FreezeChanged(const std::string& ns);
  // LIMIT_REACHED: its overlap leaves it out. BAD_REQUEST: an overlap of one that sends. Whatever
  // else is wrong is the occurrence's outcome.
  Result<Occurrence> Run(const RunArgs& args);
  // Tries a FAILED occurrence again, with the version that stands now.
  Result<Occurrence> Retry(const std::string& ns, const std::string& name, const std::string& id,
                           const std::optional<TraceContext>& trace = {});

  // Launches a time of a version as a member of a backfill.
  Result<Occurrence> Backfill(const DocumentVersion& version, Timestamp time,
                              const BackfillRun& run);

  // Is told of each schedule that is deleted, in the same turn.
  void OnDeleted(std::function<void(const std::string& ns, const std::string& name)> hear) {
    deleted_ = std::move(hear);
  }
  void Defined(const DocumentVersion& version, bool first) override;
  void Deleted(const std::string& ns, const std::string& name) override;
  void LaunchEnded(const std::string& ns, const std::string& name, const std::string& instance,
                   bool failed, Timestamp time) override;
  void LaunchDecided(const std::string& ns, const std::string& name, uint64_t number,
                     const Launched& launched) override;

  void BeginPass() override { left_ = kPerPass; }
  // Deals with the schedule that has been due for longest.
  bool Work() override;

 private:
  static constexpr size_t kPerPass = 500;

  // A schedule that is dealt with: its row, its document and its times.
  struct One {
    std::string ns;
    rows::ScheduleState state;
    DocumentVersion version;

    const std::string& name() const { return version.document->name; }
    const ScheduleSource& source() const { return *std::get<0>(version.document->body); }
    rows::DocumentName document() const { return {ns, DocumentKind::kSchedule, name()}; }
    ScheduleTimes times() const {
      return {*source().calendar, ns, name(), state.last_time};
    }
  };
  using Waiting = std::pair<Timestamp, std::string>;  // until when it waits; ns\0name

  Result<std::optional<rows::ScheduleState>> StateOf(const std::string& ns,
                                                     const std::string& name);
  // `version` 0: the one that its row is of.
  Result<One> Find(const std::string& ns, const std::string& name);
  std::vector<std::string> NamesIn(const std::string& ns);
  // Finds when it is due next, and writes its row.
  void Put(One& one);
  void Await(const std::string& ns, const std::string& name, const rows::ScheduleState& state);
  void Forget(const std::string& ns, const std::string& name, const rows::ScheduleState& state);

  // Takes the first of the times that are due. False: none is.
  bool TakeOne(One& one);
  // Takes all that are due, before something else is to hold for them.
  void TakeDue(const std::string& ns, const std::string& name);
  void TakeDelayed(const DocumentVersion& version);
  // The first of the due times, up to `newest`, that is taken; nullopt: all of them are missed.
  std::optional<Timestamp> FirstTaken(const One& one, Timestamp newest);
  Result<Ok> Miss(One& one, Timestamp until);
  Result<Occurrence> Launch(One& one, Occurrence occurrence,
                            const std::optional<TraceContext>& trace = {});
  // A failure, or what ends a row of them.
  void Note(One& one, bool failed, const std::string& what);

  OpenTurn& turn_;
  Documents& documents_;
  Occurrences& occurrences_;
  Launcher& launcher_;
  Limits& limits_;
  std::function<void(const std::string& ns, const std::string& name)> deleted_;
  const Spaces& spaces_;
  absl::btree_set<Waiting> due_;
  // Those of which several times are taken one after another: up to which one.
  std::map<std::string, Timestamp> taking_;
  size_t left_ = 0;            // to deal with in this pass
  uint64_t fired_ = 0;
  Timestamp no_room_until_{};  // the disk is full: nothing is begun before then
};

}  // namespace dfsmr
