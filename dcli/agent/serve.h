// Processes that serve many short tasks each, by lines of JSON.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dcli/agent/command.h"
#include "dcli/agent/run.h"
#include "dcli/agent/secrets.h"
#include "dcli/agent/surroundings.h"
#include "dcli/text/lines.h"

namespace dfsmr::cli {

class ServeProcess;

// The processes of one worker. The loop's thread. The references must outlive it.
class ServePool {
 public:
  // `keeper` gives the keeper of the moment.
  ServePool(Loop& loop, std::function<Keeper&()> keeper, const Surroundings& surroundings,
            const Worker& worker);
  ~ServePool();

  // Hands a task to a process that has room, or to a new one.
  std::unique_ptr<Run> Begin(const v1::Task& task, const SecretValues& secrets, RunEvents events);
  // Whether a task would have a new process begun. Then its worker's variables are asked for.
  bool NeedsProcess() const;
  // Has all processes end that have nothing in hand, and the others when they have nothing any
  // more.
  void Close();
  bool empty() const { return processes_.empty(); }
  void OnEmpty(std::function<void()> action) { on_empty_ = std::move(action); }

 private:
  friend class ServeProcess;
  void Remove(ServeProcess* process);

  Loop& loop_;
  std::function<Keeper&()> keeper_;
  const Surroundings& surroundings_;
  const Worker& worker_;
  bool closed_ = false;
  SecretValues variables_;  // what the newest process was, or is to be, begun with
  std::function<void()> on_empty_;
  std::vector<std::unique_ptr<ServeProcess>> processes_;
};

}  // namespace dfsmr::cli
