// The warden of one command: a process that starts the command, tells the agent of its end, and
// sees to it that no process of the command outlives it. As a child subreaper it becomes the parent
// of what leaves the command's group and session, so nothing that the command starts can get away.
#pragma once

#include "dcli/keeper/words.h"
#include "dcli/system/process.h"

namespace dfsmr::cli {

struct WardenPlan {
  Launch launch;
  Descriptor in;
  Descriptor out;
  Descriptor err;
  Descriptor control;  // to the agent; when it ends, the agent is gone: all is killed
};

// Runs in a process of its own with one thread, and ends the process when no process of the command
// lives any more. `keeper` is the parent: when it dies, all is killed.
[[noreturn]] void RunWarden(WardenPlan plan, pid_t keeper);

}  // namespace dfsmr::cli
