#include "dcli/work/assignment.h"

#include <signal.h>

#include <algorithm>

#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/work/legal.h"
#include "dcli/work/task_json.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kKillAfter{10};  // a command that was told that its time is over

// The command in its middleware, outermost first: each gets the rest as its arguments, and runs the
// rest or does not.
Result<std::vector<std::string>> Wrapped(const TaskCommand& command, const v1::Task& task) {
  std::vector<std::string> words;
  for (const std::string& name : task.middleware()) {
    const auto found = command.middleware.find(name);
    if (found == command.middleware.end()) {
      return Error{Code::kNotFound, Reason::kNone,
                   "this worker has no middleware \"" + name + "\""};
    }
    for (std::string& word : Split(found->second, ' ')) {
      if (!word.empty()) words.push_back(std::move(word));
    }
  }
  words.insert(words.end(), command.command.begin(), command.command.end());
  return words;
}

}  // namespace

Assignment::Assignment(Shift& shift, const TaskCommand& command, const v1::Task& task)
    : shift_(shift),
      command_(command),
      task_(task),
      out_lines_(LinesTo(v1::LogLine::OUT)),
      err_lines_(LinesTo(v1::LogLine::ERR)) {}

Lines Assignment::LinesTo(v1::LogLine::Stream stream) {
  return {masks_, [this, stream](std::string line) {
            shift_.logs->Add(task_.instance(), task_.claim(), stream, std::move(line));
          }};
}

std::string Assignment::Name() const {
  return task_.instance() + " at " + task_.machine() + "/" + task_.node();
}

void Assignment::Perform() {
  if (const auto verdict = Run()) Report(*verdict);
}

// Nullopt when there is nothing to report: the claim is lost, or was given back.
std::optional<Verdict> Assignment::Run() {
  auto command = Wrapped(command_, task_);
  if (!command) return Failure(command.error().message);
  const auto process = Launch(*std::move(command));
  if (!process) {
    GiveBack();
    shift_.GiveUp([this_shift = &shift_, error = process.error()] {
      return this_shift->context.Fail(kBadUsage, error.message);
    });
    return std::nullopt;
  }
  const bool ended = SeeThrough(**process);
  if (shift_.logs != nullptr) {
    out_lines_.End();
    err_lines_.End();
    shift_.logs->End(task_.claim());
  }
  if (!ended) return std::nullopt;
  if (timed_out_) {
    return Failure("it ran for longer than " + DurationText(FromProto(task_.run_timeout())) + ": " +
                       StatusText((*process)->status()),
                   "timeout");
  }
  const char* success = task_.phase() == "plan" ? "planned" : "ok";
  const Verdict verdict = VerdictOf((*process)->status(), out_.text(), err_.text(), success);
  const bool cut = out_.first() == '{' && LastLine(out_.text()).data() == out_.text().data();
  if (!cut || verdict.transition == "error") return verdict;
  return Failure("the last line of the command's output is larger than any report may be");
}

Result<std::unique_ptr<Process>> Assignment::Launch(std::vector<std::string> command) {
  return Process::Start({.command = std::move(command),
                         .environment = TaskVariables(task_, shift_.context.client->server()),
                         .input = TaskJson(task_),
                         .out =
                             [this](std::string_view text) {
                               out_.Add(text);
                               if (shift_.logs != nullptr) out_lines_.Add(text);
                               shift_.Pass(shift_.context.out, text);
                             },
                         .err =
                             [this](std::string_view text) {
                               err_.Add(text);
                               if (shift_.logs != nullptr) err_lines_.Add(text);
                               shift_.Pass(shift_.context.err, text);
                             },
                         .full = [this] { return shift_.Full(); }});
}

// True when the command has ended, false when its result is of no use any more.
bool Assignment::SeeThrough(Process& process) {
  Heartbeat heartbeat(*shift_.context.client, task_, &shift_.calls);
  if (task_.has_run_timeout()) ends_ = steady_clock::now() + FromProto(task_.run_timeout());
  while (!process.Run(std::min(heartbeat.Left(), TimeLeft()), shift_.abandoned())) {
    if (shift_.stage() == Shift::Stage::kAbandoning) {
      process.Signal(SIGKILL);
      if (task_.has_deadline()) GiveBack();
      return false;
    }
    if (heartbeat.Left().count() == 0 && !Heed(process, heartbeat)) {
      process.Signal(SIGKILL);
      return false;
    }
    if (TimeLeft().count() == 0) TimeOut(process);
  }
  return true;
}

// Until the command is told that its time is over, or is killed because it did not listen.
milliseconds Assignment::TimeLeft() const {
  if (!ends_) return milliseconds::max();
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(*ends_ - steady_clock::now()));
}

void Assignment::TimeOut(Process& process) {
  process.Signal(timed_out_ ? SIGKILL : SIGTERM);
  if (!timed_out_) shift_.Say(Name() + " has run for too long: telling the command to stop");
  timed_out_ = true;
  ends_ = steady_clock::now() + kKillAfter;
}

// Sends a heartbeat and acts on the answer. False when the command must be killed at once.
bool Assignment::Heed(Process& process, Heartbeat& heartbeat) {
  std::string why;
  switch (heartbeat.Beat(&why)) {
    case Heartbeat::News::kNone:
      return true;
    case Heartbeat::News::kCancel:
      if (!told_to_stop_) {
        shift_.Say(Name() + " was cancelled: telling the command to stop");
        process.Signal(SIGTERM);
      }
      told_to_stop_ = true;
      return true;
    case Heartbeat::News::kKill:
      shift_.Say(Name() + " was killed");
      return false;
    case Heartbeat::News::kLost:
      shift_.Say(Name() + " is not ours any more, its command is stopped: " + why);
      return false;
  }
  return true;
}

void Assignment::Report(const Verdict& verdict) {
  const auto reply = Send(verdict);
  if (!reply && reply.error().code != Code::kCancelled) Refused(verdict, reply.error());
}

// Sends the report until the server has answered: repeating it under the same claim is harmless.
Result<v1::TransitionResponse> Assignment::Send(const Verdict& verdict) {
  const v1::TransitionRequest request = ReportOf(task_, verdict);
  for (Backoff backoff;;) {
    auto reply = shift_.context.client->Transition(request, &shift_.calls);
    if (shift_.calls.cancelled() && !reply)
      return Error{Code::kCancelled, Reason::kNone, "interrupted"};
    if (reply) shift_.Heard(nullptr);
    if (reply) return reply;
    const bool deferred = Deferred(reply.error());
    if (!deferred && !Passing(reply.error())) return reply;
    if (!deferred) shift_.Heard(&reply.error());
    shift_.calls.SleepFor(backoff.Next());
  }
}

void Assignment::Refused(const Verdict& verdict, const Error& error) {
  if (error.reason == Reason::kIllegalTransition) return NoSuchTransition(verdict, error);
  const bool too_large =
      error.code == Code::kResourceExhausted && error.reason == Reason::kNone;  // by gRPC
  const bool lost = error.reason == Reason::kStaleClaim;
  const bool starts = !verdict.starts.empty() && !lost;  // they may be what is wrong
  const bool unfit = error.code == Code::kInvalidArgument ||
                     error.reason == Reason::kNoSuchMachine || too_large || starts;
  if (unfit && (verdict.error_kind != "output" || starts)) {
    return Report(Failure("its report was refused: " + error.message, "output"));
  }
  if (unfit) {
    GiveBack();
    return shift_.GiveUp([&context = shift_.context, error] { return context.Fail(error); });
  }
  shift_.Say("the result of " + Name() + " is dropped: " + error.message);
}

void Assignment::NoSuchTransition(const Verdict& verdict, const Error& error) {
  const auto legal = LegalTransitions(*shift_.context.client, task_);
  const bool well = verdict.transition == "ok" && !verdict.named;
  if (legal && legal->size() == 1 && well && legal->front() != verdict.transition) {
    Verdict only = verdict;
    only.transition = legal->front();
    only.named = true;
    return Report(only);
  }
  GiveBack();
  const std::string node = task_.machine() + "/" + task_.node();
  const std::string known = legal ? "its transitions are: " + Join(*legal, ", ") : error.message;
  shift_.GiveUp([&context = shift_.context, node, known, wanted = verdict.transition] {
    return context.Fail(kRefused, node + " has no transition \"" + wanted + "\"; " + known,
                        "let the command's last line name one: {\"transition\": \"NAME\"}");
  });
}

void Assignment::GiveBack() {
  v1::RelinquishRequest request;
  request.set_namespace_(task_.namespace_());
  request.set_instance(task_.instance());
  request.set_claim(task_.claim());
  const auto reply = shift_.context.client->Relinquish(request);
  if (!reply) shift_.Say(Name() + " could not be given back: " + reply.error().message);
}

}  // namespace dfsmr::cli
