// What does not go on by itself, or goes badly: by node, found in the counters of machines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsrv/engine/error_texts.h"
#include "dsrv/engine/survey.h"

namespace dfsmr {

struct TroubleView {
  // Same numbers as Trouble.Kind. Those about people and silent workers are not looked for.
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

// `queues`: those of the machine. `begun`: when the server began to know who asks.
void FindTroubles(const MachineState& machine, const std::vector<QueueView>& queues, Timestamp now,
                  Timestamp begun, std::vector<TroubleView>* out);

}  // namespace dfsmr
