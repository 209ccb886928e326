// Decisions of home's that depend on how many instances there are: the other partitions are asked
// first, and count as long as home decides.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/live_count.h"
#include "fsm/base/result.h"

namespace dfsmr {

class Call;
struct Backend;

// How long others are asked for.
enum class Counting : uint8_t {
  kShown,    // who does not answer soon is left out
  kDecides,  // all have to answer, or there is an error
};
// What there is of a namespace in all other partitions; nothing where there are none. `settle`:
// what they have only in memory becomes durable. `done` is called once.
using GatheredLive = std::function<void(Result<LiveCounts> counts)>;
void GatherLive(const Backend& backend, const std::string& ns, Counting counting, bool settle,
                GatheredLive done);

// Counts what others have while it lives. In the loop.
class CountsElsewhere {
 public:
  CountsElsewhere(Engine& engine, std::string ns, const LiveCounts& counts);
  ~CountsElsewhere();
  CountsElsewhere(const CountsElsewhere&) = delete;
  CountsElsewhere& operator=(const CountsElsewhere&) = delete;

 private:
  Engine& engine_;
  const std::string ns_;
  const bool any_;
};

// Posts `run`, which ends the call, to the loop, where it counts what others have.
void PostCounting(Call& call, const std::string& ns, Counting counting, size_t bytes,
                  std::function<void(Engine&)> run);

}  // namespace dfsmr
