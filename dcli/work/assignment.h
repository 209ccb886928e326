// One task of `dcli work`, from the command's start to the report.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dcli/system/process.h"
#include "dcli/text/lines.h"
#include "dcli/work/heartbeat.h"
#include "dcli/work/shift.h"
#include "dcli/work/verdict.h"

namespace dfsmr::cli {

// What is run for each task.
struct TaskCommand {
  std::vector<std::string> command;
  std::map<std::string, std::string> middleware;  // the command line of each, by name
};

// One thread uses it. It says through the shift what goes wrong; a task that cannot be reported is
// given back, and ends the shift.
class Assignment {
 public:
  Assignment(Shift& shift, const TaskCommand& command, const v1::Task& task);

  void Perform();

 private:
  std::optional<Verdict> Run();
  Result<std::unique_ptr<Process>> Launch(std::vector<std::string> command);
  bool SeeThrough(Process& process);
  bool Heed(Process& process, Heartbeat& heartbeat);
  std::chrono::milliseconds TimeLeft() const;
  void TimeOut(Process& process);

  void Report(const Verdict& verdict);
  Result<v1::TransitionResponse> Send(const Verdict& verdict);
  void Refused(const Verdict& verdict, const Error& error);
  void NoSuchTransition(const Verdict& verdict, const Error& error);
  void GiveBack();

  std::string Name() const;
  Lines LinesTo(v1::LogLine::Stream stream);

  Shift& shift_;
  const TaskCommand& command_;
  const v1::Task& task_;
  Tail out_{kOutBytes};
  Tail err_{kErrBytes};
  const Masks masks_;  // nothing is hidden here
  Lines out_lines_;
  Lines err_lines_;
  bool told_to_stop_ = false;
  std::optional<std::chrono::steady_clock::time_point> ends_;  // of the node's run_timeout
  bool timed_out_ = false;

  static constexpr size_t kOutBytes = 4 << 20;  // the largest report that a message can carry
  static constexpr size_t kErrBytes = 4 << 10;
};

}  // namespace dfsmr::cli
