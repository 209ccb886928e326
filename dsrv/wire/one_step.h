// All there is of one step of a plan, or of one node of a plain machine. Reads the store: for the
// pool.
#pragma once

#include <optional>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

struct StepCommand {
  std::string ns;
  std::string instance;
  std::string path;
};

// What only the engine knows of it.
struct StepNow {
  std::optional<std::string> filled;  // its input with references replaced; nullopt: impossible now
  Timestamp time;                     // the server's
};

// NO_SUCH_INSTANCE, NO_SUCH_NODE.
Result<Ok> ReadStep(const Moment& moment, const StepCommand& command, const StepNow& now,
                    v1::GetStepResponse* reply);

}  // namespace dfsmr
