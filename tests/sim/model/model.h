// The reference model: a second, slow and plain interpreter of the contract. It sees each call with
// its answer, each hand-out and each record of the feed, in the order in which the server decided
// them, predicts them, and keeps what workers and operators were told. Where the contract leaves a
// choice (which tasks a poll gets, a percentile, a jitter) it checks that the choice is allowed,
// and adopts it. It reads nothing of the server's rules; the rows of instances it only compares.
//
// Turns come when they are durable: ../lockstep.h sees to that. A turn is BeginTurn with its
// records, then what happened in it in order, then EndTurn.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/types.h"
#include "tests/sim/model/durations.h"
#include "tests/sim/model/feed.h"
#include "tests/sim/model/life.h"
#include "tests/sim/model/machine_rules.h"

namespace dfsmr::model {

class Model {
 public:
  // `retention`: what the server keeps stopped instances for.
  // `graphs`: the graph of an instance of a plan as the store has it; null: it has none.
  using Graphs = std::function<std::shared_ptr<const PlanGraph>(const std::string& id)>;
  Model(Duration retention, Graphs graphs)
      : retention_(retention),
        graphs_(std::move(graphs)),
        feed_(retention, [this](const std::string& what) { Fail(what); }) {}

  // From now on the model only follows what the feed tells of instances: limits decide when they
  // begin and are handed out, and those are checked elsewhere.
  void OnlyFollow() { only_follows_ = true; }

  // The first thing that was found wrong; empty: all is well.
  const std::string& problem() const { return problem_; }

  // Turns. The clock of a turn, or of a further pass of it, is what its engine was told.
  void BeginTurn(const std::vector<Event>& events, std::set<std::string> cancelled);
  // The turn's next pass begins at `until`; kNever: this is the last one.
  void Clock(Timestamp now, Timestamp until);
  void Work();  // what comes by itself
  // A task for a waiter that was parked.
  struct Served {
    Task task;
    uint64_t waiter = 0;
    bool last = false;  // of those that the waiter was given at once
    bool late = false;  // it was told only once the turn was durable
  };
  // What was handed out at the end of a pass. `late`: what may be of a later pass, too; what has
  // found its place is taken out.
  void Serve(std::vector<Served> served, std::vector<Served>* late);
  // A pass is over: nothing that is due is left, and nobody waits for work that is there.
  // `served`: all that was handed out up to now has found its place.
  void EndPass(bool served);
  void EndTurn();

  // Calls, with their answers.
  void Define(const std::vector<Machine>& machines, const Result<std::vector<Defined>>& answer);
  void Start(const StartArgs& args, const Result<Started>& answer);
  // `starts`: it asks for instances to be started.
  void Report(const std::string& id, const ReportArgs& args, const Result<Answer>& answer);
  // What is started with a report that was accepted; or why it was refused.
  void StartAll(const std::vector<StartArgs>& starts, const Answer& answer);
  void RefuseStarts(const std::vector<StartArgs>& starts, const Error& error);
  // Before a report that was refused: if it is kept for the resume, these are started then.
  void KeepStarts(const std::string& id, const ReportArgs& args,
                  const std::vector<StartArgs>& starts);
  void Relinquish(const std::string& id, const std::string& claim,
                  const Result<std::string>& answer);
  void Extend(const std::string& id, const std::string& claim, std::optional<Duration> by,
              const Extended& answer);
  void Pause(const std::string& id, const Result<Ok>& answer);
  void Resume(const std::string& id, const std::string& node, bool force, const Result<Ok>& answer);
  void Skip(const std::string& id, const std::string& node, const Result<Ok>& answer);
  void Cancel(const std::string& id, CancelMode mode, const Result<Ok>& answer);
  void Settle(const std::string& id, const Result<Ok>& answer);

  // Waiters. `waiter` is the lockstep's own number.
  void Poll(const PollArgs& args, uint64_t waiter, bool waits, const std::vector<Task>& tasks);
  void EndPoll(uint64_t waiter);  // cancelled, or answered
  void Open(uint64_t waiter, const Filter& filter, const std::string& worker, size_t capacity);
  void Drain(uint64_t waiter);
  void Close(uint64_t waiter);
  void Undelivered(const std::vector<Task>& tasks, bool perhaps);
  void StopHandingOut();

  // Workers have these from now on, whatever becomes of the turn that handed them out.
  void Hold(const std::vector<Task>& tasks);

  // Instances as the store has them, by id.
  struct Row {
    Instance instance;
    Spec spec;
  };
  using Rows = std::map<std::string, Row>;
  // The server's memory is gone, with what was not durable. `events`: records that nobody was told
  // of. From here on the rows are taken for true.
  // `latest` is what the engine's clock may have shown; `defined` is all that is defined.
  // `unknown`: instances of calls that may have been written, and were not answered.
  void Crashed(const std::vector<Event>& events, std::set<std::string> unknown, const Rows& rows,
               const std::vector<const Machine*>& defined, Timestamp latest, Timestamp now);
  // All that the server knows is written, and nothing is left to be done: `rows` are all instances,
  // `stored` is the feed from record `first` on, and `views` are what GetMachine shows.
  void Compare(const Rows& rows);
  void CompareFeed(const std::vector<Event>& stored, uint64_t first);
  void CompareMachines(const std::vector<MachineView>& views);
  void CompareOne(const Row& row, bool exact);
  // Instances of which the last turn told.
  const std::set<std::string>& touched() const { return touched_; }

  const std::map<std::string, Life>& lives() const { return lives_; }
  void Fail(const std::string& what);

 private:
  // What a worker asks for, and its name.
  struct Wish {
    Filter filter;
    std::string worker;
  };
  struct Waiter {
    Wish wish;
    size_t room = 0;  // for tasks: of a stream at once, of a poll for all time
    bool stream = false;
    bool draining = false;
    bool blind = false;  // it holds work that the model does not follow
  };
  struct Handed {
    std::string instance;
    uint64_t visit = 0;
    ClaimId id;
    bool once = false;  // of work that runs at most once
  };

  // Definitions.
  const Machine& MachineOf(const Life& life) const;
  const Node& NodeAt(const Life& life, const Stand& stand) const;
  bool Expired(const Life& life, Duration since = {}) const;
  // The version that an instance of `version` has to be moved to, and whether it is aborted
  // instead; nullopt: it stays.
  struct Move {
    uint32_t to = 0;
    bool abort = false;
  };
  std::optional<Move> LeftBehind(const std::string& machine, uint32_t version) const;

  // Matching with the feed.
  void Expect(bool good, const std::string& what) {
    if (!good) Fail(what);
  }
  // The kind of the next record of this turn that is not explained yet; kNone: there is none.
  ChangeKind NextOf(const std::string& id) const;
  void Match(Life& life);
  void Matched(Life& life, const Expected& expected, const Event& event);
  std::string Difference(Life& life, const Expected& expected, const Event& event) const;
  bool Explain(Life& life);
  void Follow(Life& life);  // of an opaque one
  void Overdue(const Life& life);

  // Plans.
  const PlanGraph* GraphOf(Life& life);
  bool LimitsCancel() const;
  void FollowPlan(Life& life, const Event& event);
  bool Planned(const Life& life);
  void Tried(Life& life, const Event& event);
  void CheckClash(const Life& life, const std::string& note);
  void CheckStep(const Task& task, Life& life);
  void Patched(Life& life, const std::string& node, const std::string& params);

  // Calls.
  template <typename T>
  static Reason ReasonOf(const Result<T>& answer) {
    return answer ? Reason::kNone : answer.error().reason;
  }
  Life* Find(const std::string& id, const std::string& call, Reason reason);
  void MoveOn(Life& life);
  void Continue(Life& life, const std::string& node, bool force, const Result<Ok>& answer);
  void StartKept(const std::string& id, const Answer& answer);
  Reason WhyNot(const StartArgs& start,
                const std::map<std::string, const StartArgs*>& earlier) const;
  void StartAgain(Life& life, const StartArgs& args, const Result<Started>& answer);
  void StartDue(Life& life);
  void Prerequisites(Life& life);
  void VoidLost(const Life& life);
  void ReportedLate(const Life& life, ClaimId claim);
  Shown ShownBy(const Life& life, const ClaimRef& claim) const;
  void Same(Life& life, const std::string& call, Reason predicted, Reason told);
  MachineRules RulesOf(Life& life);

  // Hand-outs.
  bool Matches(const Wish& wish, const Life& life, const Stand& stand) const;
  bool MayHandOut(const Life& life, const Stand& stand) const;
  int64_t PriorityOf(const Life& life, const Stand& stand) const;
  void HandOut(const Task& task, const Wish& wish, uint64_t stream);
  void CheckTurns(const Wish& wish, const std::vector<Task>& tasks);
  void CheckOrder(const Task& task, const Life& life, const Stand& stand, const Wish& wish);
  void CheckDeadline(const Task& task, const Life& life, const Stand& stand);
  bool HasWork(const Wish& wish, std::string* which) const;
  size_t InHand(uint64_t stream) const;
  size_t ClaimsAt(const std::string& machine, const std::string& node) const;
  // No instance of the machine is opaque.
  bool Followed(const std::string& machine) const;
  void CheckWaiters();
  // The breaker of a machine: what its claims of the last minute say of it.
  struct Attempt {
    ClaimId claim;
    Timestamp at;
    bool retry = false;
    bool given_back = false;
  };
  struct Minute {
    size_t claims = 0;
    size_t retries = 0;
  };
  Minute Claims(const std::string& machine, Timestamp from, Timestamp to, bool given_back) const;
  void NoteAttempt(const std::string& machine, Attempt attempt);
  void NoteGivenBack(ClaimId claim);
  void CheckBreaker(const Event& event);
  void CheckOpenBreakers();
  bool Fits(const Served& served, const Waiter& waiter);
  bool ServeOne(const Served& served);

  Life LifeOf(const Row& row) const;
  void Adopt(const Rows& rows, const std::set<std::string>& unknown);
  void AdoptDefinitions(const std::vector<const Machine*>& defined, bool unheard);

  const Duration retention_;
  const Graphs graphs_;
  Feed feed_;
  Durations durations_;
  std::string problem_;
  uint64_t turn_ = 0;
  bool unheard_ = false;  // calls may have been written that were not answered
  Timestamp now_;
  Timestamp reached_;  // the latest that an engine's clock has shown
  Timestamp until_ = kNever;
  bool stopping_ = false;
  bool only_follows_ = false;
  std::map<std::string, std::vector<Machine>> machines_;  // by id, version n at n - 1
  std::map<std::string, Life> lives_;
  bool resumed_ = false;  // an instance that is not followed, once it had stopped
  std::map<std::string, Handed> handed_;  // by claim, all that workers were ever told of
  std::set<std::string> voided_;          // of them, those that no crash brings back
  std::set<std::string> clients_;         // instances that clients have started
  std::map<std::pair<std::string, ClaimId>, std::vector<StartArgs>> kept_starts_;  // by claim
  std::map<uint64_t, Waiter> waiters_;
  std::set<std::string> open_breakers_;  // machines whose breaker was open at times in this turn
  std::set<std::string> closed_now_;     // it closed in this turn
  std::vector<Event> breakers_;          // what the feed tells of them in this turn
  std::map<std::string, std::deque<Attempt>> attempts_;  // by machine
  // Attempts that were told of as cut short, with their machines.
  std::map<ClaimId, std::pair<std::string, Event::Sample>> cut_short_;
  std::set<std::string> cancelled_now_;                  // in this turn
  std::map<ClaimId, Event> claimed_now_;                 // as the feed tells in this turn
  std::map<std::string, std::deque<Event>> queues_;      // of this turn, by instance
  std::set<std::string> touched_;                        // by this turn
};

}  // namespace dfsmr::model
