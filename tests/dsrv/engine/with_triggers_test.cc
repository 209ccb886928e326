// Triggers of a store of several partitions: what happens in any of them brings each its item once.
#include "dsrv/engine/triggers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "dsrv/engine/documents.h"
#include "storage/rows/occurrence.h"
#include "tests/dsrv/engine/parted.h"

namespace dfsmr {
namespace {

constexpr std::string_view kBuilds = R"(
id: build
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
---
id: deploy
nodes:
  work: {start: true, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kAfterBuild =
    "trigger: t\non: {change: {kind: finished, machine: build}}\n"
    "start: {machine: deploy, id: \"d-${item.instance.id}\"}\n";

struct Builds : Parted {
  Builds() : Parted(3) {
    Define(kBuilds);
    DefineDocuments(kAfterBuild);
    Adopt();
  }
  // One in each partition.
  std::vector<std::string> Names(const std::string& prefix) const {
    std::vector<std::string> names;
    for (PartitionId id = 0; id < size(); ++id) names.push_back(Named(prefix, id));
    return names;
  }
  void Build(const std::string& id) {
    Start("build", id);
    Move(id, "ok");
  }
  void SetPaused(bool paused, bool skip = false) {
    REQUIRE(at(0).Do([&](Engine& e) {
      return paused ? e.triggers().Pause("ns", "t", "", "")
                    : e.triggers().Resume("ns", "t", skip);
    }));
    Adopt();
  }
  std::multiset<std::string> Listed() {
    std::multiset<std::string> instances;
    REQUIRE(rows::ScanOccurrences({store(), 0}, {"ns", DocumentKind::kTrigger, "t"}, UINT64_MAX,
                                  [&](const Occurrence& one) {
                                    CHECK(one.outcome == OccurrenceOutcome::kStarted);
                                    instances.insert(one.instance);
                                    return true;
                                  }));
    return instances;
  }
  // All of them were deployed, and nothing else.
  void CheckDeployed(const std::vector<std::string>& builds) {
    std::multiset<std::string> wanted;
    for (const std::string& one : builds) wanted.insert("d-" + one);
    CHECK(Listed() == wanted);
    for (const std::string& one : wanted) CHECK(Begun(one) == 1);
  }
};

TEST_CASE("a change of any partition brings a trigger its item, once") {
  Builds parted;
  const auto names = parted.Names("b");
  for (const std::string& one : names) parted.Build(one);
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash of all") { parted.Crash(); }
  SUBCASE("after a crash of home") { parted.at(0).Crash(); }
  SUBCASE("after a crash of another") { parted.at(1).Crash(); }
  auto went = parted.Carry();
  parted.CheckDeployed(names);
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  parted.Crash();
  for (const Parted::Letter& letter : went) parted.Deliver(letter);
  parted.Carry();
  parted.CheckDeployed(names);
}

TEST_CASE("what happens elsewhere while a trigger is paused waits, or is skipped") {
  Builds parted;
  auto names = parted.Names("b");
  parted.SetPaused(true);
  for (const std::string& one : names) parted.Build(one);
  parted.Carry();
  CHECK(parted.Listed().empty());
  SUBCASE("it waits") {
    parted.SetPaused(false);
    parted.Carry();
    parted.CheckDeployed(names);
  }
  SUBCASE("it waits over a crash") {
    parted.Crash();
    parted.SetPaused(false);
    parted.Carry();
    parted.CheckDeployed(names);
  }
  SUBCASE("it is skipped") {
    parted.SetPaused(false, /*skip=*/true);
    parted.Carry();
    CHECK(parted.Listed().empty());
    names = parted.Names("later");
    for (const std::string& one : names) parted.Build(one);
    parted.Carry();
    parted.CheckDeployed(names);
  }
}

TEST_CASE("items that come while home has paused the trigger come again, and those behind them") {
  Builds parted;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    names.push_back(parted.Named("b" + std::to_string(i) + "-", 1));
    parted.Build(names.back());
  }
  parted.at(1).Drain();
  const auto items = parted.Offered(1, 0);
  REQUIRE(items.size() == 3);
  // Home is paused by itself, so nobody has adopted it.
  const auto pause = [](Engine& e) { return e.triggers().Pause("ns", "t", "", ""); };
  const auto resume = [](Engine& e) { return e.triggers().Resume("ns", "t", false); };
  REQUIRE(parted.at(0).Do(pause));
  parted.Deliver(items[0]);
  SUBCASE("home goes on before the rest comes") {
    REQUIRE(parted.at(0).Do(resume));
    for (const Parted::Letter& letter : items) parted.Confirm(letter, parted.Deliver(letter));
  }
  SUBCASE("home goes on later") {
    for (const Parted::Letter& letter : items) parted.Confirm(letter, parted.Deliver(letter));
    parted.Carry();
    CHECK(parted.Listed().empty());
    REQUIRE(parted.at(0).Do(resume));
  }
  parted.Adopt();
  parted.Carry();
  parted.CheckDeployed(names);
}

TEST_CASE("a trigger that is deleted, and defined anew, begins there") {
  Builds parted;
  REQUIRE(parted.at(0).Do([](Engine& e) {
    return e.documents().Delete({"ns", DocumentKind::kTrigger, "t"}, "");
  }));
  parted.Adopt();
  parted.Build(parted.Named("gone", 1));
  parted.Carry();
  CHECK(parted.Listed().empty());
  parted.DefineDocuments(kAfterBuild);
  parted.Adopt();
  const auto names = parted.Names("b");
  for (const std::string& one : names) parted.Build(one);
  parted.Carry();
  parted.CheckDeployed(names);
}

// Polls -----------------------------------------------------------------------------------------

struct Polls : Parted {
  Polls() : Parted(3) {
    Define(kBuilds);
    // Its instances live in partition 1.
    name = Named("p", 1);
    DefineDocuments("trigger: " + name +
                    "\non: {poll: {action: look, every: 30s}}\n"
                    "start: {machine: deploy, id: \"o-${item.id}\"}\n");
    Adopt();
  }
  rows::PollRow Row() {
    auto view = at(0).Do([this](Engine& e) { return e.triggers().Get("ns", name, 0); });
    REQUIRE(view);
    return view->row.poll.front();
  }
  // Its worker reports.
  void Answer(const std::string& output) {
    Carry();
    const auto tasks = at(1).Ready();
    const auto task = std::ranges::find_if(tasks, [](const Task& one) {
      return one.machine == "look" && one.instance.find("/poll/") != std::string::npos;
    });
    REQUIRE(task != tasks.end());
    auto answered = at(1).Do([&](Engine& e) {
      return e.Report("ns", task->instance,
                      {.transition = "ok", .claim = task->claim, .output = output});
    });
    REQUIRE_MESSAGE(answered, (answered ? "" : answered.error().message));
  }
  std::string name;
};

TEST_CASE("a poll whose instance lives elsewhere brings its items, and goes on") {
  Polls parted;
  parted.Answer(R"({"items": [{"id": 1}, {"id": 2}], "cursor": 2})");
  SUBCASE("as all goes on") {}
  SUBCASE("after a crash") { parted.Crash(); }
  parted.Carry();
  CHECK(parted.Begun("o-1") == 1);
  CHECK(parted.Begun("o-2") == 1);
  CHECK(parted.Row().cursor == "2");
  parted.Elapse(std::chrono::seconds(30));
  parted.Answer(R"({"cursor": 3})");
  SUBCASE("as all goes on, without items") {}
  SUBCASE("after a crash, without items") { parted.Crash(); }
  parted.Carry();
  CHECK(parted.Row().cursor == "3");
  CHECK(parted.Row().failures == 0);
  parted.Elapse(std::chrono::seconds(1));
  parted.at(1).Drain();
  CHECK_FALSE(parted.at(1).Get(parted.name + "/poll/2"));
}

TEST_CASE("a poll whose instance exists elsewhere already has failed") {
  Polls parted;
  REQUIRE(parted.Of(parted.name).TryStart({.machine = "deploy", .id = parted.name + "/poll/2"}));
  parted.Answer("{}");
  parted.Carry();
  parted.Elapse(std::chrono::seconds(30));
  parted.Carry();
  CHECK(parted.Row().failures == 1);
  CHECK(parted.Row().running == 0);
}

}  // namespace
}  // namespace dfsmr
