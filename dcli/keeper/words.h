// What the agent, its keeper and the wardens say to each other: packets over sockets that keep the
// bounds of messages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dfsmr::cli {

// A command to run: nothing is looked up any more.
struct Launch {
  std::string file;                      // the program, by a path
  std::vector<std::string> arguments;    // argv, from its name on
  std::vector<std::string> environment;  // all of it: "NAME=value"
  std::string directory;                 // where it runs
  std::string cgroup;                    // a folder that it joins before it runs; empty: none
  std::string folder = {};  // its own: the keeper deletes it when the agent dies; empty: none
  friend bool operator==(const Launch&, const Launch&) = default;
};

std::string Encoded(const Launch& launch);
// Nullopt when the text is no encoded launch.
std::optional<Launch> Decoded(std::string_view text);

// A word between the agent and the warden of one command.
struct Word {
  enum class Kind : uint32_t {
    // From the warden.
    kStarted,  // `number`: the pid
    kFailed,   // `number`: the errno; `detail`: what failed, a LaunchStep
    kExited,   // `number`: the status of the command, as waitpid gives it. What it left is killed
    kGone,     // no process of it lives; `cpu` and `memory` of all of them. The last word
    // From the agent.
    kSignal,  // `number`: the signal, for all processes
    kKill,    // kill all processes
  };
  Kind kind = Kind::kStarted;
  int32_t number = 0;
  uint32_t detail = 0;
  int64_t cpu = 0;     // microseconds
  int64_t memory = 0;  // the largest process, in KiB
};

enum class LaunchStep : uint32_t { kFork, kCgroup, kDirectory, kProgram };

// False when the other side is gone.
bool Say(int socket, const Word& word);
// Nullopt when there is nothing to read now; `gone` tells whether there will be no more.
std::optional<Word> Hear(int socket, bool* gone);

}  // namespace dfsmr::cli
