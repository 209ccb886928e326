// Short scenes of what drawn runs meet too rarely: who does what is written down, and must end as
// it is said here. How many there are, how often it happens, and when the engine crashes or starts
// again, is drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/play.h"
#include "tests/sim/random.h"

namespace dfsmr {

// A world with the words that scenes use. What does not succeed ends the scene (REQUIRE).
class Stage : public World {
 public:
  explicit Stage(uint64_t seed, EngineOptions options = {})
      : World(std::move(options)), random(seed) {}

  // It crashes, or starts again, or goes on.
  void Perhaps();
  // Of 1 to `most`.
  size_t Some(size_t most) { return 1 + random.Below(most); }
  // The task of a node, which must be ready; all others are left ready.
  Task TaskOf(const std::string& node, const std::string& instance = "");
  Result<dfsmr::Answer> Say(const Task& task, ReportArgs args,
                     const std::vector<rows::ChildStart>& children = {},
                     const std::vector<StartArgs>& starts = {});
  void End(const std::string& node, const std::string& instance = "");
  void Fail(const std::string& node, const std::string& instance = "");
  void Cancel(const std::string& id, CancelMode mode);
  void Resume(const std::string& id, const std::string& node = "");
  std::string Standing(const std::string& id);  // as "STOPPED SUCCESS"
  // Runs all that is ready, until nothing is.
  void RunAll();

  Random random;
};

// Of machines and their claims (scenes_machines.cc), and of plans (scenes_plans.cc).
std::vector<NamedScene> MachineScenes();
std::vector<NamedScene> PlanScenes();

// Two scenes of a seed. What was wrong; empty: all is well.
std::string PlayScenes(uint64_t seed, bool trace);

}  // namespace dfsmr
