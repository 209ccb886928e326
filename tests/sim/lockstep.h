// Leads the reference model along a world: notes what is asked of its engine turn by turn, and once
// a turn is durable and answered lets the model go through it. What a crash takes with it the model
// never sees.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/model/model.h"

namespace dfsmr::model {

class Lockstep final : public World::Watcher {
 public:
  // `store`: the rows as they are, whatever fails above them.
  Lockstep(World& world, const Store& store, Duration retention)
      : world_(world),
        store_(store),
        model_(retention, [this](const std::string& id) { return GraphOf(id); }) {}

  void OnlyFollow() { model_.OnlyFollow(); }
  const std::string& problem() const { return model_.problem(); }
  // Something of the turn that is being decided, in its place.
  void Note(std::function<void(Model&)> step);
  // A call for one instance.
  void Note(const std::string& id, std::function<void(Model&)> step);
  void Cancelled(const std::string& id) { open_.cancelled.insert(id); }
  // Waiters are numbered here.
  uint64_t NextWaiter() { return ++last_waiter_; }
  void Know(WaiterId engines, uint64_t waiter) { waiters_[engines] = waiter; }
  uint64_t Known(WaiterId engines) { return waiters_[engines]; }
  // Tasks that reach their worker now. `poll`: of one that was answered at once, which has its
  // place.
  struct Reply {
    bool at_once = false;
    std::vector<Task> tasks;
  };
  void Told(const std::vector<Task>& tasks, uint64_t waiter, bool stream, Reply* poll);
  // Tasks of an engine that has been superseded.
  void Strange(const std::vector<Task>& tasks) { model_.Hold(tasks); }

  // All that the engine knows is written: the rows are as the model says.
  void Compare();

  void Began(Timestamp now) override;
  void Worked() override;
  void Passed() override;
  void Ended(uint64_t turn) override;
  void Published(uint64_t turn, const std::vector<Event>& events) override;
  void Answered() override;
  void Opened() override;

 private:
  struct OneTurn {
    uint64_t number = 0;
    std::vector<std::function<void(Model&)>> steps;
    std::set<std::string> asked;  // instances that calls are about
    std::set<std::string> cancelled;
    std::shared_ptr<std::vector<Model::Served>> late =
        std::make_shared<std::vector<Model::Served>>();
    std::shared_ptr<std::vector<Timestamp>> clocks = std::make_shared<std::vector<Timestamp>>();
    std::vector<Event> events;
  };
  void Replay(OneTurn turn);
  Model::Rows Rows() const;
  Spec SpecOf(const std::string& id) const;
  std::shared_ptr<const PlanGraph> GraphOf(const std::string& id) const;

  World& world_;
  const Store& store_;
  Model model_;
  uint64_t last_waiter_ = 0;
  std::map<WaiterId, uint64_t> waiters_;  // by the engine's number
  uint64_t last_seq_ = 0;                 // of the feed, that the model has seen
  Timestamp latest_;                      // that this engine's clock may have shown
  OneTurn open_;                          // being decided
  std::vector<Model::Served> served_;     // in this pass
  std::deque<OneTurn> decided_;           // not durable yet, or nothing has to be
  std::optional<uint64_t> answering_;     // the turn whose answers are being given
};

// An engine whose callers are listened to.
class Asked {
 public:
  Asked(Engine& engine, Lockstep& lockstep) : engine_(engine), lockstep_(lockstep) {}

  Result<std::vector<Defined>> Define(std::vector<Machine> machines);
  Result<Started> Start(const StartArgs& args);
  Result<Answer> Report(const std::string& ns, const std::string& id, const ReportArgs& args,
                        const std::vector<rows::ChildStart>& children = {},
                        const std::vector<StartArgs>& starts = {});
  // Whether the visit of the task's claim is over.
  bool IsOver(const Task& task);
  Result<std::string> Relinquish(const std::string& ns, const std::string& id,
                                 const std::string& claim, const std::string& client);
  Extended Extend(const std::string& ns, const std::string& id, const std::string& claim,
                  std::optional<Duration> by, double progress);
  Result<Ok> Pause(const std::string& ns, const std::string& id);
  Result<Ok> Resume(const std::string& ns, const std::string& id, const std::string& node,
                    bool force);
  Result<Ok> Skip(const std::string& ns, const std::string& id, const std::string& node);
  Result<Ok> Cancel(const std::string& ns, const std::string& id, CancelMode mode);
  Result<Ok> Settle(const std::string& ns, const std::string& id);
  Result<WaiterId> Poll(const PollArgs& args, PollSink sink);
  bool CancelPoll(WaiterId poll);
  void Undelivered(const std::vector<Task>& tasks, bool perhaps);
  Result<SessionId> OpenSession(const Filter& filter, const std::string& worker, int32_t capacity,
                                SessionSink sink);
  void DrainSession(SessionId session);
  void CloseSession(SessionId session);
  void StopHandingOut();
  void Flush() { engine_.Flush(); }
  void AfterCommit(std::function<void()> tell) { engine_.AfterCommit(std::move(tell)); }

 private:
  Engine& engine_;
  Lockstep& lockstep_;
};

}  // namespace dfsmr::model
