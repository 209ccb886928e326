// A client's call of one partition: how it is run, and how it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dsrv/engine/engine.h"
#include "dsrv/feed/changes.h"
#include "tests/sim/cluster/door.h"

namespace dfsmr::cluster_sim {

// How a call ends for whoever asked.
enum class End : uint8_t {
  kAnswered,
  kNotDone,  // for certain: NO_OWNER, PEER_UNREACHABLE, STORE_UNREACHABLE
  kNotMine,  // between fronts
  kUnknown,  // OUTCOME_UNKNOWN
};

// What the owner of a partition has to run a call with.
struct Owner {
  std::string id;
  PartitionId partition = 0;
  bool hands_over = false;  // and so runs nothing more
  Engine& engine;
  Changes& changes;
  Door& store;
};
// `tell`: hands out what was decided; run by the client when the answer reaches it.
using Reply = std::function<void(std::function<void()> tell)>;
struct Call {
  PartitionId partition = 0;
  bool reads_only = false;
  bool waits = false;  // for something to happen
  std::function<void(const Owner& owner, Reply reply)> run;
  std::function<void(End end, std::function<void()> tell)> done;
};
using CallPtr = std::shared_ptr<const Call>;

}  // namespace dfsmr::cluster_sim
