// One command under its warden, as the agent's loop sees it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dcli/agent/loop.h"
#include "dcli/keeper/keeper.h"

namespace dfsmr::cli {

// What became of a command.
struct CommandEnd {
  bool started = false;
  std::string failure;  // why it could not be started
  bool exited = false;  // false: its warden was killed, so nobody knows
  int status = 0;       // as waitpid gives it
  std::chrono::microseconds cpu{};
  int64_t memory = 0;  // KiB, of its largest process
};

// The loop's thread. Its output is always read, whatever happens to it.
class Command {
 public:
  struct Events {
    std::function<void(pid_t)> started;  // before any output
    std::function<void(bool err, std::string_view bytes)> output;
    // The last call: no process of it lives any more, all output was handed over. It may destroy
    // the command.
    std::function<void(const CommandEnd&)> gone;
  };

  static Result<std::unique_ptr<Command>> Start(Loop& loop, Keeper& keeper, const Launch& launch,
                                                Events events);
  // Kills it.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Adds to its standard input.
  void Write(std::string text);
  // After what was written, its standard input ends.
  void CloseInput();
  // SIGTERM to all its processes, SIGKILL after so long. Called again: the sooner counts.
  void Stop(std::chrono::milliseconds kill_after);
  void Kill();
  // Whether it has exited, though what it has left behind may not be gone yet.
  bool exited() const { return end_.exited; }

 private:
  Command(Loop& loop, Reins reins, Events events);
  void Feed();
  void Pull(bool err);
  bool PullOnce(bool err);
  void Listen();
  void Started(pid_t pid);
  void Gone();

  Loop& loop_;
  Reins reins_;
  Events events_;
  std::string input_;
  size_t fed_ = 0;
  bool input_ends_ = false;
  bool feeding_ = false;
  CommandEnd end_;
  Timer kill_;
  SteadyTime kill_at_ = SteadyTime::max();
};

}  // namespace dfsmr::cli
