// The `setup` of a package, run once before the first task of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dcli/agent/command.h"
#include "dcli/agent/run.h"
#include "dcli/agent/surroundings.h"
#include "dcli/text/lines.h"
#include "fsm/package/manifest.h"

namespace dfsmr::cli {

// The loop's thread. Kills the command when it goes.
class SetUp {
 public:
  struct Events {
    std::function<void(LogStream, std::string line)> line;
    // The last call: no process of it lives any more. It may destroy the set-up.
    std::function<void(const Result<Ok>&)> done;
  };
  // Begins. `done` is called later. `folder`: of the package. The references must outlive it.
  SetUp(Loop& loop, Keeper& keeper, const Surroundings& surroundings, const Manifest& manifest,
        const std::string& folder, Events events);

 private:
  Result<Ok> Begin(Keeper& keeper, const Surroundings& surroundings, const std::string& folder);
  void Output(bool err, std::string_view bytes);
  void Gone(const CommandEnd& end);
  Result<Ok> Outcome(const CommandEnd& end) const;

  Loop& loop_;
  const Manifest& manifest_;
  Events events_;
  Masks masks_;
  Lines out_lines_;
  Lines err_lines_;
  Tail err_;
  bool timed_out_ = false;
  std::unique_ptr<Folder> folder_;
  Timer timeout_;
  Timer late_;
  std::unique_ptr<Command> command_;
};

}  // namespace dfsmr::cli
