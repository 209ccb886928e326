// What does not go on by itself, or goes badly: by node, found in the counters of machines, and of
// work that is done at most once among the instances in memory, where all that is claimed is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsrv/engine/error_texts.h"
#include "dsrv/engine/survey.h"

namespace dfsmr {

struct TroubleView {
  // Same numbers as Trouble.Kind.
  enum class Kind : uint8_t {
    kNone,
    kHeld,
    kFailing,
    kUnserved,
    kBacklog,
    kRetrying,
    kBreaker,
    kUnreported,
    kPerson,
    kAtMaximum
  };
  Kind kind = Kind::kNone;
  std::string machine;
  std::string node;
  std::string queue;
  uint64_t count = 0;
  Timestamp since;
  std::vector<ErrorTally> errors;
  std::string filter;  // finds these instances
};

struct TroubleSources {
  const std::vector<QueueView>& queues;  // those of the machine, at least
  const Residents& residents;
  const Workers& workers;
  Timestamp now;
  Timestamp begun;  // when the server began to know who asks
};
void FindTroubles(const MachineState& machine, const TroubleSources& sources,
                  std::vector<TroubleView>* out);

}  // namespace dfsmr
