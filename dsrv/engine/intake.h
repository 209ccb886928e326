// Takes the items that triggers are brought, through `if`, `dedupe` and `gather` to what they start
// or send. What becomes of an item is in the batch of the turn that takes it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "dsrv/engine/item_taker.h"
#include "dsrv/engine/names.h"
#include "dsrv/engine/trigger_state.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "fsm/when/occurrence.h"
#include "fsm/when/trigger.h"
#include "storage/rows/trigger.h"


namespace dfsmr {

struct Item {
  const ItemSource& source;  // that brings it
  std::string json;
  uint32_t depth = 0;  // of what it starts or sends, in a chain of change triggers
  OccurrenceKind kind = OccurrenceKind::kRegular;
  std::optional<TraceContext> trace = {};  // of the call that brings it
};

class Intake : public ItemTaker {
 public:
  Intake(OpenTurn& turn, TriggerStates& states, Launcher& launcher, Occurrences& occurrences)
      : turn_(turn), states_(states), launcher_(launcher), occurrences_(occurrences) {}

  // Sets what is to be done when a trigger is paused because of its failures.
  void OnPause(std::function<void(TriggerState&)> paused) { paused_ = std::move(paused); }

  // Why nothing can be taken now; nullopt: it can. Nothing of it changes during a pass.
  std::optional<Error> Full() const { return turn_.NeedsRoom(Room::kAmple); }
  // What became of an item: of FILTERED, DUPLICATE and GATHERED nothing is listed. An error: there
  // is no room, and nothing has happened. REQUIRES: its document is the trigger's.
  Result<Occurrence> Take(TriggerState& state, const Item& item);
  // A dead letter again, with the version that stands now, from where it failed. One whose text has
  // come since, or that is gathered, is done with that: what a gathering becomes is listed anew.
  Result<Occurrence> Retry(TriggerState& state, Occurrence one,
                           const std::optional<TraceContext>& trace);
  bool TakesNothing() const override { return Full().has_value(); }
  Took TakeChange(TriggerState& state, const Brought& brought) override;
  // Lists it.
  void Miss(TriggerState& state, uint64_t count) override;

  // How what it started has ended, for `stop_on_fail`.
  void Ended(TriggerState& state, const std::string& instance, bool failed);
  // What has become of a launch elsewhere, as LaunchKeeper has it.
  void Decided(TriggerState& state, uint64_t number, const Launched& launched);

  // Open gatherings: those of a trigger from the store, none any more, and with other rules.
  Result<Ok> LoadGatherings(TriggerState& state);
  void ForgetGatherings(TriggerState& state);
  void TimeGatherings(TriggerState& state);
  // Ends one gathering whose time has come. False: there is none.
  bool EndGathering();
  Timestamp Due() const;

 private:
  struct Deadline {
    Timestamp at;
    TriggerState* state;
    std::string key;
    friend bool operator<(const Deadline& a, const Deadline& b) {
      return std::tie(a.at, a.state->serial, a.key) < std::tie(b.at, b.state->serial, b.key);
    }
  };

  struct Deduped {
    bool duplicate = false;
    std::string error;  // the text cannot be had
  };
  Result<Deduped> Dedupe(TriggerState& state, const Given& given);
  // `key`: the text that the gathering's items share.
  Result<Occurrence> Gather(TriggerState& state, const Item& item, const Given& given,
                            const std::string& key);
  Result<Occurrence> FinishGathering(TriggerState& state, const rows::GatheringRow& row,
                                     OccurrenceKind kind,
                                     const std::optional<TraceContext>& trace = {});
  Result<Ok> Expire(TriggerState& state, const rows::GatheringRow& row);
  void DropGathering(TriggerState& state, const rows::GatheringRow& row);
  Result<Occurrence> Launch(TriggerState& state, const Given& given, OccurrenceKind kind);
  // Fills in what has become of a dead letter; an error as Launch.
  Result<Ok> GoOn(TriggerState& state, Given* given, Occurrence* one);
  // Fills in what was launched; an error as Launch.
  // Whether it goes elsewhere, so that it is not decided yet.
  Result<bool> Try(TriggerState& state, const Given& given, uint64_t number, Occurrence* one);
  // `elsewhere`: it is not decided yet.
  Result<Occurrence> List(TriggerState& state, const Given& given, Occurrence one,
                          bool elsewhere = false);
  void Failed(TriggerState& state, const std::string& why);
  void Succeeded(TriggerState& state);

  OpenTurn& turn_;
  TriggerStates& states_;
  Launcher& launcher_;
  Occurrences& occurrences_;
  std::function<void(TriggerState&)> paused_;
  std::set<Deadline> deadlines_;  // of the gatherings of triggers that are not paused
};

}  // namespace dfsmr
