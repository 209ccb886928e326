// A task in an agent's hand, from the claim to the answer of its report.
#pragma once

#include "dcli/agent/agent.h"

namespace dfsmr::cli {

struct Agent::Hand {
  explicit Hand(Loop& loop) : extend(loop), timeout(loop), tell(loop), again(loop) {}

  std::string Name() const {
    return task.instance() + " at " + task.machine() + "/" + task.node();
  }

  enum class Stage { kWaiting, kBeginning, kRunning, kReporting };
  v1::Task task;
  const Worker* worker = nullptr;
  Stage stage = Stage::kWaiting;
  bool begun = false;
  bool at_most_once = false;
  Order order = Order::kNone;
  bool lost = false;         // somebody else's now
  bool timed_out = false;
  bool given_back = false;   // by the agent's own end
  Timer extend;
  Timer timeout;
  Timer tell;
  Timer again;
  SteadyTime told_at{};
  double progress = 0;
  std::string note;
  std::string checkpoint;    // not taken by the server yet
  std::string sent_checkpoint;
  std::unique_ptr<cli::Run> run;
  Verdict verdict;
};

}  // namespace dfsmr::cli
