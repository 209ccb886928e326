#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "dcli/commands/commands.h"
#include "dcli/system/signals.h"
#include "dcli/text/values.h"
#include "dcli/work/assignment.h"
#include "dcli/work/shift.h"
#include "fsm/base/names.h"

namespace dfsmr::cli {
namespace {

constexpr std::chrono::seconds kPoll{20};
constexpr int kMostJobs = 1'000;
constexpr size_t kMostCapabilities = 64;
constexpr std::chrono::seconds kLastLogs{3};

// Tasks come by long polls and are reported one by one, not on a Work stream. A claim that came by
// a poll outlives the connection, so that a task in hand can still be reported after the server has
// restarted; the tasks of a stream are given back when it breaks.
v1::ReadyRequest RequestOf(const Context& context, const WorkOptions& options) {
  v1::ReadyRequest request;
  request.set_namespace_(context.name_space);
  request.set_worker(options.worker.empty() ? WorkerName() : options.worker);
  request.set_machine(options.machine);
  request.set_node(options.node);
  request.set_action(options.action);
  request.set_queue(options.queue);
  for (const std::string& word : options.capabilities) request.add_capabilities(word);
  request.set_max_tasks(1);
  *request.mutable_wait() = ToProto(Duration(kPoll));
  return request;
}

// The next task; nullopt when the shift is over.
std::optional<v1::Task> Take(Shift& shift, const v1::ReadyRequest& request) {
  for (Backoff backoff; shift.stage() == Shift::Stage::kWorking;) {
    const auto asked = std::chrono::steady_clock::now();
    const auto reply = shift.context.client->Ready(request, &shift.polls);
    if (reply) shift.Heard(nullptr);
    if (reply && reply->tasks_size() > 0) return reply->tasks(0);
    if (!reply && (shift.polls.cancelled() || !shift.Heard(&reply.error()))) return std::nullopt;
    const bool waited = std::chrono::steady_clock::now() - asked > kPoll / 2;
    if (reply && waited) {
      backoff.Reset();
    } else {
      shift.polls.SleepFor(backoff.Next());  // a server that is about to stop answers at once
    }
  }
  return std::nullopt;
}

// Does one task after the other until the shift is over, or one task with `once`.
void Lane(Shift& shift, const TaskCommand& command, const v1::ReadyRequest& request, bool once) {
  while (const auto task = Take(shift, request)) {
    shift.Begin();
    Assignment(shift, command, *task).Perform();
    shift.End();
    if (once) return;
  }
}

// Of a program that IsOnPath does not find.
std::string WhyNot(const std::string& program) {
  const bool there =
      program.find('/') != std::string::npos && access(program.c_str(), F_OK) == 0;
  return program + (there ? ": it is not executable" : ": not found");
}

// NAME=COMMAND.
Result<Ok> AddMiddleware(const std::string& pair, TaskCommand* to) {
  const size_t equals = pair.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size()) {
    return BadUsage("--middleware \"" + pair + "\" is not NAME=COMMAND");
  }
  const std::string line = pair.substr(equals + 1);
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::string program = line.substr(first, line.find(' ', first) - first);
  if (!IsOnPath(program)) return BadUsage("cannot run the middleware " + WhyNot(program));
  to->middleware[pair.substr(0, equals)] = line;
  return Ok{};
}

Result<TaskCommand> TaskCommandOf(const WorkOptions& options) {
  if (options.command.empty()) return BadUsage("there is no command: put it after \"--\"");
  if (!IsOnPath(options.command[0])) return BadUsage("cannot run " + WhyNot(options.command[0]));
  if (options.jobs < 1 || options.jobs > kMostJobs)
    return BadUsage("--jobs must be from 1 to 1000");
  for (const std::string& word : options.capabilities) {
    if (!ValidName(word)) {
      return BadUsage("--capability \"" + word +
                      "\" is no name: letters, digits, '.', '_' and "
                      "'-', a letter or digit first");
    }
  }
  if (options.capabilities.size() > kMostCapabilities) return BadUsage("at most 64 capabilities");
  TaskCommand command{.command = options.command, .middleware = {}};
  for (const std::string& pair : options.middleware) {
    const auto added = AddMiddleware(pair, &command);
    if (!added) return added.error();
  }
  return command;
}

}  // namespace

int Work(Context& context, const WorkOptions& options) {
  const auto command = TaskCommandOf(options);
  if (!command) return context.FailUsage(command.error());
  signal(SIGPIPE, SIG_IGN);  // a command need not read its standard input
  Shift shift(context);
  std::unique_ptr<LogPump> logs;
  const Interrupts interrupts([&shift](int count) { shift.Stop(count); });
  const v1::ReadyRequest request = RequestOf(context, options);
  if (options.logs) {  // after the signals are blocked: it has threads
    logs = std::make_unique<LogPump>(*context.client, context.name_space);
    logs->Enable(true);
    shift.logs = logs.get();
  }
  const size_t jobs = options.once ? 1 : static_cast<size_t>(options.jobs);
  std::vector<std::thread> lanes;
  lanes.reserve(jobs);
  for (size_t i = 0; i < jobs; ++i) {
    lanes.emplace_back([&] { Lane(shift, *command, request, options.once); });
  }
  for (std::thread& lane : lanes) lane.join();
  if (logs != nullptr) logs->Finish(kLastLogs);
  return shift.Close();
}

}  // namespace dfsmr::cli
