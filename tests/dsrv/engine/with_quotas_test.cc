// Quotas of a namespace whose instances live in several partitions: they count all of them, as far
// as messages have come.
#include "dsrv/engine/namespaces.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr std::string_view kQuotaJob =
    "id: job\nnodes: {work: {start: true, transitions: {ok: done}}, done: {final: true}}\n";

struct Shared : Parted {
  Shared() : Parted(3) { Define(kQuotaJob); }

  void SetQuotas(const rows::Quotas& quotas) {
    SpaceChange change;
    change.quotas = quotas;
    change.live_instances = quotas.live_instances.has_value();
    change.ready_tasks = quotas.ready_tasks.has_value();
    change.starts_per_second = quotas.starts_per_second.has_value();
    REQUIRE(at(0).Do([&](Engine& e) { return e.namespaces().Update("ns", change, "ann"); }));
    Adopt();
    Settle();
  }
  // Started from outside; "": it was, else why not.
  std::string Try(const std::string& id) {
    auto started = Of(id).TryStart({.machine = "job", .id = id});
    return started ? "" : std::string(Name(started.error().reason));
  }
  // Until nobody has anything to tell.
  void Settle() {
    for (int i = 0; i < 3; ++i) {
      Carry();
      Elapse(30ms);
    }
    Carry();
  }
  // So many of the next ids, wherever they live; messages come after each start.
  size_t StartSome(size_t tries) {
    size_t started = 0;
    for (size_t i = 0; i < tries; ++i) {
      const std::string id = "i" + std::to_string(next++);
      const std::string refused = Try(id);
      if (refused.empty()) {
        ++started;
        there.push_back(id);
      } else {
        CHECK(refused == "QUOTA_EXCEEDED");
      }
      Settle();
    }
    return started;
  }

  size_t next = 0;
  std::vector<std::string> there;
};

TEST_CASE("a quota of live instances counts those of all partitions") {
  Shared shared;
  CHECK(shared.StartSome(5) == 5);
  shared.SetQuotas({.live_instances = 20});
  (void)shared.StartSome(60);
  CHECK(shared.there.size() == 20);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of home") { shared.at(0).Crash(); }
  SUBCASE("after a crash of the others") {
    shared.at(1).Crash();
    shared.at(2).Crash();
  }
  SUBCASE("after a crash of all") { shared.Crash(); }
  shared.Settle();
  CHECK(shared.StartSome(20) == 0);
  for (size_t i = 0; i < 5; ++i) shared.Move(shared.there[i], "ok");
  shared.Settle();
  CHECK(shared.StartSome(40) == 5);
  shared.SetQuotas({.live_instances = 0});  // none
  CHECK(shared.StartSome(10) == 10);
}

TEST_CASE("what starts before messages have come may be too much, but no more than was left to each") {
  Shared shared;
  shared.SetQuotas({.live_instances = 20});
  size_t started = 0;
  for (int i = 0; i < 300; ++i) started += shared.Try("j" + std::to_string(i)).empty();
  CHECK(started <= 60);
  shared.Settle();
  CHECK(shared.StartSome(10) == 0);
}

TEST_CASE("far from a quota nobody is told") {
  Shared shared;
  shared.SetQuotas({.live_instances = 1'000'000});
  const std::string first = shared.Named("first", 1);
  CHECK(shared.Try(first).empty());
  shared.Settle();
  for (int i = 0; i < 50; ++i) CHECK(shared.Try(shared.Named("k" + std::to_string(i) + "-", 1)).empty());
  shared.Elapse(10s);
  CHECK(shared.AllOffered().empty());
}

TEST_CASE("a quota of ready tasks counts those of all partitions") {
  Shared shared;
  shared.SetQuotas({.ready_tasks = 6});
  (void)shared.StartSome(30);
  CHECK(shared.there.size() == 6);
  for (PartitionId id = 0; id < 3; ++id) (void)shared.at(id).Ready();
  shared.Settle();
  CHECK(shared.StartSome(30) == 6);
}

TEST_CASE("a quota of starts counts those of all partitions") {
  Shared shared;
  shared.SetQuotas({.starts_per_second = 1.0});
  size_t started = 0;
  for (int i = 0; i < 60; ++i) {
    started += shared.Try("s" + std::to_string(i)).empty();
    shared.Elapse(15ms);
    shared.Carry();
  }
  CHECK(started >= 10);  // that were saved up
  CHECK(started <= 16);
  shared.Elapse(5s);
  shared.Carry();
  started = 0;
  for (int i = 100; i < 130; ++i) {
    started += shared.Try("s" + std::to_string(i)).empty();
    shared.Elapse(1ms);
    shared.Carry();
  }
  CHECK(started >= 3);
  CHECK(started <= 10);
}

TEST_CASE("a new namespace of a name does not count what the former one had") {
  Shared shared;
  shared.SetQuotas({.live_instances = 20});
  CHECK(shared.StartSome(20) == 20);
  REQUIRE(shared.at(0).Do([](Engine& e) { return e.Delete("ns", 0s, "me"); }));
  shared.Adopt();
  for (int i = 0; i < 5; ++i) {
    shared.Elapse(1s);
    shared.Carry();
  }
  shared.Define(kQuotaJob);
  shared.SetQuotas({.live_instances = 20});
  shared.there.clear();
  (void)shared.StartSome(40);
  CHECK(shared.there.size() == 20);
}

}  // namespace
}  // namespace dfsmr
