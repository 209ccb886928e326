// Processes, found by whose children they are or by a mark in their environment.
#pragma once

#include <sys/types.h>

#include <string_view>
#include <vector>

namespace dfsmr::cli {

// All processes below `root`, parents first. A process that forks meanwhile may be missed: whoever
// wants all of them asks again until there are none.
std::vector<pid_t> Descendants(pid_t root);

// A signal for all processes below `root`.
void SignalDescendants(pid_t root, int signal);

// Kills all processes whose environment holds `entry` ("NAME=value"), but not this process and
// those it descends from, and waits until they are gone, at most so many milliseconds. Returns how
// many it has killed.
size_t KillMarked(std::string_view entry, int at_most);

}  // namespace dfsmr::cli
