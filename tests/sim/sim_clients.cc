// What clients and workers ask for in a run, drawn at random, and what they must be answered.
#include "fsm/base/json.h"
#include "tests/sim/definitions.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

constexpr std::string_view kOutput = R"({"v":1,"list":[1,2]})";

}  // namespace

std::string Sim::AnyMachine() {
  const bool plan = plans_ && (!machines_ || random_.Chance(50));
  return (plan ? "p" : "m") + std::to_string(random_.Below(3));
}

// One of those started here, or of those that they started.
std::string Sim::AnyId() {
  if (!hands_.empty() && random_.Chance(30)) return random_.Of(hands_).instance;
  const std::string id = "i" + std::to_string(random_.Below(plans_ ? 12 : 30));
  if (!plans_ || random_.Chance(80)) return id;
  return id + "/s" + std::to_string(random_.Below(4)) + "/" + std::to_string(random_.Below(3));
}

// A step that has failed, or one of the tasks that were handed out, or any.
std::pair<std::string, std::string> Sim::AnyStep() {
  if (!failed_.empty() && random_.Chance(30)) return random_.Of(failed_);
  if (hands_.empty() || random_.Chance(30)) {
    return {AnyId(), "s" + std::to_string(random_.Below(5))};
  }
  const Task& task = random_.Of(hands_);
  return {task.instance, task.node.substr(0, task.node.find('/'))};
}

bool Sim::Finished(const std::string& id) const { return finished_.contains(id); }

void Sim::Command(Asked& engine) {
  const size_t dice = random_.Below(200);
  if (dice < 32) {
    StartOne(engine);
  } else if (dice < 36) {
    RetryStart(engine);
  } else if (dice < 88) {
    PollOne(engine);
  } else if (dice < 150) {
    UseTask(engine);
  } else if (dice < 166) {
    Operate(engine);
  } else if (dice < 184) {
    Control(engine);
  } else if (dice < 192) {
    Streams(engine);
  } else if (dice < 196) {
    (void)engine.Settle("ns", AnyId());
  } else if (dice < 199) {
    Redefine(engine);
  }
}

void Sim::StartOne(Asked& engine) {
  StartArgs args{.ns = "ns", .machine = AnyMachine(), .id = AnyId()};
  if (machines_ && names_ && of_names_.Chance(15)) args.machine = LongName('x');
  // What retention has dropped would begin a second life under the same name.
  if (On(Fault::kRetention) && Finished(args.id)) args.id = "i" + std::to_string(random_.Next());
  args.spec.params = random_.Chance(45)   ? R"({"list":[1,2],"flag":true,"who":"w1"})"
                     : random_.Chance(90) ? R"({"list":[],"flag":false,"who":"w2"})"
                                          : R"({"list":[1,2,3,4,5,6,7,8,9,10,11,12],"flag":true})";
  args.priority = random_.Priority();
  if (random_.Chance(50)) args.spec.labels["kind"] = random_.Chance(50) ? "a" : "b";
  if (random_.Chance(15)) args.start_at = world_.now() + Duration(1'000 * random_.Below(5'000));
  if (random_.Chance(8)) args.hold = true;
  if (random_.Chance(8)) {
    args.start_before =
        std::max(world_.now(), args.start_at) + Duration(random_.Below(9'000'000));
  }
  if (random_.Chance(10)) args.after = {{AnyId(), random_.Chance(50)}};
  Join(&args);
  AskForLimits(&args);
  auto started = engine.Start(args);
  if (!started) {
    if (started.error().reason == Reason::kInstanceExists) Hit(Fault::kConflictingStart);
    return;
  }
  engine.AfterCommit([this, args, created = started->created] { Know(args, created); });
}

// A start has been acknowledged.
void Sim::Know(const StartArgs& args, bool created) {
  if (created) created_[args.id] = args;
  const auto known = started_.find(args.id);
  Expect(known == started_.end() || (known->second.machine == args.machine &&
                                     known->second.spec.params == args.spec.params),
         args.id + " was started as another");
  started_[args.id] = args;
}

// The client that did not hear the answer, or does not trust it.
void Sim::RetryStart(Asked& engine) {
  if (started_.empty() || !On(Fault::kRetriedStart)) return;
  auto which = started_.begin();
  std::advance(which, random_.Below(started_.size()));
  const StartArgs& args = which->second;
  if (On(Fault::kRetention) && Finished(args.id)) return;
  auto again = engine.Start(args);
  Hit(Fault::kRetriedStart);
  engine.AfterCommit([this, id = args.id, same = again && !again->created] {
    Expect(same, "a retried start was not recognised: " + id);
  });
}

void Sim::Receive(std::vector<Task> tasks) {
  for (Task& task : tasks) {
    Expect(!task.dry_run, "a worker was given work of a dry run: " + task.instance);
    if (task.deadline == kNever) {
      Expect(++told_[{task.instance, task.visit}] <= 1 + frees_[task.instance],
             "an at-most-once visit was handed out twice: " + task.instance + " visit " +
                 std::to_string(task.visit));
    }
    Expect(claims_.insert(task.claim).second, "a claim was told twice: " + task.claim);
    Note("task " + task.instance + " " + task.node + " visit " + std::to_string(task.visit) +
         " claim " + task.claim);
    CheckLeftOut(task);
    if (!task.event.empty()) {
      events_given_[{task.instance, task.visit}] = {task.event, task.event_data};
    }
    hands_.push_back(std::move(task));
  }
  while (hands_.size() > 60) hands_.erase(hands_.begin() + static_cast<long>(random_.Below(30)));
}

// In a list the output of a step that `when` left out is null.
void Sim::CheckLeftOut(const Task& task) {
  const auto left = json::Member(task.node_params, "left");
  const auto known = started_.find(task.instance);
  if (!left || known == started_.end()) return;
  const auto flag = json::Member(known->second.spec.params, "flag");
  Expect(!flag || *flag == "true" || json::Same(*left, "[null,null]"),
         task.instance + " left steps out, and their outputs are " + std::string(*left));
}

std::string Sim::AnyWorker() { return random_.Of<std::string>({"w", "w1", "w2"}); }

std::vector<std::string> Sim::AnyCapabilities() {
  return random_.Of<std::vector<std::string>>({{}, {"c1"}, {"c1", "c2"}, {"c1", "c2"}});
}

void Sim::PollOne(Asked& engine) {
  PollArgs args{.filter = {.ns = "ns"}, .worker = AnyWorker()};
  args.filter.capabilities = AnyCapabilities();
  if (random_.Chance(30)) args.filter.machine = AnyMachine();
  if (!plans_ && random_.Chance(20)) args.filter.node = "n" + std::to_string(random_.Below(3));
  if (more_ && of_more_.Chance(30)) args.filter.queue = AnyQueue(of_more_);
  if (plans_ && random_.Chance(20)) args.filter.action = "x" + std::to_string(random_.Below(6));
  args.max_tasks = 1 + static_cast<int32_t>(random_.Below(6));
  if (random_.Chance(40)) args.until = world_.now() + 2s;
  const bool lost = Draw(Fault::kUndelivered, 15);
  auto poll = engine.Poll(args, [this, lost](std::vector<Task> tasks) {
    if (lost) {
      if (!tasks.empty()) Hit(Fault::kUndelivered);
      undelivered_.insert(undelivered_.end(), tasks.begin(), tasks.end());
    } else {
      Receive(std::move(tasks));
    }
  });
  REQUIRE(poll);
  if (*poll != 0) polls_.push_back(*poll);
  if (!polls_.empty() && random_.Chance(20)) (void)engine.CancelPoll(random_.Of(polls_));
  if (!undelivered_.empty() && random_.Chance(50)) {
    engine.Undelivered(undelivered_, /*perhaps=*/random_.Chance(30));
    undelivered_.clear();
  }
}

void Sim::UseTask(Asked& engine) {
  if (hands_.empty()) return;
  const size_t which = random_.Below(hands_.size());
  const Task task = hands_[On(Fault::kReordered) ? which : 0];
  if (On(Fault::kReordered) && which > 0) Hit(Fault::kReordered);
  if (Draw(Fault::kDeadWorker, 10)) {
    Hit(Fault::kDeadWorker);
    std::erase_if(hands_, [&](const Task& one) { return one.claim == task.claim; });
    return;
  }
  if (task.deadline < world_.now()) {
    if (!On(Fault::kStalledWorker)) return;
    Hit(Fault::kStalledWorker);
  }
  // Without repetition a task is reported once.
  const bool repeats = Draw(Fault::kRepeated, 50);
  const size_t dice = random_.Below(100);
  if (dice < 70) {
    ReportTask(engine, task, WordFor(task));
  } else if (dice < 82) {
    const std::optional<Duration> by =
        random_.Chance(50) ? std::optional<Duration>(Duration(random_.Below(45'000'000)))
                           : std::nullopt;
    (void)engine.Extend("ns", task.instance, task.claim, by,
                        static_cast<double>(random_.Below(5)) / 4);
    return;
  } else if (dice < 90) {
    auto outcome = engine.Relinquish("ns", task.instance, task.claim, "");
    // One that has stopped refuses it, and knows for its resume.
    if (!outcome && outcome.error().reason == Reason::kStaleClaim) ++frees_[task.instance];
    if (!outcome) return;
    ++frees_[task.instance];
    engine.AfterCommit([this, claim = task.claim] { relinquished_.insert(claim); });
  } else {
    Lie(engine, task);
    return;
  }
  if (!repeats) std::erase_if(hands_, [&](const Task& one) { return one.claim == task.claim; });
}

// Claims that are not what they say.
void Sim::Lie(Asked& engine, const Task& task) {
  if (Draw(Fault::kWrongInstance, 50)) {
    const std::string other = AnyId();
    auto answer = engine.Report("ns", other, {.transition = "ok", .claim = task.claim});
    Expect(!answer || other == task.instance,
           "a claim of " + task.instance + " was accepted for " + other);
    Hit(Fault::kWrongInstance);
    return;
  }
  if (!On(Fault::kStaleClaim)) return;
  // The claim of the next visit, or of another serial, is nobody's yet.
  const size_t dash = task.claim.find('-');
  const size_t second = task.claim.find('-', dash + 1);
  const uint64_t serial = std::strtoull(task.claim.c_str() + second + 1, nullptr, 16);
  const std::string tail = task.claim.substr(task.claim.rfind('-'));
  char forged[80];
  std::snprintf(forged, sizeof forged, "%lx-%lx-%lx%s", task.visit + random_.Below(2),
                world_.engine().epoch(), serial + 1'000'000, tail.c_str());
  auto answer = engine.Report("ns", task.instance, {.transition = "ok", .claim = forged});
  Expect(!answer, "a forged claim was accepted: " + std::string(forged));
  Hit(Fault::kStaleClaim);
}

std::string Sim::WordFor(const Task& task) {
  if (Draw(Fault::kWrongTransition, 5)) {
    return random_.Of<std::string>({"none", "dfsmr.timeout", "dfsmr.exhausted", "retry", "skip"});
  }
  if (task.phase == "plan") return random_.Chance(80) ? "planned" : "error";
  if (busy_ && of_times_.Chance(90)) return "back";
  if (task.phase.empty()) {
    return random_.Of<std::string>({"ok", "ok", "ok", "ok", "back", "fail", "error", "error"});
  }
  const size_t dice = random_.Below(100);
  const size_t errors = drill_ != DrillKind::kNone ? 35 : On(Fault::kSkip) ? 25 : 10;
  return dice < errors ? "error" : dice < errors + 20 ? "suspend" : "ok";
}

// The model reads in a plan's feed what a report said besides its kind.
void Sim::FailAs(ReportArgs* args) {
  args->error = "broke";
  args->error_kind = random_.Of<std::string>({"", "oom", "exit"});
  args->fatal = random_.Chance(10);
  if (args->fatal) args->error += " for good";
  if (!random_.Chance(15)) return;
  args->retry_after = Duration(random_.Below(3'000'000));
  args->error += ", again in " + std::to_string(args->retry_after->count());
}

ReportArgs Sim::ArgsFor(const Task& task, const std::string& transition,
                        std::vector<rows::ChildStart>* children) {
  ReportArgs args{.transition = transition, .claim = task.claim};
  if (transition == "planned") {
    args.output = R"({"flow":")" + RandomSteps(random_) + R"("})";
  } else if (task.phase.empty()) {
    args.output = random_.Chance(20) ? "{}" : "";
    if (random_.Chance(50)) args.params = "{\"n\":" + std::to_string(random_.Below(4)) + "}";
    if (transition == "error") FailAs(&args);
  } else if (transition == "ok" && random_.Chance(90)) {
    args.output = random_.Chance(80) ? std::string(kOutput) : R"({"v":[2],"list":3})";
    if (task.phase == "finalize") args.output = R"({"finalized":true})";
  } else if (transition == "error") {
    FailAs(&args);
  } else if (transition == "suspend") {
    if (random_.Chance(60)) args.wake_after = Duration(random_.Below(4'000'000));
    if (args.wake_after) args.error = "wakes in " + std::to_string(args.wake_after->count());
    if (drill_ == DrillKind::kConditions && of_drills_.Chance(50)) args.output = kOutput;
    if (Draw(Fault::kChildren, 50)) {
      children->resize(1 + random_.Below(3));
      for (rows::ChildStart& child : *children) {
        child.machine = random_.Of<std::string>({"leaf", "twig", "m"});
        if (random_.Chance(5)) child.id = "i0";  // it may exist already
        if (random_.Chance(50)) child.spec.labels["kind"] = random_.Chance(50) ? "a" : "b";
      }
      args.children = children->size();
      args.error += " children";
      args.concurrency = static_cast<uint32_t>(random_.Below(3));
    }
  }
  return args;
}

// What a report starts: of machines that may be unknown, with ids that may be taken, by others of
// the list too.
std::vector<StartArgs> Sim::StartsFor() {
  std::vector<StartArgs> starts;
  if (!Draw(Fault::kStarts, 25)) return starts;
  starts.resize(1 + random_.Below(3));
  for (StartArgs& start : starts) {
    start.ns = "ns";
    start.machine = random_.Chance(95) ? AnyMachine() : "nowhere";
    if (random_.Chance(60)) start.id = AnyId();
    if (!start.id.empty() && random_.Chance(20)) start.id = starts.front().id;
    if (On(Fault::kRetention) && Finished(start.id)) start.id.clear();
    start.spec.params =
        random_.Chance(80) ? R"({"list":[1,2],"flag":true})" : R"({"list":[],"flag":false})";
    const std::string& first = starts.front().id;
    if (!first.empty() && start.id != first && random_.Chance(20)) start.after = {{first, true}};
  }
  return starts;
}

void Sim::ReportTask(Asked& engine, const Task& task, const std::string& transition) {
  std::vector<rows::ChildStart> children;
  const ReportArgs args = ArgsFor(task, transition, &children);
  std::vector<StartArgs> starts = StartsFor();
  const auto before = accepted_.find(task.claim);
  // What is started at a resume, by a report that came before it, must be possible then.
  const bool late = before == accepted_.end() && engine.IsOver(task);
  for (size_t i = 0; late && i < starts.size(); ++i) {
    starts[i].machine = plans_ ? "p0" : "m0";
    starts[i].id.clear();
    starts[i].after.clear();
  }
  auto answer = engine.Report("ns", task.instance, args, children, starts);
  const bool repeats = before != accepted_.end() && before->second.transition == transition;
  if (!answer) {
    if (answer.error().reason == Reason::kIllegalTransition) Hit(Fault::kWrongTransition);
    if (answer.error().reason == Reason::kStaleClaim) Hit(Fault::kStaleClaim);
    const bool may = !repeats || args.children > 0 || args.wake_after ||
                     (On(Fault::kRetention) && answer.error().code == Code::kNotFound);
    if (may) return;
    engine.AfterCommit([this, task, transition, error = answer.error()] {
      Expect(false, "a repeated report was refused: " + task.instance + " " + transition + ": " +
                        error.message);
    });
    return;
  }
  Note("report " + task.instance + " visit " + std::to_string(task.visit) + " " + transition +
       (answer->repeated ? ", again" : "") + " claim " + task.claim);
  if (answer->repeated) Hit(Fault::kRepeated);
  if (args.children > 0) Hit(Fault::kChildren);
  if (transition == "planned") Hit(Fault::kPlanner);
  Expect(!relinquished_.contains(task.claim) || answer->repeated,
         "a relinquished claim was accepted: " + task.claim);
  if (!starts.empty() && !answer->repeated) Hit(Fault::kStarts);
  engine.AfterCommit([this, task, transition, starts, answer = *answer] {
    CheckAnswer(task, transition, answer);
    for (size_t i = 0; i < starts.size() && !answer.repeated && answer.started; ++i) {
      StartArgs one = starts[i];
      one.id = (*answer.started)[i].id;
      Know(one, (*answer.started)[i].created);
    }
  });
}

// Told once; the second time it must be the same.
void Sim::CheckAnswer(const Task& task, const std::string& transition, Answer answer) {
  const bool repeated = std::exchange(answer.repeated, false);
  const auto before = accepted_.find(task.claim);
  if (before == accepted_.end()) {
    const auto of = drained_.find(task.claim);
    const bool in_hand = of != drained_.end() && *of->second > 0 && *of->second < step_;
    // What has timed out no longer counts, also when the clock goes back behind its deadline.
    Expect(!in_hand || task.deadline < std::max(latest_, world_.now()),
           "a stream was told that it is drained with " + task.claim + " in hand");
    accepted_[task.claim] = {task.instance, transition, answer};
    return;
  }
  Expect(repeated && before->second.transition == transition,
         "a claim was accepted twice: " + task.claim);
  Expect(answer == before->second.answer,
         "a repeated report got another answer: " + task.claim);
}

}  // namespace dfsmr
