// One simulated run of triggers: the real engine under crashes, writes that fail, pauses, new
// versions and workers of polls that fail, against a model that reads the feed that became durable,
// and says from it alone what each trigger has to have made of it: each change once, in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr {

class TriggerSim {
 public:
  TriggerSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  // What a trigger of changes is to do, and what it has to have done.
  struct Trigger {
    bool stands = false;
    bool paused = false;
    bool success = false;   // only changes of instances that succeeded
    bool dedupes = false;   // by their key, for an hour
    uint64_t gathers = 0;   // so many of one key; 0: each alone
    uint64_t position = 0;  // the last record that was looked at
    Timestamp resumed{};
    std::map<std::string, Timestamp> seen;                 // by key: when it was taken
    std::map<std::string, std::vector<std::string>> open;  // gatherings, by key
    std::vector<std::string> took;                         // OUTCOME INSTANCE…
  };

  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  void Step();
  void Write();
  // All that is due is done and durable, and looked at by the model.
  void Quiet();

  void StartOne(Engine& engine);
  void EndOne(Engine& engine);
  void Change();  // what is defined, at a quiet moment
  void Define(const std::string& name);
  void Pause(const std::string& name, bool paused, bool skip);
  void Delete(const std::string& name);
  void Poll();

  void LookAt(const Event& event, Trigger* trigger);
  void Verify();
  void VerifyPolls();
  std::vector<std::string> LinesOf(const std::string& name);

  Random random_;
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  std::map<std::string, Trigger> triggers_;
  uint64_t started_ = 0;
  std::string problem_;
};

}  // namespace dfsmr
