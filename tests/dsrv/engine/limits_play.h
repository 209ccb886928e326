// What the tests of limits have in common.
#pragma once

#include "dsrv/engine/limits.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {

using Ids = std::vector<std::string>;

inline constexpr std::string_view kNodes =
    "nodes: {n: {start: true, timeout: 0.0, transitions: {ok: z}}, z: {final: true}}\n";

inline std::string Limited(const std::string& limit, const std::string& id = "m") {
  return "id: " + id + "\nlimit: " + limit + "\n" + std::string(kNodes);
}
inline std::string StateOf(World& world, const std::string& id) {
  const Instance instance = world.Must(id);
  std::string text(Name(instance.state));
  if (instance.Stopped()) text += " " + std::string(Name(instance.result));
  return text;
}
inline std::string TokenOf(World& world, const std::string& id) {
  static const std::string kStates[] = {"none", "ready", "claimed", "waiting", "held", "done"};
  const Instance instance = world.Must(id);
  if (instance.tokens.empty()) return "";
  return kStates[static_cast<size_t>(instance.tokens.front().state)];
}
inline std::string RefusalOf(World& world, StartArgs args) {
  auto started = world.TryStart(std::move(args));
  return started ? "" : std::string(Name(started.error().reason));
}
inline void Finish(World& world, const std::string& id) {
  for (const Task& task : world.Ready()) {
    if (task.instance == id) {
      REQUIRE(world.Report(task, "ok"));
    } else {
      REQUIRE(world.Relinquish(task));
    }
  }
  REQUIRE(StateOf(world, id) == "STOPPED SUCCESS");
}
inline bool Cancel(World& world, const std::string& id) {
  return world.Do([&](Engine& e) { return e.Cancel("ns", id, CancelMode::kForce); }).has_value();
}
inline bool Pause(World& world, const std::string& id) {
  return world.Do([&](Engine& e) { return e.Pause("ns", id); }).has_value();
}
inline Result<Ok> Resume(World& world, const std::string& id) {
  return world.Do([&](Engine& e) { return e.Resume("ns", id, "", false); });
}
inline void Set(World& world, const std::string& key, LimitChange change) {
  REQUIRE(world.Do([&](Engine& e) { return e.limits().Override("ns", key, change); }));
}
inline LimitView LimitOf(World& world, const std::string& key) {
  return world.Do([&](Engine& e) { return e.limits().Look().Get("ns", key, "", 100); });
}
inline Ids HoldersOf(World& world, const std::string& key) {
  Ids ids;
  for (const LimitHolderView& holder : LimitOf(world, key).holders) ids.push_back(holder.instance);
  return ids;
}
inline Ids WaitersOf(World& world, const std::string& key) {
  Ids ids;
  for (const LimitWaiterView& waiter : LimitOf(world, key).waiters) ids.push_back(waiter.instance);
  return ids;
}
inline void DefineLimit(World& world, std::string_view yaml) {
  Parsed parsed = ParseDefinitions(yaml, "test");
  std::string problems;
  for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
  REQUIRE_MESSAGE(parsed.ok(), problems);
  REQUIRE(world.Do([&](Engine& e) {
    std::vector<DefineProblem> wrong;
    return DefineAtOnce(e, "ns", {{}, std::move(parsed.documents)}, false, &wrong);
  }));
}

}  // namespace dfsmr
