// What the end of a command means: its exit status and its last line, made into a report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dcli/text/values.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

struct Child {
  MachineRef machine;
  std::string id;
  std::string params;  // a JSON object, or empty
  friend bool operator==(const Child&, const Child&) = default;
};

// An instance to start with the report.
struct StartCall {
  v1::StartRequest request;
  friend bool operator==(const StartCall& a, const StartCall& b);
};

// What to report about a task.
struct Verdict {
  std::string transition;
  bool named = false;  // the command itself has named it, on its last line
  std::string params;  // JSON objects, or empty
  std::string output;
  std::string error;
  // For `error`.
  std::string error_kind;
  bool fatal = false;
  std::optional<Duration> retry_after;
  std::string checkpoint;  // a JSON object, or empty
  // For a transition that suspends.
  std::optional<Duration> wake_after;
  std::vector<Child> children;
  uint32_t children_concurrency = 0;
  // With any transition.
  std::vector<StartCall> starts;
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Exit status 0 is `success`, another one or a signal is "error" with the last lines of `err`. When
// the last line of `out` is a JSON object, its members "transition", "params", "output", "error",
// "error_kind", "fatal", "retry_after", "wake_after", "children", "children_concurrency" and
// "start" win; a member of the wrong type makes it an "error" that says so. "wakeAfter" and
// "childrenConcurrency" are accepted, too. The items of "start" have the fields of StartRequest,
// where "machine" may be MACHINE@VERSION, "params" is an object, and "flow" may be a list or an
// object.
Verdict VerdictOf(int status, std::string_view out, std::string_view err,
                  std::string_view success = "ok");

// How a command ended, and what it has said.
struct Ending {
  int status = 0;  // as waitpid gives it
  std::string_view out;
  std::string_view err;
  std::string_view success = "ok";
  std::string_view report = {};  // wins over the last line of `out`, unless it is blank
  const std::map<int, std::string>* exits = nullptr;  // transitions by exit status; may be null
};
// The same for an agent: a report in a file of its own, exit statuses with meanings, and each error
// with its kind: exit, signal, or output when a report cannot be understood.
Verdict VerdictOf(const Ending& ending);
// What the members of `object` say, in place of what `base` has. `what` names the object in errors.
Verdict VerdictTold(std::string_view object, Verdict base, std::string_view what);
// A report of `error`.
Verdict Failure(std::string error, std::string kind = "");

// The report to send.
v1::TransitionRequest ReportOf(const v1::Task& task, const Verdict& verdict);

// The variables that every command of a task has: "DFSMR_INSTANCE=…" and so on.
std::vector<std::string> TaskVariables(const v1::Task& task, const std::string& server);

// The last line that is not blank, without its line break.
std::string_view LastLine(std::string_view text);

}  // namespace dfsmr::cli
