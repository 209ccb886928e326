// What measures.h counts, and a copy of it for those who scrape the server. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fsm/base/spread.h"
#include "fsm/base/time.h"

namespace dfsmr {

// The name of what is not shown by itself.
inline constexpr std::string_view kOtherSeries = "_other";

struct NodeMeasures {
  std::vector<std::pair<std::string, uint64_t>> transitions;  // that left it, by name
  uint64_t first_claims = 0;
  uint64_t retries = 0;  // claims of attempts from 2 on
  uint64_t timeouts = 0;
  uint64_t errors = 0;   // reports
  uint64_t refused = 0;  // claims that their worker could not begin
  uint64_t unbegun = 0;  // claims that nobody has begun in time
  uint64_t abandoned = 0;
  Spread<kWorkEdges> task;  // from claim to report
  Spread<kWorkEdges> wait;  // from ready to claim
  // Of the last copy: tokens that are ready, claimed, waiting, held.
  std::array<uint64_t, 4> tokens{};
  bool other = false;  // it stands for many nodes
};

// In the order of InstanceResult from kSuccess on.
inline constexpr size_t kResults = 5;

struct MachineCounts {
  uint64_t starts = 0;
  std::array<uint64_t, kResults> finishes{};
  uint64_t breaker_opens = 0;
};

// Beside a machine's state.
struct MachineMeasures {
  MachineCounts counts;
  std::map<std::string, std::unique_ptr<NodeMeasures>> nodes;  // with numbers of their own
  bool known = false;
  bool folded = false;     // it counts as kOtherSeries
  uint32_t looked_at = 0;  // the version whose nodes have got theirs
};

struct Measured {
  struct Queue {
    uint64_t ready = 0;
    std::optional<Duration> oldest;
    uint64_t asking = 0;  // polls and streams that would take one
  };
  struct Node {
    std::string name;
    NodeMeasures counts;
    std::optional<Duration> timeout;  // that the next claim gets; nullopt: none
  };
  struct Machine {
    std::string ns;
    std::string id;
    MachineCounts counts;
    std::array<uint64_t, 4> instances{};  // scheduled, running, paused, stopped
    std::string_view breaker;             // empty: it has none
    double retry_ratio = 0;
    uint64_t held_back = 0;
    std::map<std::string, Queue> queues;
    std::vector<Node> nodes;
  };
  struct Occurrences {
    std::string ns;
    std::string source;
    std::string outcome;
    uint64_t count = 0;
  };

  std::vector<Machine> machines;
  uint64_t folded = 0;  // nodes that have no numbers of their own
  std::map<std::pair<std::string, std::string>, uint64_t> bulks;  // by action and outcome
  std::vector<Occurrences> occurrences;
  Spread<kOwnEdges> occurrence_delay;
};

}  // namespace dfsmr
