#include "dsrv/engine/dry_runs.h"

#include <algorithm>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/reports.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kStepsPerPass = 200;

// Whether the token waits for a time, and not for an event that may come until then.
bool WaitsForTime(const Machine& machine, const Token& token) {
  if (token.state != TokenState::kWaiting || token.available_at == kNever) return false;
  const bool suspended = machine.nodes[token.node].role == Role::kSuspended;
  return !suspended || !token.step || token.step->wake != "timeout";
}

void Count(Resident& resident, const std::string& name, int64_t by) {
  auto& counts = resident.instance.dry_run->given;
  auto count = std::ranges::find(counts, name, &std::pair<std::string, uint64_t>::first);
  if (count == counts.end()) count = counts.insert(counts.end(), {name, 0});
  count->second += static_cast<uint64_t>(by);
}

std::vector<rows::ChildStart> ChildrenOf(const DryAnswer& answer) {
  std::vector<rows::ChildStart> children;
  for (const DryStart& start : answer.children) {
    rows::ChildStart& child = children.emplace_back();
    child.machine = start.machine;
    child.version = start.version;
    child.id = start.id;
    child.spec.params = start.params;
  }
  return children;
}

std::vector<StartArgs> StartsOf(const std::string& ns, const DryAnswer& answer) {
  std::vector<StartArgs> starts;
  for (const DryStart& start : answer.starts) {
    StartArgs& args = starts.emplace_back();
    args.ns = ns;
    args.machine = start.machine;
    args.version = start.version;
    args.id = start.id;
    args.spec.params = start.params;
  }
  return starts;
}

}  // namespace

void DryRuns::Enlist(const Instance& instance, const Token& token) {
  if (token.state == TokenState::kClaimed || token.state == TokenState::kDone) return;
  waiting_.emplace_back(ResidentKey(instance.ns, instance.id), token.visit);
}

void DryRuns::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  if (!instance.dry_run) return;
  for (const Token& token : std::as_const(instance.tokens)) Enlist(instance, token);
  if (instance.last_visit > kDryRunVisits) {
    waiting_.emplace_back(ResidentKey(instance.ns, instance.id), 0);
  }
}

void DryRuns::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.dry_run || instance.Stopped()) return;
  if (instance.last_visit > kDryRunVisits) {
    waiting_.emplace_back(ResidentKey(instance.ns, instance.id), 0);
    return;
  }
  const bool stood = change.before.state == InstanceState::kPaused ||
                     change.before.state == InstanceState::kStopped;
  const bool resumed = stood && Runs(instance.state);
  if (resumed) {
    for (const Token& token : instance.tokens) Enlist(instance, token);
    return;
  }
  for (const Tokens::Touched& touched : change.touched()) {
    const Token* token = instance.tokens.Find(touched.visit);
    if (token) Enlist(instance, *token);
  }
}

void DryRuns::BeginPass() { left_ = kStepsPerPass; }

bool DryRuns::Work() {
  if (waiting_.empty()) return false;
  if (left_ == 0) {
    turn_.WantMore();
    return false;
  }
  --left_;
  const auto [key, visit] = std::move(waiting_.front());
  waiting_.pop_front();
  const auto [ns, id] = SplitKey(key);
  auto touched = changer_.Touch(ns, id);
  if (!touched) return true;
  Resident& resident = **touched;
  if (resident.instance.Stopped() || !resident.instance.dry_run) return true;
  if (visit == 0) {
    Stop(resident, InstanceResult::kWarning,
         "the dry run has made " + std::to_string(kDryRunVisits) +
             " visits, and does not come to an end by itself");
  } else {
    Step(resident, visit);
  }
  return true;
}

void DryRuns::Step(Resident& resident, uint64_t visit) {
  const Instance& instance = resident.instance;
  const Token* token = std::as_const(instance.tokens).Find(visit);
  if (!token || !resident.graph->Has(token->node)) return;
  const bool held = token->state == TokenState::kHeld;
  if (!Runs(instance.state) && !(held && instance.state == InstanceState::kPaused)) return;
  auto spec = residents_.SpecOf(resident);
  if (!spec) return;
  if (auto answer = AnswerFor(resident.machine(), instance, **spec, *token)) {
    return Report(resident, *token, *std::move(answer));
  }
  if (!WaitsForTime(resident.machine(), *token)) return;
  changer_.Apply(resident, [&](Scene& scene) { rules::HurryWait(scene, visit); });
  residents_.MarkDirty(resident);
}

void DryRuns::Report(Resident& resident, const Token& token, GivenAnswer given) {
  ReportArgs args = std::move(given.answer.report);
  const uint64_t visit = token.visit;
  const bool ready = token.state == TokenState::kReady;
  if (ready && !(handouts_.TryPlace(resident, token) && handouts_.TryInput(resident, token))) {
    return;
  }
  const Token* now = std::as_const(resident.instance.tokens).Find(visit);
  if (!now) return;
  args.node = NodeName(resident.machine(), now->node);
  args.made_up = true;
  if (args.transition == "error" && args.error.empty()) args.error = "reported in a dry run";
  const bool counts = !given.of.empty() && given.answer.times > 0;
  if (counts) Count(resident, given.of, +1);
  const std::string node = args.node;
  const std::string transition = args.transition;
  // Copies: the instance may not be in memory any more when a report has stopped it.
  const std::string ns = resident.instance.ns;
  const std::string id = resident.instance.id;
  auto answer = reports_.Report(ns, id, std::move(args), ChildrenOf(given.answer),
                                StartsOf(ns, given.answer));
  if (answer) return;
  if (answer.error().code == Code::kResourceExhausted) {  // until there is room again
    if (counts) Count(resident, given.of, -1);
    waiting_.emplace_back(ResidentKey(ns, id), visit);
    left_ = 0;
    return;
  }
  Stop(resident, InstanceResult::kError,
       "in this dry run " + Quoted(transition) + " is reported at " + Quoted(node) +
           ", and refused: " + answer.error().message);
}

void DryRuns::Stop(Resident& resident, InstanceResult result, const std::string& why) {
  changer_.Apply(resident, [&](Scene& scene) { rules::StopDryRun(scene, result, why); });
  residents_.MarkDirty(resident);
}

}  // namespace dfsmr
