#include "tests/sim/scenes.h"

#include <iterator>
#include <utility>

namespace dfsmr {

void Stage::Perhaps() {
  const size_t dice = random.Below(4);
  if (dice == 0) Crash();
  if (dice == 1) Restart();
}

Task Stage::TaskOf(const std::string& node, const std::string& instance) {
  std::vector<Task> others;
  std::optional<Task> found;
  for (Task& task : Ready()) {
    const bool is = task.node == node && (instance.empty() || task.instance == instance);
    if (is && !found) {
      found = std::move(task);
    } else {
      others.push_back(std::move(task));
    }
  }
  Decide([&](Engine& e) { e.Undelivered(others, /*perhaps=*/false); });
  Commit();
  REQUIRE_MESSAGE(found, node << " is not ready");
  return *found;
}

Result<dfsmr::Answer> Stage::Say(const Task& task, ReportArgs args,
                          const std::vector<rows::ChildStart>& children,
                          const std::vector<StartArgs>& starts) {
  args.claim = task.claim;
  args.children = children.size();
  return Do([&](Engine& e) { return e.Report("ns", task.instance, args, children, starts); });
}

void Stage::End(const std::string& node, const std::string& instance) {
  REQUIRE(Say(TaskOf(node, instance), {.transition = "ok"}));
}

void Stage::Fail(const std::string& node, const std::string& instance) {
  REQUIRE(Say(TaskOf(node, instance), {.transition = "error"}));
}

void Stage::Cancel(const std::string& id, CancelMode mode) {
  REQUIRE(Do([&](Engine& e) { return e.Cancel("ns", id, mode); }));
  Drain();
}

void Stage::Resume(const std::string& id, const std::string& node) {
  REQUIRE(Do([&](Engine& e) { return e.Resume("ns", id, node, /*force=*/false); }));
  Drain();
}

std::string Stage::Standing(const std::string& id) {
  const Instance instance = Must(id);
  return std::string(Name(instance.state)) + " " + std::string(Name(instance.result));
}

void Stage::RunAll() {
  for (std::vector<Task> tasks = Ready(); !tasks.empty(); tasks = Ready()) {
    for (const Task& task : tasks) REQUIRE(Say(task, {.transition = "ok"}));
    Drain();
  }
}

std::string PlayScenes(uint64_t seed, bool trace) {
  static const std::vector<NamedScene> all = [] {
    std::vector<NamedScene> scenes = MachineScenes();
    std::ranges::copy(PlanScenes(), std::back_inserter(scenes));
    return scenes;
  }();
  return PlayTwo(all, seed, trace);
}

}  // namespace dfsmr
