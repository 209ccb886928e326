// An agent in the process of another command.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dcli/call/context.h"
#include "dcli/commands/agents.h"

namespace dfsmr::cli {

// Any thread.
class AgentBeside {
 public:
  virtual ~AgentBeside() = default;
  // It serves these packages from now on; it connects once there are some.
  virtual void Serve(std::vector<std::string> packages) = 0;
  // Prints a line on standard output, between those of the commands.
  virtual void Print(std::string line) = 0;
  // Prints whole lines on standard error.
  virtual void PrintError(std::string lines) = 0;
};

// Runs an agent as ServeAsAgent does, until the first signal; `beside` runs in a thread of its own,
// from the agent's start on, and returns soon when it is cancelled, which it is when the agent
// ends. Returns when both have. What `options` says of packages and workers is not used.
int ServeBeside(Context& context, const AgentOptions& options,
                const std::function<void(AgentBeside&, const Canceller&)>& beside);

}  // namespace dfsmr::cli
