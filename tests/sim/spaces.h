// One simulated run of namespaces: the real engine under crashes and writes that fail, with quotas,
// freezes and deletions drawn from the seed. The auditor knows of each start whether it must be
// refused, what may be handed out, and that nothing is left of what was deleted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dsrv/engine/namespaces.h"
#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr {

class SpaceSim {
 public:
  SpaceSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  struct Space {
    bool there = false;
    bool frozen = false;
    bool deleting = false;
    uint64_t live_quota = 0;
    uint64_t ready_quota = 0;
    double rate = 0;
    double saved = 0;
    Timestamp saved_at{};
    uint64_t launched = 0;  // by its schedule, when it was frozen
  };

  static EngineOptions Options(Random& random);
  void Step();
  void Commit();
  void Command(Engine& engine);
  void StartOne(Engine& engine);
  Reason Expected(Engine& engine, Space& space);
  void Poll(Engine& engine);
  void Report(Engine& engine);
  void SetQuota(Engine& engine);
  void Freeze(Engine& engine);
  void Delete(Engine& engine);
  void Define(Engine& engine);
  // What the store must show of all of them.
  void Audit();
  void CheckRows(const Space& space);
  void Finish();
  uint64_t Launched();
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  const bool trace_;
  EngineOptions options_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  Space decided_;
  Space durable_;
  std::vector<Task> hands_;
  uint64_t next_ = 0;
  uint64_t floor_ = 0;
  bool known_ = false;  // its machine is defined
  bool known_durable_ = false;
  std::string problem_;
};

}  // namespace dfsmr
