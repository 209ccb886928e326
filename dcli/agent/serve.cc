#include "dcli/agent/serve.h"

#include <algorithm>

#include "dcli/text/json.h"
#include "dcli/work/task_json.h"

namespace dfsmr::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLargestLine = 5 << 20;  // a report of 4 MiB, and what is around it
constexpr size_t kShownIdBytes = 100;     // of the id of no task

milliseconds Millis(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration);
}

}  // namespace

class ServeRun;

// One process, with the tasks in its hands.
class ServeProcess {
 public:
  explicit ServeProcess(ServePool& pool)
      : pool_(pool),
        idle_(pool.loop_),
        end_(pool.loop_),
        late_(pool.loop_),
        err_(masks_, [this](std::string line) { Log(LogStream::kErr, std::move(line)); }) {}

  void Begin();
  bool HasRoom() const {
    return !retiring_ && runs_.size() < pool_.worker_.concurrency && given_ < pool_.worker_.tasks;
  }
  bool idle() const { return runs_.empty(); }
  void Take(ServeRun* run, const v1::Task& task, const SecretValues& secrets);
  void Forget(ServeRun* run);
  void Cancel(const ServeRun& run);
  void KillFor(ServeRun* run);
  void Retire();
  const Masks& masks() const { return masks_; }

 private:
  void Started(pid_t pid);
  void TellBegin(ServeRun* run);
  void Output(bool err, std::string_view bytes);
  void Line(std::string_view line);
  bool TakeWord(std::string_view line);
  void Log(LogStream stream, std::string line);
  void Result(ServeRun* run, const std::vector<Member>& members);
  void Gone(const CommandEnd& end);
  void Rest();
  void EndInput();

  ServePool& pool_;
  Timer idle_;
  Timer end_;
  Timer late_;
  Masks masks_;
  Lines err_;
  std::unique_ptr<Folder> folder_;
  std::unique_ptr<Cgroup> cgroup_;
  std::string line_;                    // of its standard output, not ended
  std::map<uint64_t, ServeRun*> runs_;  // by number: the oldest first
  uint64_t given_ = 0;
  pid_t pid_ = 0;  // 0: it has not begun
  bool retiring_ = false;
  ServeRun* killed_for_ = nullptr;
  std::unique_ptr<Command> command_;
};

class ServeRun : public Run {
 public:
  ServeRun(Loop& loop, const v1::Task& task, RunEvents given)
      : events(std::move(given)),
        success_(task.phase() == "plan" ? "planned" : "ok"),
        patience_(loop),
        late_(loop) {}
  ~ServeRun() override {
    if (process != nullptr) process->Forget(this);
  }

  void Stop(milliseconds kill_after, bool kill) override {
    if (process == nullptr) return;
    if (kill || kill_after.count() <= 0) return process->KillFor(this);
    if (!cancelled_) process->Cancel(*this);
    cancelled_ = true;
    const SteadyTime at = std::chrono::steady_clock::now() + kill_after;
    if (patience_.set() && at >= patience_at_) return;
    patience_at_ = at;
    patience_.Set(at, [this] {
      if (process != nullptr) process->KillFor(this);
    });
  }

  std::optional<Progress> TakeProgress() override {
    if (!progressed_) return std::nullopt;
    progressed_ = false;
    return std::exchange(progress_, Progress());
  }

  void Progressed(const Progress& said) {
    if (said.checkpoint) checkpoint_ = *said.checkpoint;
    progress_.Merge(said);
    progressed_ = true;
    events.progressed();
  }

  void End(RunEnd end) {
    process = nullptr;
    if (end.verdict.checkpoint.empty()) end.verdict.checkpoint = checkpoint_;
    const auto ended = std::move(events.ended);
    ended(end);
  }
  // Fails before whoever began it has a handle of it.
  void EndLate(RunEnd end) {
    late_.SetIn(milliseconds(0), [this, end = std::move(end)] { End(end); });
  }

  const std::string& success() const { return success_; }
  std::chrono::duration<double> Lasted() const { return std::chrono::steady_clock::now() - begun_; }

  RunEvents events;
  ServeProcess* process = nullptr;
  uint64_t number = 0;

 private:
  const std::string success_;
  const SteadyTime begun_ = std::chrono::steady_clock::now();
  Timer patience_;
  Timer late_;
  SteadyTime patience_at_;
  bool cancelled_ = false;
  Progress progress_;
  bool progressed_ = false;
  std::string checkpoint_;
};

void ServeProcess::Begin() {
  const auto refuse = [this](const Error& error) {
    late_.SetIn(milliseconds(0),
                [this, error] { Gone({.started = false, .failure = error.message}); });
  };
  auto folder = Folder::Make(pool_.surroundings_.folders);
  if (!folder) return refuse(folder.error());
  folder_ = std::move(*folder);
  auto launch = LaunchOf(pool_.surroundings_, pool_.worker_, nullptr, *folder_);
  if (!launch) return refuse(launch.error());
  pool_.variables_.HideBy(&masks_);
  const auto given = GiveSecrets(pool_.worker_, pool_.variables_, &*launch);
  if (!given) return refuse(given.error());
  const std::string name = folder_->path().substr(folder_->path().rfind('/') + 1);
  const Cgroups& groups = pool_.surroundings_.cgroups;
  cgroup_ = groups.Make("serve-" + name, pool_.worker_.limits);
  if (cgroup_ == nullptr && groups.limits() && pool_.worker_.limits.any()) {
    return refuse(
        {Code::kInternal, Reason::kNone, "no control group with the worker's limits can be made"});
  }
  if (cgroup_ != nullptr) launch->cgroup = cgroup_->path();
  auto command =
      Command::Start(pool_.loop_, pool_.keeper_(), *launch,
                     {.started = [this](pid_t pid) { Started(pid); },
                      .output = [this](bool err, std::string_view bytes) { Output(err, bytes); },
                      .gone = [this](const CommandEnd& end) { Gone(end); }});
  if (!command) return refuse(command.error());
  command_ = std::move(*command);
}

void ServeProcess::Take(ServeRun* run, const v1::Task& task, const SecretValues& secrets) {
  run->process = this;
  run->number = ++given_;
  const Cgroups& groups = pool_.surroundings_.cgroups;
  if (given_ == 1 && pool_.worker_.limits.any() && !groups.limits()) {
    run->events.line(LogStream::kAgent,
                     "memory, cpu and processes are not limited here: " + groups.why_not());
  }
  runs_[run->number] = run;
  if (pid_ != 0) TellBegin(run);
  idle_.Clear();
  secrets.HideBy(&masks_);
  std::string line = AgentTaskJson(task);
  line.pop_back();
  if (command_ == nullptr) return;
  command_->Write("{\"type\":\"task\",\"id\":\"" + std::to_string(run->number) +
                  "\",\"task\":" + line + "}\n");
}

void ServeProcess::Started(pid_t pid) {
  pid_ = pid;
  for (const auto& [number, run] : runs_) TellBegin(run);
}

void ServeProcess::TellBegin(ServeRun* run) {
  run->events.line(LogStream::kAgent, "begun by the process that serves it, pid " +
                                          std::to_string(pid_) + ", as its task " +
                                          std::to_string(run->number));
}

// Its owner wants no more of it.
void ServeProcess::Forget(ServeRun* run) {
  runs_.erase(run->number);
  if (killed_for_ == run) killed_for_ = nullptr;
  Rest();
}

void ServeProcess::Cancel(const ServeRun& run) {
  if (command_ == nullptr) return;
  command_->Write("{\"type\":\"cancel\",\"id\":\"" + std::to_string(run.number) + "\"}\n");
}

void ServeProcess::KillFor(ServeRun* run) {
  retiring_ = true;
  if (killed_for_ == nullptr) killed_for_ = run;
  if (command_ != nullptr) command_->Kill();
}

// Nothing in hand: it ends after a while, or at once.
void ServeProcess::Rest() {
  if (!runs_.empty()) return;
  if (given_ >= pool_.worker_.tasks || pool_.closed_) retiring_ = true;
  if (retiring_) return EndInput();
  idle_.SetIn(Millis(pool_.worker_.idle), [this] { Retire(); });
}

void ServeProcess::Retire() {
  retiring_ = true;
  if (runs_.empty()) EndInput();
}

// The end of its input, then SIGTERM, then SIGKILL, with kill_after between them.
void ServeProcess::EndInput() {
  if (command_ == nullptr || end_.set()) return;
  command_->CloseInput();
  const milliseconds wait = Millis(pool_.worker_.kill_after);
  end_.SetIn(wait, [this, wait] { command_->Stop(wait); });
}

void ServeProcess::Output(bool err, std::string_view bytes) {
  if (err) return err_.Add(bytes);
  CutLines(bytes, &line_, [this](std::string_view line) { Line(line); });
  if (line_.size() <= kLargestLine) return;
  Log(LogStream::kOut, masks_.Hide(line_));
  line_.clear();
}

void ServeProcess::Line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.empty() && !TakeWord(line)) Log(LogStream::kOut, masks_.Hide(line));
}

void ServeProcess::Log(LogStream stream, std::string line) {
  constexpr size_t kLargest = 16 << 10;
  if (runs_.empty()) return;
  const auto& sink = runs_.begin()->second->events.line;
  for (; line.size() > kLargest; line.erase(0, kLargest)) sink(stream, line.substr(0, kLargest));
  sink(stream, std::move(line));
}

// True when the line is a result or progress of a task.
bool ServeProcess::TakeWord(std::string_view line) {
  if (line.front() != '{' || !IsJsonObject(line)) return false;
  const std::vector<Member> members = Members(line);
  const Member* type = Find(members, "type");
  const Member* id = Find(members, "id");
  if (type == nullptr || id == nullptr) return false;
  const bool result = type->value == "\"result\"";
  if (!result && type->value != "\"progress\"") return false;
  const std::string name = id->value.starts_with('"') ? Unquoted(id->value) : id->value;
  const auto found = std::ranges::find_if(
      runs_, [&name](const auto& one) { return std::to_string(one.first) == name; });
  if (found == runs_.end()) {
    // Progress may be late, but each task has one result.
    if (result) {
      Log(LogStream::kAgent, masks_.Hide("a result of no task in the hands of this process, id " +
                                         id->value.substr(0, kShownIdBytes)));
    }
    return true;
  }
  if (result) {
    Result(found->second, members);
    return true;
  }
  Progress said = ProgressOf(line, "a progress line of the process that serves it");
  for (const std::string& mask : said.masks) masks_.Add(mask);
  said.masks.clear();
  if (!said.wrong.empty()) found->second->events.line(LogStream::kAgent, masks_.Hide(said.wrong));
  said.wrong.clear();
  if (said.note) said.note = masks_.Hide(*said.note);
  if (said.checkpoint) said.checkpoint = masks_.HideInJson(*said.checkpoint);
  found->second->Progressed(said);
  return true;
}

void ServeProcess::Result(ServeRun* run, const std::vector<Member>& members) {
  std::vector<Member> report;
  for (const Member& member : members) {
    if (member.key != "type" && member.key != "id") report.push_back(member);
  }
  const Member* error = Find(report, "error");
  Verdict base;
  const bool failed = error != nullptr && error->value.size() > 2 && error->value[0] == '"';
  base.transition = failed ? "error" : run->success();
  const std::string object = masks_.HideInJson(ObjectOf(report));
  RunEnd end;
  constexpr std::string_view kWhat = "its result";
  end.verdict = VerdictTold(object, base, kWhat);
  if (end.verdict.error.starts_with("its result is no report: ")) {
    end.verdict.error_kind = "output";
  }
  end.well = end.verdict.named || end.verdict.transition != "error";
  end.status = "the transition " + end.verdict.transition;
  run->events.line(LogStream::kAgent,
                   "ended with " + end.status + ", " + SecondsText(run->Lasted()));
  runs_.erase(run->number);
  if (killed_for_ == run) killed_for_ = nullptr;
  run->End(std::move(end));
  Rest();
}

void ServeProcess::Gone(const CommandEnd& end) {
  retiring_ = true;
  err_.End();
  if (!line_.empty()) Line(std::exchange(line_, ""));
  const std::string status = !end.started ? end.failure
                             : end.exited ? StatusText(end.status)
                                          : "its warden was killed";
  const bool oom = cgroup_ != nullptr && cgroup_->OutOfMemory();
  ServeRun* const killed_for = killed_for_;
  const auto runs = std::exchange(runs_, {});
  for (const auto& [number, run] : runs) {
    RunEnd ended;
    ended.status = status;
    if (!end.started) {
      ended.how = RunEnd::How::kRefused;
      ended.why = status;
    } else if (killed_for != nullptr && run != killed_for) {
      ended.how = RunEnd::How::kGivenBack;
      ended.why = "another task of its process had to be stopped";
    } else {
      ended.verdict =
          Failure("the process that serves it has ended: " + status, oom ? "oom" : "crashed");
    }
    run->events.line(LogStream::kAgent, "the process that serves it has ended: " + status + ", " +
                                            SecondsText(run->Lasted()));
    run->End(std::move(ended));
  }
  pool_.Remove(this);
}

ServePool::ServePool(Loop& loop, std::function<Keeper&()> keeper, const Surroundings& surroundings,
                     const Worker& worker)
    : loop_(loop), keeper_(std::move(keeper)), surroundings_(surroundings), worker_(worker) {}

ServePool::~ServePool() = default;

bool ServePool::NeedsProcess() const {
  return std::ranges::none_of(processes_, [](const auto& process) { return process->HasRoom(); });
}

std::unique_ptr<Run> ServePool::Begin(const v1::Task& task, const SecretValues& secrets,
                                      RunEvents events) {
  auto run = std::make_unique<ServeRun>(loop_, task, std::move(events));
  variables_.Add(secrets);
  const auto filled = WithSecrets(task, secrets);
  if (!filled) {
    run->EndLate({.how = RunEnd::How::kRefused, .why = filled.error().message});
    return run;
  }
  if (task.middleware_size() > 0) {
    run->EndLate({.how = RunEnd::How::kEnded,
                  .verdict = Failure("a worker of mode: serve takes no middleware, and this task "
                                     "is to be wrapped in \"" +
                                     task.middleware(0) + "\""),
                  .status = "its middleware"});
    return run;
  }
  const auto free =
      std::ranges::find_if(processes_, [](const auto& process) { return process->HasRoom(); });
  if (free != processes_.end()) {
    (*free)->Take(run.get(), *filled, secrets);
    return run;
  }
  processes_.push_back(std::make_unique<ServeProcess>(*this));
  processes_.back()->Begin();
  processes_.back()->Take(run.get(), *filled, secrets);
  return run;
}

void ServePool::Close() {
  closed_ = true;
  for (const auto& process : processes_) process->Retire();
}

void ServePool::Remove(ServeProcess* process) {
  std::erase_if(processes_, [process](const auto& one) { return one.get() == process; });
  if (processes_.empty() && on_empty_) on_empty_();
}

}  // namespace dfsmr::cli
