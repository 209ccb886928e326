// A process on a machine with a clock of its own. It can be paused, and what it asks of the
// database can be lost, or done late.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "fsm/base/result.h"
#include "storage/roster.h"
#include "tests/sim/cluster/cluster.h"

namespace dfsmr::cluster_sim {

class Process {
 public:
  // What happens once the database has done what it is asked for next, before the answer is here.
  struct InAnswer {
    LeaseTime span{};      // for so long
    bool cut = false;      // it is cut from the database; else it is paused
    bool renewal = false;  // of a renewal; else of anything
  };
  // How the database may be asked.
  struct Way {
    int lost = 0;  // percent of each kind of loss
    int late = 0;  // percent that are done long after, besides
  };

  Process(Cluster& cluster, int number);

  // Another process each time, at the same address.
  void Begin();
  void End();
  bool runs() const { return runs_; }
  // Another one with each beginning and each end.
  uint64_t number() const { return process_; }

  void Pause(LeaseTime until) { paused_until_ = until; }
  LeaseTime paused_until() const { return paused_until_; }
  bool paused() const { return cluster_.network.now() < paused_until_; }
  void Befalls(std::optional<InAnswer> what) { in_answer_ = what; }

  // Runs `what` when this process can; never, when it is another one by then.
  std::function<void()> Mine(std::function<void()> what);
  void Later(LeaseTime after, std::function<void()> what);

  LeaseTime Clock() const { return offset_ + cluster_.network.now() * pace_ / 1'000; }
  LeaseTime InWorld(LeaseTime own) const { return own * 1'000 / pace_; }
  // The store's time, as this process knows it: since it was last told.
  void Follow(Timestamp store_time);
  Timestamp Time();
  // For the next turn of an engine.
  uint64_t Entropy() { return entropy_ += 0x9e3779b97f4a7c15ull; }

  // Asks the database. `then` gets what came back, or kUnavailable.
  template <typename T>
  void Ask(Way way, std::function<Result<T>()> ask, std::function<void(Result<T>)> then) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    Send(
        way, std::is_same_v<T, Roster::Seen>, [ask = std::move(ask), result] { *result = ask(); },
        [result, then = std::move(then)](bool answered) {
          then(answered ? std::move(**result) : Result<T>(Unreachable()));
        });
  }
  Way ToRoster() const { return {cluster_.lost_renewals, 0}; }
  Way ToAct() const { return {cluster_.lost_renewals, cluster_.late_acts}; }
  Way ToRows() const { return {cluster_.lost_commits, 0}; }

 private:
  static Error Unreachable() {
    return {Code::kUnavailable, Reason::kStoreFailed, "the database did not answer"};
  }
  void Send(Way way, bool renewal, std::function<void()> ask, std::function<void(bool)> then);
  void Befall();

  Cluster& cluster_;
  const int number_;  // of its server
  uint64_t process_ = 0;
  bool runs_ = false;
  LeaseTime paused_until_{};
  std::optional<InAnswer> in_answer_;
  LeaseTime offset_{};  // of its clock
  int64_t pace_ = 1'000;
  Timestamp store_time_{};
  LeaseTime store_time_at_{};
  Timestamp shown_{};
  uint64_t entropy_ = 0;
};

}  // namespace dfsmr::cluster_sim
