// One simulated run of limits: the real engine under crashes and writes that fail, one command a
// turn, against an account that says of each instance whether it begins, waits, is left out or
// gives way, and of each task whether it may be handed out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/dsrv/engine/world.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/limits_audit.h"
#include "tests/sim/random.h"

namespace dfsmr {

class LimitSim {
 public:
  LimitSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

 private:
  // What is known of the server, and goes with a turn that is lost.
  struct Known {
    LimitsAudit audit;
    std::map<std::string, std::string> claims;  // by instance
    std::vector<std::string> ids;
    uint64_t started = 0;
  };
  struct Drawn {
    LimitAsks asks;
    LimitAsks node;
  };
  enum class Lost : uint8_t { kNothing, kTorn, kKept };

  void Step();
  void Tick();
  void PassTime();
  // A turn with one command, of which the account hears as it is given. `after`: when it is
  // durable.
  void Turn(const std::function<void(Engine&)>& command, const std::function<void()>& after = {});
  void Crash();
  void AdoptRates();

  void DefineMachines();
  LimitAsk DrawAsk(bool node);
  LimitAsks DrawAsks(bool node);
  void Start(Engine& engine);
  void Poll();
  void Finish(Engine& engine);
  void Pause(Engine& engine);
  void Resume(Engine& engine);
  void Cancel(Engine& engine);
  void Override(Engine& engine);
  void Document(Engine& engine);
  std::string AnyId();

  void Verify();
  void VerifyOne(const LimitsAudit::One& one, const Instance& instance);
  void VerifyTask(const LimitsAudit::One& one, const Instance& instance);
  std::string Standings(const std::set<std::string>& keys);
  std::string GaveWay(const std::string& id) const;
  void Expect(bool good, const std::string& what);
  void Note(const std::string& what);

  Random random_;
  const bool trace_;
  MemoryStore memory_;
  FaultyStore store_;
  World world_;
  std::map<std::string, Drawn> machines_;
  Known decided_;
  Known durable_;
  Timestamp written_;  // when the last turn was written
  std::string problem_;
};

}  // namespace dfsmr
