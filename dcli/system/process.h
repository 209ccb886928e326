// A command that runs in a process group of its own, with its three streams connected to us.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"

namespace dfsmr::cli {

// An open file descriptor, closed with it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }
  void Close();
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The last bytes of a text of any length.
class Tail {
 public:
  explicit Tail(size_t limit) : limit_(limit) {}
  void Add(std::string_view text);
  const std::string& text() const { return text_; }
  // When text() begins in the middle of a line: the first character of that line that is not a
  // blank. 0 when the line is complete.
  char first() const { return first_; }

 private:
  const size_t limit_;
  std::string text_;
  char first_ = 0;
};

// One thread uses it.
class Process {
 public:
  using Sink = std::function<void(std::string_view)>;
  struct Plan {
    std::vector<std::string> command;      // found on PATH
    std::vector<std::string> environment;  // "NAME=value", added to ours or in place of ours
    std::string input;                     // for its standard input
    Sink out;
    Sink err;
    std::function<bool()> full = {};  // while it returns true, its output is not read
  };

  // kNotFound when there is no such command, kInternal when it cannot be started.
  static Result<std::unique_ptr<Process>> Start(Plan plan);
  // Kills the whole group if it is still running, and waits for it.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Moves bytes until the command has ended: true. False when the time is over first, or when
  // `wake` (a descriptor, or -1) becomes readable. Does not wait for children that the command has
  // left behind with its streams open.
  bool Run(std::chrono::milliseconds at_most, int wake);
  // To the whole group.
  void Signal(int signal);
  // As waitpid gives it. REQUIRES: Run has returned true.
  int status() const { return status_; }

 private:
  explicit Process(Plan plan) : plan_(std::move(plan)) {}
  void Feed();
  void Drain();
  bool Reap();

  Plan plan_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  size_t fed_ = 0;
  Descriptor end_;  // a pidfd, readable when it has ended; not open where the kernel has none
  Descriptor in_;
  Descriptor out_;
  Descriptor err_;
};

// "exit status 3", "killed by signal 9 (Killed)".
std::string StatusText(int status);
// True when `command` names a program that can be run.
bool IsOnPath(const std::string& command);

}  // namespace dfsmr::cli
