// What is learned of the attempts of all partitions: how long they take, and that too many of them
// are retries. Home learns it, and the others go by what home has told them.
#include <numeric>

#include "dsrv/engine/histogram.h"
#include "dsrv/engine/survey.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr std::string_view kLearning = R"(
id: job
nodes:
  work: {start: true, timeout_initial: 100s, transitions: {ok: done}}
  done: {final: true}
---
id: fixed
defaults: {timeout_strategy: fixed, timeout: 20.0}
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";

struct Learning : Parted {
  Learning() : Parted(3) { Define(kLearning); }

  // Until nobody has anything to tell.
  void Settle(Duration by = 6s) {
    for (int i = 0; i < 3; ++i) {
      Elapse(by);
      Carry();
    }
  }
  void Begin(const std::string& machine, PartitionId place, int some) {
    for (int i = 0; i < some; ++i) {
      names.push_back(Named("n" + std::to_string(names.size()) + "-", place));
      Parted::Start(machine, names.back());
    }
  }
  // So many attempts at one place, each of which takes as long.
  void Work(PartitionId place, int some, Duration each) {
    Begin("job", place, some);
    std::vector<Task> tasks;
    for (const Task& task : at(place).Ready()) tasks.push_back(task);
    REQUIRE(tasks.size() == static_cast<size_t>(some));
    at(place).Elapse(each);
    for (const Task& task : tasks) REQUIRE(at(place).Report(task, "ok"));
  }
  // What a claim is given at a place.
  Duration Timeout(PartitionId place) {
    Begin("job", place, 1);
    const Task task = at(place).ReadyOne();
    const Duration given = task.deadline - at(place).engine().clock();
    REQUIRE(at(place).Relinquish(task));
    REQUIRE(Of(names.back()).Do([&](Engine& e) {
      return e.Cancel("ns", names.back(), CancelMode::kForce);
    }));
    return given;
  }
  std::string BreakerOf(PartitionId place) {
    return std::string(at(place).Machine("fixed").stats.breaker);
  }
  int Told(PartitionId place, ChangeKind kind) {
    return static_cast<int>(std::ranges::count(at(place).Feed(), kind, &Event::kind));
  }
  // Half of what is claimed are retries, which a third of all partitions each have.
  void TimeOut(int each) {
    for (PartitionId id = 0; id < size(); ++id) Begin("fixed", id, each);
    for (PartitionId id = 0; id < size(); ++id) REQUIRE(at(id).Ready().size() == size_t(each));
    Elapse(20s);
    for (PartitionId id = 0; id < size(); ++id) at(id).Ready();
    for (int i = 0; i < 5; ++i) {
      Carry();
      Elapse(600ms);
    }
    Carry();
  }

  std::vector<std::string> names;
};

TEST_CASE("a timeout follows from the attempts of all partitions, wherever it is given") {
  Learning all;
  for (PartitionId id = 0; id < all.size(); ++id) {
    all.Work(id, 10, 2s);  // none has enough by itself
  }
  CHECK(all.Timeout(2) > 90s);
  all.Settle();
  for (PartitionId id = 0; id < all.size(); ++id) {
    CHECK(all.Timeout(id) > 1900ms);
    CHECK(all.Timeout(id) < 2500ms);
  }
  CHECK(all.at(0).Node("job", "work").p95 > 1900ms);
}

TEST_CASE("what was learned of all partitions outlives a crash of any") {
  Learning all;
  for (PartitionId id = 0; id < all.size(); ++id) all.Work(id, 20, 2s);
  all.Settle();
  all.Crash();
  for (PartitionId id = 0; id < all.size(); ++id) CHECK(all.Timeout(id) < 2500ms);
  // What was not written yet is learned from the feed, and told once.
  all.Work(1, 40, 8s);
  all.at(1).Crash();
  all.Settle();
  CHECK(all.at(0).Do([](Engine& e) {
    return e.survey().Durations("ns", "job", 1, "work");
  })->samples == 100);
  CHECK(all.Timeout(2) > 7s);
}

TEST_CASE("as long as more are under way than have ended, the first timeout stands everywhere") {
  Learning all;
  all.Begin("job", 1, 60);
  CHECK(all.at(1).Ready().size() == 60);
  all.Work(1, 21, 2s);
  all.Settle();
  CHECK(all.Timeout(2) > 90s);
  CHECK(all.Timeout(0) > 90s);
}

TEST_CASE("a breaker opens because of the retries of all partitions, once") {
  Learning all;
  all.TimeOut(8);
  for (PartitionId id = 0; id < all.size(); ++id) CHECK(all.BreakerOf(id) == "open");
  CHECK(all.Told(0, ChangeKind::kBreakerOpened) == 1);
  CHECK(all.Told(1, ChangeKind::kBreakerOpened) + all.Told(2, ChangeKind::kBreakerOpened) == 0);
}

TEST_CASE("first attempts of other partitions keep a breaker closed") {
  Learning all;
  all.Begin("fixed", 1, 30);
  CHECK(all.at(1).Ready().size() == 30);
  all.Elapse(20s);
  CHECK(all.at(1).Ready().size() == 30);
  all.Begin("fixed", 2, 100);
  CHECK(all.at(2).Ready().size() == 100);
  for (int i = 0; i < 6; ++i) {
    all.Elapse(600ms);
    all.Carry();
  }
  CHECK(all.BreakerOf(0) == "closed");
  CHECK(all.at(0).Machine("fixed").stats.retry_rate < 0.25);
}

TEST_CASE("an open breaker lets out one retry a second of all partitions, and each has its turn") {
  Learning all;
  all.TimeOut(8);
  all.Elapse(20s);  // the retries that were handed out before have timed out
  std::vector<int> retries(all.size());
  for (int tenth = 0; tenth < 120; ++tenth) {
    for (PartitionId id = 0; id < all.size(); ++id) {
      retries[id] += static_cast<int>(all.at(id).Ready().size());
    }
    all.Elapse(90ms);
    all.Carry();
  }
  const int sum = std::accumulate(retries.begin(), retries.end(), 0);
  CHECK(sum >= 3);
  CHECK(sum <= 15);  // each may take a turn that it has missed
  for (int one : retries) CHECK(one >= 1);
}

TEST_CASE("successes double the rate of all, and a breaker closes everywhere") {
  Learning all;
  all.TimeOut(8);
  all.Elapse(20s);
  int done = 0;
  for (int tenth = 0; tenth < 900 && done < 24; ++tenth) {
    for (PartitionId id = 0; id < all.size(); ++id) {
      for (const Task& task : all.at(id).Ready()) {
        REQUIRE(all.at(id).Report(task, "ok"));
        ++done;
      }
    }
    all.Elapse(90ms);
    all.Carry();
  }
  CHECK(done == 24);
  for (int i = 0; i < 8; ++i) {
    all.Elapse(10s);
    all.Carry();
  }
  for (PartitionId id = 0; id < all.size(); ++id) CHECK(all.BreakerOf(id) == "closed");
  CHECK(all.Told(0, ChangeKind::kBreakerClosed) == 1);
}

TEST_CASE("who has forgotten the state of a breaker in a crash hears it again") {
  Learning all;
  all.TimeOut(8);
  all.at(2).Crash();
  CHECK(all.BreakerOf(2) == "closed");
  all.Elapse(20s);
  all.at(2).Ready();
  for (int i = 0; i < 4; ++i) {
    all.Elapse(600ms);
    all.Carry();
  }
  CHECK(all.BreakerOf(2) == "open");
  // Home forgets it for all.
  all.at(0).Crash();
  for (int i = 0; i < 200; ++i) {
    for (PartitionId id = 1; id < all.size(); ++id) all.at(id).Ready();
    all.Elapse(600ms);
    all.Carry();
  }
  CHECK(all.BreakerOf(1) == all.BreakerOf(0));
  CHECK(all.BreakerOf(2) == all.BreakerOf(0));
}

}  // namespace
}  // namespace dfsmr
