// What operators ask for in a run: calls without a claim, orders to instances, streams that come
// and go, and definitions that change.
#include "tests/sim/definitions.h"
#include "tests/sim/sim.h"

namespace dfsmr {

// Calls without a claim.
void Sim::Operate(Asked& engine) {
  if (!On(Fault::kOperator)) return;
  if (plans_ && random_.Chance(70)) return OperatePlan(engine);
  const std::string id = AnyId();
  if (Draw(Fault::kForce, 30)) {
    if (engine.Relinquish("ns", id, "", "operator")) {
      ++frees_[id];
      Hit(Fault::kForce);
    }
    return;
  }
  ReportArgs args{.transition = random_.Of<std::string>({"ok", "back", "none"})};
  if (Draw(Fault::kWrongNode, 30)) args.node = "n" + std::to_string(random_.Below(6));
  auto moved = engine.Report("ns", id, args);
  if (moved) Hit(Fault::kOperator);
  if (!moved && !args.node.empty()) Hit(Fault::kWrongNode);
}

void Sim::OperatePlan(Asked& engine) {
  const auto [id, step] = AnyStep();
  const std::string word = random_.Of<std::string>(
      {"go", "go", "poke", "cancel", "ok", "error", "suspend", "retry", "skip", "patch", "none"});
  std::string node =
      Draw(Fault::kWrongNode, 20) ? "" : random_.Chance(20) ? step + "/error" : step;
  if (word == "patch" && more_ && of_more_.Chance(50)) node = step + "/finalize/error";
  auto moved = engine.Report("ns", id, {.transition = word,
                                        .params = word == "patch" ? R"({"v":7})" : "",
                                        .node = node, .client = "op"});
  if (moved) Hit(Fault::kOperator);
  if (moved) ++frees_[id];  // what waits for an event runs again in the same visit
  if (!moved && node.empty()) Hit(Fault::kWrongNode);
}

void Sim::Control(Asked& engine) {
  const auto [id, step] = AnyStep();
  // Of a plain machine the history does not tell whether it is still paused then.
  const std::string node = random_.Chance(40) && step.starts_with('s') ? step : "";
  switch (random_.Below(12)) {
    case 0: case 1:
      if (On(Fault::kPause) && engine.Pause("ns", id)) Hit(Fault::kPause);
      break;
    case 2: case 3: case 4: case 5:
      if (On(Fault::kResume) && engine.Resume("ns", id, node, false)) {
        Hit(Fault::kResume);
        if (!node.empty()) ++frees_[id];  // it may be named though it runs at most once
      }
      break;
    case 6:
      if (On(Fault::kForce) && engine.Resume("ns", id, node, true)) {
        Hit(Fault::kForce);
        FreeFamily(id);
      }
      break;
    case 7: case 8:
      if (On(Fault::kSkip) && engine.Skip("ns", id, step)) Hit(Fault::kSkip);
      break;
    default: Cancel(engine, id);
  }
}

// What runs at most once may be handed out once more; children go on as their parent does.
void Sim::FreeFamily(const std::string& id) {
  ++frees_[id];
  for (const auto& [visit, times] : told_) {
    if (visit.first.starts_with(id + "/")) ++frees_[visit.first];
  }
}

// What has stopped with its children goes on with them, also when the server crashes between.
void Sim::ResumeStopped(Asked& engine) {
  if (!resumes_ || !plans_ || !On(Fault::kResume) || !of_resumes_.Chance(20)) return;
  std::vector<std::string> stopped;
  for (const std::string& id : finished_) {
    if (started_.contains(id)) stopped.push_back(id);
  }
  const bool cancels = of_resumes_.Chance(50) || stopped.empty();
  if (cancels && On(Fault::kCancel) && !started_.empty()) {
    auto which = started_.begin();
    std::advance(which, of_resumes_.Below(started_.size()));
    if (engine.Cancel("ns", which->first, CancelMode::kForce)) Hit(Fault::kCancel);
    ++frees_[which->first];
  } else if (!stopped.empty()) {
    const std::string& id = of_resumes_.Of(stopped);
    if (!engine.Resume("ns", id, "", false)) return;
    Hit(Fault::kResume);
    ++frees_[id];
    crash_soon_ = On(Fault::kCrash) && of_resumes_.Chance(50);
  }
}

void Sim::Cancel(Asked& engine, const std::string& id) {
  if (Draw(Fault::kCancel, 35) && engine.Cancel("ns", id, CancelMode::kCancel)) {
    Hit(Fault::kCancel);
    ++frees_[id];  // what was suspended hears of it
  } else if (Draw(Fault::kKill, 10)) {
    const CancelMode mode = random_.Chance(50) ? CancelMode::kKill : CancelMode::kForce;
    if (engine.Cancel("ns", id, mode)) Hit(Fault::kKill);
  }
}

void Sim::Streams(Asked& engine) {
  if (!On(Fault::kStreamClosed)) return;
  if (streams_.size() < 3 && random_.Chance(50)) {
    const auto capacity = 1 + static_cast<int32_t>(random_.Below(4));
    Filter filter{.ns = "ns"};
    filter.capabilities = AnyCapabilities();
    if (more_ && of_more_.Chance(30)) filter.queue = AnyQueue(of_more_);
    const auto drained = std::make_shared<int>(0);
    const auto sink = [this, drained](SessionUpdate update) {
      for (const Task& task : update.tasks) drained_[task.claim] = drained;
      if (update.drained) *drained = step_;
      Receive(std::move(update.tasks));
    };
    auto stream = engine.OpenSession(filter, AnyWorker(), capacity, sink);
    REQUIRE(stream);
    streams_.push_back(*stream);
  } else if (!streams_.empty()) {
    const size_t which = random_.Below(streams_.size());
    if (random_.Chance(30)) {
      engine.DrainSession(streams_[which]);
    } else {
      Hit(Fault::kStreamClosed);
      engine.CloseSession(streams_[which]);
      streams_.erase(streams_.begin() + static_cast<long>(which));
    }
  }
}

// What others are made of, or what was used before anybody had defined it.
void Sim::RedefineParts(Asked& engine) {
  std::string text;
  if (drill_ >= DrillKind::kConditions && of_more_drills_.Chance(60)) {
    text = PairPlan(of_more_drills_);
  } else if (names_ && plans_ && of_names_.Chance(30)) {
    text = "action: hooked\n";
  }
  if (!text.empty()) Expect(engine.Define(ParseMachines(text)).has_value(), "refused: " + text);
}

void Sim::Redefine(Asked& engine) {
  RedefineParts(engine);
  const auto [fault, strategy] = random_.Of<std::pair<Fault, std::string>>(
      {{Fault::kContinue, "continue"}, {Fault::kUpgrade, "upgrade"}, {Fault::kAbort, "abort"}});
  if (!On(fault)) return;
  const std::string id = AnyMachine();
  std::string text =
      drill_ != DrillKind::kNone ? DrillPlan(of_drills_, drill_, id, strategy)
      : id.starts_with('p')
          ? RandomPlan(random_, id, strategy, plan_keys_, !On(Fault::kPlanner))
          : MachineText(id, strategy);
  if (limits_) NumbersChange("");
  if (text.ends_with("---\n")) text.resize(text.size() - 4);
  singletons_ = singletons_ || text.find("singleton") != std::string::npos ||
                text.find("limit") != std::string::npos;
  if (trace_) std::printf("%s", text.c_str());
  auto defined = engine.Define(ParseMachines(text));
  Expect(defined.has_value(), "a definition was refused: " +
                                  (defined ? "" : defined.error().message) + "\n" + text);
  Hit(fault);
}

}  // namespace dfsmr
