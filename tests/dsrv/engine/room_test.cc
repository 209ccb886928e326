// What a full disk stops, and what it does not.
#include <doctest/doctest.h>

#include "tests/dsrv/engine/world.h"

namespace dfsmr {
namespace {

constexpr std::string_view kJob = R"(
id: job
nodes:
  work: {start: true, transitions: {ok: wait}}
  wait: {delay: 1s, transitions: {ok: done}}
  done: {final: true}
)";
constexpr std::string_view kTree = R"(
plan: tree
flow:
  - {step: ask, action: ask}
  - {step: kids, spawn: {machine: job, for_each: [1, 2], as: n}, after: [ask]}
)";

template <typename T>
std::string RoomReasonOf(const Result<T>& result) {
  if (result) return "";
  CHECK(result.error().code == Code::kResourceExhausted);
  CHECK(result.error().message.find("room") != std::string::npos);
  return std::string(Name(result.error().reason));
}

Result<WaiterId> Poll(World& world, std::vector<Task>* tasks) {
  return world.Do([&](Engine& e) {
    return e.Poll({.filter = {.ns = "ns"}, .worker = "w", .max_tasks = 10},
                  [tasks](std::vector<Task> given) { *tasks = std::move(given); });
  });
}

TEST_CASE("where room is scarce nothing new begins, and what has begun goes on to its end") {
  World world;
  world.Define(kJob);
  world.Define(kTree);
  world.Start("job", "a");
  world.Start("tree", "t");
  world.engine().SetRoom(Room::kScarce);

  CHECK(RoomReasonOf(world.TryStart({.machine = "job", .id = "b"})) == "DISK_FULL");
  CHECK(world.TryStart({.machine = "job", .id = "a"}));  // it is there
  const auto other = ParseMachines("id: other\nnodes: {a: {start: true, final: true}}");
  CHECK(RoomReasonOf(world.Do([&](Engine& e) { return TryDefine(e, other); })) == "DISK_FULL");
  CHECK(world.Do([&](Engine& e) { return TryDefine(e, other, true); }));

  auto tasks = world.Ready();
  REQUIRE(tasks.size() == 2);
  std::ranges::sort(tasks, {}, &Task::instance);
  const auto suspended = world.Do([&](Engine& e) {
    return e.Report("ns", "t", {.transition = "suspend", .claim = tasks[1].claim, .children = 1},
                    {{.machine = "job"}});
  });
  CHECK(RoomReasonOf(suspended) == "DISK_FULL");
  for (const Task& task : tasks) CHECK(world.Report(task, "ok"));
  world.Elapse(2s);
  CHECK(world.Must("a").Stopped());
  CHECK(world.Ready().size() == 2);  // the children that the plan itself has started
}

TEST_CASE("without any room no work is handed out or reported; all of it goes on when there is") {
  World world;
  world.Define(kJob);
  world.Start("job", "a");
  world.Start("job", "b");
  const Task task = world.ReadyOne();
  world.engine().SetRoom(Room::kNone);

  std::vector<Task> tasks;
  CHECK(RoomReasonOf(Poll(world, &tasks)) == "DISK_FULL");
  CHECK(RoomReasonOf(world.Report(task, "ok")) == "DISK_FULL");
  const auto opened = world.Do(
      [](Engine& e) { return e.OpenSession({.ns = "ns"}, "w", 1, [](const SessionUpdate&) {}); });
  CHECK(RoomReasonOf(opened) == "DISK_FULL");
  CHECK(world.Must("a").state == InstanceState::kRunning);  // read
  CHECK(world.Do([](Engine& e) { return e.Cancel("ns", "b", CancelMode::kCancel); }));

  world.engine().SetRoom(Room::kAmple);
  CHECK(world.Report(task, "ok"));
  CHECK(world.TryStart({.machine = "job", .id = "c"}));
  CHECK(Poll(world, &tasks));
  CHECK(tasks.size() == 1);
}

}  // namespace
}  // namespace dfsmr
