// Control groups (v2) for the commands, where the agent's own has been delegated to it: limits on
// memory, processors and processes, and a kill that nothing escapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "fsm/base/process_limits.h"

namespace dfsmr::cli {

using Limits = ProcessLimits;

// The control group of one command; goes with it. REQUIRES: no process is left in it by then.
class Cgroup {
 public:
  explicit Cgroup(std::string path) : path_(std::move(path)) {}
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  const std::string& path() const { return path_; }
  bool OutOfMemory() const;              // the kernel has killed it for its memory
  std::optional<uint64_t> Peak() const;  // bytes that it used at most

 private:
  std::string path_;
};

// The part of the tree that the agent may divide.
class Cgroups {
 public:
  // Looks where this process is. Moves this process into a group of its own below, so that the rest
  // can be divided among commands.
  static Cgroups Find();

  bool delegated() const { return !root_.empty(); }
  // Memory, processors and processes can be limited.
  bool limits() const { return limits_; }
  // Why not, for people.
  const std::string& why_not() const { return why_not_; }
  // A new group with these limits; null where there are none, or it cannot be made.
  std::unique_ptr<Cgroup> Make(const std::string& name, const Limits& limits) const;

 private:
  void Divide(const std::string& own);

  std::string root_;
  bool limits_ = false;
  std::string why_not_;
};

}  // namespace dfsmr::cli
