// The keeper: a process between the agent and the commands. It forks a warden for each command, and
// kills what a warden that was killed itself has left behind. When the agent dies, all wardens and
// the keeper hear of it at once, and no process of a command lives a moment longer; then the
// folders of the commands are deleted.
#pragma once

#include <memory>
#include <string>

#include "dcli/keeper/words.h"
#include "dcli/system/process.h"
#include "fsm/base/result.h"

namespace dfsmr::cli {

// Our ends of a command's streams, which do not block, and of the socket to its warden.
struct Reins {
  Descriptor in;
  Descriptor out;
  Descriptor err;
  Descriptor control;
};

// One thread uses it, and outlives the keeper's process: the end of that thread counts as the
// agent's.
class Keeper {
 public:
  // Forks the process. Makes this process a subreaper, too: it inherits what lives when the keeper
  // is killed.
  static Result<std::unique_ptr<Keeper>> Start();
  // Ends the keeper and waits for it: no process of its commands lives any more.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // Has a command started. How that went the warden says over `control`.
  Result<Reins> Run(const Launch& launch);

  pid_t pid() const { return pid_; }
  // Readable when the keeper is gone.
  int socket() const { return socket_.get(); }

  // After the keeper was killed: kills all processes below this one, until there are none.
  static void KillOrphans();

 private:
  Keeper(pid_t pid, Descriptor socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  Descriptor socket_;
};

}  // namespace dfsmr::cli
