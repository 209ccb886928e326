// One task in the hands of a command: one of its own, or a process that serves many.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "dcli/agent/progress.h"
#include "dcli/agent/workers.h"
#include "dcli/work/verdict.h"

namespace dfsmr::cli {

// How it ended.
struct RunEnd {
  enum class How {
    kRefused,    // nothing was run; `why`
    kEnded,      // with a verdict
    kGivenBack,  // for another reason than its own; `why`
  };
  How how = How::kEnded;
  std::string why;
  Verdict verdict;
  bool well = false;   // it has ended well, or named a transition
  std::string status;  // "exit status 3"
};

enum class LogStream { kOut, kErr, kAgent };

// "2.1s"
std::string SecondsText(std::chrono::duration<double> time);

struct RunEvents {
  std::function<void(LogStream, std::string line)> line;
  std::function<void()> progressed;  // there is something to tell: TakeProgress
  // The last call: no process of it lives any more. It may destroy the run.
  std::function<void(const RunEnd&)> ended;
};

class Run {
 public:
  virtual ~Run() = default;
  // Has it end: kindly at first, and for good after so long. Called again: the sooner counts.
  // `kill`: by an order to kill.
  virtual void Stop(std::chrono::milliseconds kill_after, bool kill) = 0;
  // What it has said of itself since the last call, with all that is hidden masked.
  virtual std::optional<Progress> TakeProgress() = 0;
};

}  // namespace dfsmr::cli
