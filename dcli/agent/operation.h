// A task that has a command of its own, from its folder to its clean-up.
#pragma once

#include <memory>
#include <string>

#include "dcli/agent/command.h"
#include "dcli/agent/run.h"
#include "dcli/agent/secrets.h"
#include "dcli/agent/surroundings.h"
#include "dcli/text/lines.h"

namespace dfsmr::cli {

// The loop's thread.
class Operation : public Run {
 public:
  // Begins. `ended` may be called before it returns when nothing can be run, but only from the
  // loop. The references must outlive it.
  Operation(Loop& loop, Keeper& keeper, const Surroundings& surroundings, const Worker& worker,
            const v1::Task& task, SecretValues secrets, RunEvents events);
  ~Operation() override;

  void Stop(std::chrono::milliseconds kill_after, bool kill) override;
  std::optional<Progress> TakeProgress() override;

 private:
  Result<Ok> Begin(Keeper& keeper);
  Result<Ok> MakeCgroup(Launch* launch);
  void Started(pid_t pid);
  void Output(bool err, std::string_view bytes);
  void LookAtProgress(bool last);
  void WatchProgress();
  void Release();
  void Gone(const CommandEnd& end);
  Verdict VerdictOfEnd(const CommandEnd& end);
  void Mask(Verdict* verdict) const;
  std::string EndText(const CommandEnd& end) const;
  void Say(std::string line) { events_.line(LogStream::kAgent, std::move(line)); }
  void End(RunEnd end);

  Loop& loop_;
  const Surroundings& surroundings_;
  const Worker& worker_;
  const v1::Task task_;
  const SecretValues secrets_;
  RunEvents events_;
  Masks masks_;
  Lines out_lines_;
  Lines err_lines_;
  Tail out_;
  Tail err_;
  std::unique_ptr<Folder> folder_;
  std::unique_ptr<Cgroup> cgroup_;
  std::unique_ptr<ProgressFile> progress_file_;
  Progress progress_;  // not taken yet
  bool progressed_ = false;
  std::string checkpoint_;  // the last one
  SteadyTime begun_;
  Timer look_;
  Timer release_;
  Timer late_;
  std::unique_ptr<Command> command_;
};

}  // namespace dfsmr::cli
