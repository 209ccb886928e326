// One simulated run of schedules: the real engine under crashes, writes that fail, clocks that jump,
// new versions, pauses and failing instances, against a model that knows a schedule as a list of
// multiples of seconds, and nothing of calendars, rows or queues.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace dfsmr {

class ScheduleSim {
 public:
  ScheduleSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  // Times are in seconds since 1970.
  struct Schedule {
    bool stands = false;
    int64_t every = 0;
    std::string take;
    int64_t window = 0;
    size_t max = 0;
    bool skips = false;  // while an instance goes on
    int stop_on_fail = 0;

    int64_t position = 0;
    bool paused = false;
    int failures = 0;
    uint64_t number = 0;
    std::set<std::string> going;
    std::vector<std::string> took;  // as Line makes them of occurrences
    std::set<std::string> ids;
  };
  using Schedules = std::map<std::string, Schedule>;

  void Step();
  void Commit();
  void Command(Engine& engine);
  void Define(Engine& engine, const std::string& name);
  void Pause(Engine& engine, const std::string& name, bool paused);
  void Delete(Engine& engine, const std::string& name);
  void RunNow(Engine& engine, const std::string& name);
  void End(Engine& engine, const std::string& name);
  std::string Text(const std::string& name, const Schedule& schedule) const;

  // What the model expects of it until now.
  void HearEnds();
  void TakeDue(const std::string& name, Schedule* schedule);
  void TakeOne(const std::string& name, Schedule* schedule, int64_t time);
  void Failed(const std::string& name, Schedule* schedule);
  std::string FreeId(Schedule* schedule, int64_t time);

  void Verify();
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  int64_t now_ = 0;
  Schedules decided_;
  Schedules durable_;
  std::vector<std::pair<std::string, bool>> ended_;  // in this turn: schedule, failed
  std::string problem_;
};

}  // namespace dfsmr
