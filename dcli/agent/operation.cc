#include "dcli/agent/operation.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdio>

#include "dcli/text/values.h"
#include "dcli/work/task_json.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookAtProgress{300};  // between two looks at DFSMR_PROGRESS
constexpr milliseconds kHoldBack{120};        // what may be the beginning of something hidden
constexpr size_t kOutBytes = 4 << 20;         // the largest report that a message can carry
constexpr size_t kErrBytes = 4 << 10;

std::string MebibytesText(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

}  // namespace

std::string SecondsText(std::chrono::duration<double> time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1fs", time.count());
  return text;
}

Operation::Operation(Loop& loop, Keeper& keeper, const Surroundings& surroundings,
                     const Worker& worker, const v1::Task& task, SecretValues secrets,
                     RunEvents events)
    : loop_(loop),
      surroundings_(surroundings),
      worker_(worker),
      task_(task),
      secrets_(std::move(secrets)),
      events_(std::move(events)),
      out_lines_(masks_,
                 [this](std::string line) { events_.line(LogStream::kOut, std::move(line)); }),
      err_lines_(masks_,
                 [this](std::string line) { events_.line(LogStream::kErr, std::move(line)); }),
      out_(kOutBytes),
      err_(kErrBytes),
      begun_(steady_clock::now()),
      look_(loop),
      release_(loop),
      late_(loop) {
  secrets_.HideBy(&masks_);
  const auto begun = Begin(keeper);
  if (begun) return;
  // Whoever made this operation has no handle of it yet.
  late_.SetIn(milliseconds(0), [this, error = begun.error()] {
    if (error.code ==
        Code::kNotFound) {  // no such middleware: another agent may not have it either
      End({.how = RunEnd::How::kEnded, .verdict = Failure(error.message), .status = error.message});
    } else {
      End({.how = RunEnd::How::kRefused, .why = error.message});
    }
  });
}

Operation::~Operation() = default;

Result<Ok> Operation::MakeCgroup(Launch* launch) {
  const Cgroups& groups = surroundings_.cgroups;
  if (worker_.limits.any() && !groups.limits()) {
    Say("memory, cpu and processes are not limited here: " + groups.why_not());
  }
  cgroup_ = groups.Make(
      std::to_string(task_.visit()) + "-" + folder_->path().substr(folder_->path().rfind('/') + 1),
      worker_.limits);
  if (cgroup_ != nullptr) {
    launch->cgroup = cgroup_->path();
  } else if (groups.limits() && worker_.limits.any()) {
    return Error{Code::kInternal, Reason::kNone,
                 "no control group with the worker's limits can be made"};
  }
  return Ok{};
}

Result<Ok> Operation::Begin(Keeper& keeper) {
  auto folder = Folder::Make(surroundings_.folders);
  if (!folder) return folder.error();
  folder_ = std::move(*folder);
  progress_file_ = std::make_unique<ProgressFile>(folder_->progress());
  auto launch = LaunchOf(surroundings_, worker_, &task_, *folder_);
  if (!launch) return launch.error();
  const auto filled = WithSecrets(task_, secrets_);
  if (!filled) return filled.error();
  if (const auto given = GiveSecrets(worker_, secrets_, &*launch); !given) return given;
  if (const auto made = MakeCgroup(&*launch); !made) return made;
  auto command =
      Command::Start(loop_, keeper, *launch,
                     {.started = [this](pid_t pid) { Started(pid); },
                      .output = [this](bool err, std::string_view bytes) { Output(err, bytes); },
                      .gone = [this](const CommandEnd& end) { Gone(end); }});
  if (!command) return command.error();
  command_ = std::move(*command);
  command_->Write(AgentTaskJson(*filled));
  command_->CloseInput();
  WatchProgress();
  return Ok{};
}

void Operation::Started(pid_t pid) {
  begun_ = steady_clock::now();
  Say("begun, pid " + std::to_string(pid));
}

// The command may have said that something is to be hidden before it wrote it.
void Operation::Output(bool err, std::string_view bytes) {
  LookAtProgress(false);
  (err ? err_ : out_).Add(bytes);
  Lines& lines = err ? err_lines_ : out_lines_;
  lines.Add(bytes);
  if (lines.holds() && !release_.set()) release_.SetIn(kHoldBack, [this] { Release(); });
}

void Operation::Release() {
  out_lines_.Release();
  err_lines_.Release();
}

void Operation::WatchProgress() {
  look_.SetIn(kLookAtProgress, [this] {
    LookAtProgress(false);
    WatchProgress();
  });
}

void Operation::LookAtProgress(bool last) {
  auto said = progress_file_->Read(last);
  if (!said) return;
  for (const std::string& mask : said->masks) masks_.Add(mask);
  said->masks.clear();
  if (!said->wrong.empty()) Say(masks_.Hide(said->wrong));
  said->wrong.clear();
  if (said->note) said->note = masks_.Hide(*said->note);
  if (said->checkpoint) {
    said->checkpoint = masks_.HideInJson(*said->checkpoint);
    checkpoint_ = *said->checkpoint;
  }
  if (!said->progress && !said->note && !said->checkpoint) return;
  progress_.Merge(*said);
  progressed_ = true;
  if (!last) events_.progressed();
}

std::optional<Progress> Operation::TakeProgress() {
  if (!progressed_) return std::nullopt;
  progressed_ = false;
  return std::exchange(progress_, Progress());
}

void Operation::Stop(milliseconds kill_after, bool) {
  if (command_ != nullptr) command_->Stop(kill_after);
}

std::string Operation::EndText(const CommandEnd& end) const {
  const std::string status = end.exited ? StatusText(end.status) : "its warden was killed";
  uint64_t memory = static_cast<uint64_t>(std::max<int64_t>(end.memory, 0)) << 10;
  if (cgroup_ != nullptr) memory = cgroup_->Peak().value_or(memory);
  return status + ", " + SecondsText(steady_clock::now() - begun_) + ", CPU " +
         SecondsText(end.cpu) + ", at most " + MebibytesText(memory);
}

Verdict Operation::VerdictOfEnd(const CommandEnd& end) {
  if (!end.exited) return Failure("the process that kept it was killed", "crashed");
  if (cgroup_ != nullptr && cgroup_->OutOfMemory()) {
    const uint64_t most = worker_.limits.memory.value_or(0);
    return Failure("out of memory: it used more than " + MebibytesText(most), "oom");
  }
  const auto report = folder_->Report(kOutBytes);
  if (!report) return Failure(report.error().message, "output");
  const bool filed = report->find_first_not_of(" \t\r\n") != report->npos;
  const bool cut = out_.first() == '{' && LastLine(out_.text()).data() == out_.text().data();
  if (!filed && cut) {
    return Failure("the last line of the command's output is larger than any report may be",
                   "output");
  }
  return VerdictOf({.status = end.status,
                    .out = out_.text(),
                    .err = err_.text(),
                    .success = task_.phase() == "plan" ? "planned" : "ok",
                    .report = *report,
                    .exits = &worker_.exits});
}

void Operation::Mask(Verdict* verdict) const {
  if (masks_.empty()) return;
  for (std::string* text : {&verdict->error, &verdict->error_kind, &verdict->transition}) {
    *text = masks_.Hide(*text);
  }
  for (std::string* json : {&verdict->params, &verdict->output, &verdict->checkpoint}) {
    *json = masks_.HideInJson(*json);
  }
  for (Child& child : verdict->children) child.params = masks_.HideInJson(child.params);
  for (StartCall& start : verdict->starts) masks_.HideIn(&start.request);
}

void Operation::Gone(const CommandEnd& end) {
  look_.Clear();
  release_.Clear();
  LookAtProgress(true);
  out_lines_.End();
  err_lines_.End();
  if (!end.started) {
    return End({.how = RunEnd::How::kRefused,
                .why = end.failure.empty() ? "the process that keeps it was killed" : end.failure});
  }
  RunEnd ended;
  ended.status = end.exited ? StatusText(end.status) : "its warden was killed";
  ended.verdict = VerdictOfEnd(end);
  if (ended.verdict.checkpoint.empty()) ended.verdict.checkpoint = checkpoint_;
  Mask(&ended.verdict);
  const bool exited_well = end.exited && WIFEXITED(end.status) && WEXITSTATUS(end.status) == 0;
  ended.well = (exited_well && ended.verdict.error_kind != "output") || ended.verdict.named;
  Say(EndText(end));
  End(std::move(ended));
}

void Operation::End(RunEnd end) {
  const auto ended = std::move(events_.ended);
  ended(end);
}

}  // namespace dfsmr::cli
