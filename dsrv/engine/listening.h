// How change triggers read the feed: each record once, in order. At the head each record is looked
// at once for all triggers, as it is added: an index by kind, namespace and machine finds those
// that may want it, and what they want waits in memory. A trigger that is behind, because it was
// paused, is new, or takes more time than there is, reads from the disk, a portion in each pass,
// until it is at the head.
//
// How far a trigger has come is in the batch of what it starts. Those at the head that have nothing
// to start share one row for that.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/names.h"
#include "dsrv/engine/turn.h"
#include "fsm/when/trigger.h"

namespace dfsmr {

class Listening : public FeedListener {
 public:
  Listening(OpenTurn& turn, TriggerStates& states, Residents& residents, ItemTaker& taker)
      : turn_(turn), states_(states), residents_(residents), taker_(taker) {}

  // At start: up to where the triggers at the head had come.
  Result<Ok> Recover();
  // The trigger reads on from its position, from now on. Does nothing when it listens to no
  // changes.
  void Begin(TriggerState& state);
  // It reads no more: its position stands. To be called before its document changes.
  void End(TriggerState& state);
  // The last record that it has looked at.
  uint64_t PositionOf(const TriggerState& state) const;

  void Appended(const Event& event) override;
  void BeginPass();
  // Looks at one record for one trigger, or at a portion for those that are behind. False: nothing
  // is due, or this pass has done its share.
  bool Work();
  Timestamp Due() const;
  // At the end of a turn.
  void Stage();

 private:
  using EventPtr = std::shared_ptr<const Event>;
  struct Candidate {
    TriggerState* state;
    const ItemSource* source;
    // Bits of the kinds and the results that it looks for: here, because with many triggers most of
    // the time would go into reading the sources.
    uint64_t kinds;
    uint64_t results;
  };
  using Candidates = std::vector<Candidate>;
  struct InNamespace {
    Candidates of_any;  // machine
    absl::flat_hash_map<std::string, Candidates> by_machine;
  };
  // A record that a trigger is to look at, with those of its sources that may want it.
  struct Noted {
    EventPtr event;
    TriggerState* state;
    std::vector<const ItemSource*> sources;
  };

  void Index();
  void Note(const Candidates& candidates, const Event& event, EventPtr* shared);
  void FallBehind(TriggerState& state);
  void Forget(TriggerState& state);
  void TakeNoted();
  bool CatchUp();
  void Overtaken(TriggerState& state);
  std::vector<EventPtr> Read(uint64_t first, size_t most);
  void LookAt(const std::vector<EventPtr>& records, const std::vector<TriggerState*>& readers);
  void Look(TriggerState& state, const Event& event, const std::vector<const ItemSource*>& sources);
  std::vector<const ItemSource*> SourcesFor(const TriggerState& state, const Event& event) const;

  OpenTurn& turn_;
  TriggerStates& states_;
  Residents& residents_;
  ItemTaker& taker_;
  absl::flat_hash_map<std::string, InNamespace> index_;
  size_t at_head_ = 0;
  std::vector<TriggerState*> behind_;
  size_t next_behind_ = 0;  // whose turn it is
  std::deque<Noted> noted_;
  size_t noted_bytes_ = 0;
  uint64_t followed_ = 0;  // as its row says
  size_t takes_left_ = 0;  // of this pass
  size_t looks_left_ = 0;
  size_t reads_left_ = 0;
  // The last item that was made, for other triggers that want it.
  uint64_t item_seq_ = 0;
  std::string item_;
};

}  // namespace dfsmr
