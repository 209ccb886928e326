// An engine that owns one of several partitions: what it starts lives there.
#include "storage/place.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr PartitionId kPartition = 11;
constexpr uint16_t kPartitions = 16;

bool IsHere(std::string_view id) { return PartitionOf("ns", id, kPartitions) == kPartition; }

World Here() { return World({.partition = kPartition, .partitions = kPartitions}); }

constexpr std::string_view kOwnPlans = R"(
plan: c
flow: [{step: a, action: x}]
---
plan: p
flow: [{step: w, action: x}]
---
plan: hooked
hooks: [{on: success, action: cheer}]
flow: [{step: w, action: x}]
)";

// The n-th id of this form that lives here, or elsewhere.
std::string Named(const std::string& name, bool here, int n = 0) {
  for (int i = 0;; ++i) {
    std::string id = name + std::to_string(i);
    if (IsHere(id) == here && n-- == 0) return id;
  }
}

// All that is ready is done.
void WorkOff(World& world) {
  for (const Task& task : world.Ready()) REQUIRE(world.Report(task, "ok"));
  world.Drain();
}

TEST_CASE("what is started without an id lives where its engine is, and says so") {
  World world = Here();
  world.Define(kOwnPlans);
  std::set<std::string> ids;
  std::string last;
  for (int i = 0; i < 100; ++i) {
    auto started = world.TryStart({.machine = "p"});
    REQUIRE(started);
    CHECK(started->view.partition == 11);
    const std::string& id = started->view.instance.id;
    CHECK(IsHere(id));
    CHECK(id.size() == 20);
    ids.insert(id);
    if (i > 0) CHECK(id.substr(0, 10) >= last.substr(0, 10));
    last = id;
    world.Advance(1ms);
  }
  CHECK(ids.size() == 100);
  world.Crash();
  CHECK(world.Must(last).state == InstanceState::kRunning);
}

TEST_CASE("what a hook starts lives where the instance does") {
  World world = Here();
  world.Define(kOwnPlans);
  const std::string id = Named("run", true);
  world.Start("hooked", id);
  WorkOff(world);
  CHECK(world.Must(id).state == InstanceState::kStopped);
  const std::vector<Task> cheers = world.Ready();
  REQUIRE(cheers.size() == 1);
  CHECK(cheers.front().machine == "cheer");
  CHECK(IsHere(cheers.front().instance));
}

TEST_CASE("a child that a worker names must live with its parent, and the refusal names an id") {
  World world = Here();
  world.Define(kOwnPlans);
  const std::string parent = Named("run", true);
  world.Start("p", parent);
  const std::string near = Named("child", true);
  const std::string far = Named("child", false);
  const Task task = world.ReadyOne();
  const std::vector<rows::ChildStart> children{
      {.machine = "c"}, {.machine = "c", .id = near}, {.machine = "c", .id = far}};
  REQUIRE(world.Do([&](Engine& e) {
    return e.Report("ns", parent, {.transition = "suspend", .claim = task.claim, .children = 3},
                    children);
  }));
  world.Drain();
  CHECK(world.Must(parent + "/w/0").parent == parent);
  CHECK(world.Must(near).parent == parent);
  CHECK_FALSE(world.Get(far));
  WorkOff(world);
  const Instance held = world.Must(parent);
  CHECK(held.state == InstanceState::kPaused);
  CHECK(held.tokens[0].error.find(far) != std::string::npos);
  CHECK(held.tokens[0].error.find("'" + parent + "/w/2' would do") != std::string::npos);
  SUBCASE("at once") {}
  SUBCASE("after a crash") { world.Crash(); }
  REQUIRE(world.Do([&](Engine& e) { return e.Resume("ns", parent, "", false); }));
  world.Drain();
  CHECK_FALSE(world.Get(far));
}

}  // namespace
}  // namespace dfsmr
