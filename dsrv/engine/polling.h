// Polls: triggers start an action as an instance, for ordinary workers, and take the items of its
// output; never two at once. The cursor that the output gives is in the batch of the last of the
// items.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "dsrv/engine/names.h"
#include "dsrv/engine/trigger_state.h"
#include "dsrv/engine/types.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "fsm/when/trigger.h"
#include "storage/rows/message.h"
#include "storage/rows/trigger.h"


namespace dfsmr {

class Polling {
 public:
  Polling(OpenTurn& turn, TriggerStates& states, Residents& residents, Changer& changer,
          Starter& starter, Retention& retention, Intake& intake, Messages& messages,
          const EngineOptions& options)
      : turn_(turn),
        states_(states),
        residents_(residents),
        changer_(changer),
        starter_(starter),
        retention_(retention),
        intake_(intake),
        messages_(messages),
        options_(options) {}

  // Its polls go on, as the trigger's document says now. At start once its instances are there.
  void Begin(TriggerState& state);
  // None begins any more; what an instance that is under way brings waits in the instance.
  void End(TriggerState& state);
  // What those that are under way bring is not wanted: they are cancelled. After End.
  void Drop(TriggerState& state);

  // Of instances that live elsewhere: one has stopped, or could not be started.
  void Hear(const rows::Message::Polled& polled);
  void Decided(const std::string& ns, const std::string& name, const Launched& launched);

  void Absorb(const Change& change);
  void BeginPass();
  // Elsewhere: tells home that the instance of a poll has stopped, in the turn in which it has.
  // False: none has.
  bool TellHome();
  // Begins a poll, or takes items that one has brought. False: nothing is due.
  bool Work();
  Timestamp Due() const;

 private:
  struct Poll {
    TriggerState* state;
    std::string source;
    friend bool operator<(const Poll& a, const Poll& b) {
      return std::tie(a.state->serial, a.source) < std::tie(b.state->serial, b.source);
    }
  };
  struct Output {
    std::vector<std::string> items;
    std::string cursor;  // empty: it gave none
    bool more = false;
  };

  static rows::PollRow& RowOf(const Poll& poll);
  static const PollSource* SourceOf(const Poll& poll);
  static std::string IdOf(const Poll& poll);
  void Schedule(const Poll& poll, Timestamp at);
  void Start(const Poll& poll);
  void Cancel(const TriggerState& state, const rows::PollRow& row);
  Result<Ok> StartInstance(const Poll& poll);
  void Take(const Poll& poll);
  static Result<Output> ReadOutput(std::string_view json);
  Result<Output> OutputElsewhere(const Poll& poll);
  Result<Output> OutputOf(const Poll& poll, Resident** resident);
  bool Runs(const Poll& poll);
  std::optional<Poll> RunningAs(const std::string& ns, const std::string& name,
                                const std::string& instance);
  bool TakeItems(const Poll& poll, const Output& output);
  void Failed(const Poll& poll, const std::string& why);

  OpenTurn& turn_;
  TriggerStates& states_;
  Residents& residents_;
  Changer& changer_;
  Starter& starter_;
  Retention& retention_;
  Intake& intake_;
  Messages& messages_;
  const EngineOptions& options_;
  std::set<std::pair<Timestamp, Poll>> due_;
  absl::flat_hash_map<std::string, Poll> running_;  // by ns\0id of the instance
  uint64_t emptied_ = 0;    // the turn in which polls ended that are to leave no instance; 0: none
  std::deque<Poll> ended_;  // whose instances have stopped
  // Of instances elsewhere that have brought no items, and are gone: what they have brought.
  absl::flat_hash_map<std::string, std::string> nothing_;
  // Elsewhere: the instances of polls that have stopped.
  std::deque<std::pair<std::string, std::string>> stopped_;
};

}  // namespace dfsmr
