// What is checked of a run beside the model and the audits of one instance: what the feed may tell
// of late reports, what is added up of all instances, and what is written in plans.
#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

#include "dsrv/engine/survey.h"
#include "fsm/plan/assemble.h"
#include "storage/rows/graph.h"
#include "tests/sim/if_audit.h"
#include "tests/sim/order_audit.h"
#include "tests/sim/sim.h"
#include "tests/sim/wait_audit.h"
#include "tests/sim/written_audit.h"

namespace dfsmr {

// A report is kept for the resume only of a visit that no report has ended.
void Sim::CheckLateReports() {
  std::set<std::pair<std::string, uint64_t>> over;
  for (const auto& [seq, event] : ledger_) {
    if (event.answer && event.left_visit != 0) over.insert({event.instance, event.left_visit});
    Expect(event.kind != ChangeKind::kLate || !over.contains({event.instance, event.visit}),
           "a report of visit " + std::to_string(event.visit) + " of " + event.instance +
               " is kept, which another has ended");
  }
}

// What a resume by force has taken back counts no more.
void Sim::CheckTakenBack() {
  std::set<std::tuple<std::string, uint64_t, uint32_t>> back;
  for (const auto& [seq, event] : ledger_) {
    const bool taken = event.kind == ChangeKind::kRelinquished;
    if (taken && event.note == "resumed with force") {
      back.insert({event.instance, event.visit, event.attempt});
    }
    const bool counts = event.answer && event.left_visit != 0 && event.attempt != 0;
    Expect(!counts || !back.contains({event.instance, event.left_visit, event.attempt}),
           "attempt " + std::to_string(event.attempt) + " of visit " +
               std::to_string(event.left_visit) + " of " + event.instance +
               " counts, which a resume by force has taken back");
  }
}

// A task that an event has begun holds that event, with its data.
void Sim::CheckEvents() {
  std::map<std::pair<std::string, uint64_t>, const Event*> woken;
  for (const auto& [seq, event] : ledger_) {
    if (event.kind == ChangeKind::kWoken) woken[{event.instance, event.visit}] = &event;
  }
  for (const auto& [where, given] : events_given_) {
    const auto by = woken.find(where);
    if (by == woken.end() || given.first == "cancel") continue;
    const Event& event = *by->second;
    if (event.transition == "children") continue;  // its data is what has become of them
    Expect(given.first == event.transition && given.second == event.params,
           "a task of visit " + std::to_string(where.second) + " of " + where.first +
               " was given " + given.first + " " + given.second + " instead of " +
               event.transition + " " + event.params);
  }
}

// An instance whose id the server has made is a child, a hook's, or what a report says that it has
// started. And what has ended well shows no error.
void Sim::CheckNobodyUnasked(const std::map<std::string, Instance>& instances) {
  std::set<std::string> asked;
  for (const auto& [seq, event] : ledger_) {
    if (!event.answer || !event.answer->started) continue;
    for (const Begun& one : *event.answer->started) asked.insert(one.id);
  }
  for (const auto& [id, instance] : instances) {
    Expect(instance.result != InstanceResult::kSuccess || instance.error.empty(),
           id + " has ended with SUCCESS and shows an error: " + instance.error);
    const bool made = id.size() >= 20 && id.starts_with('0');
    if (!made || instance.parent_step || asked.contains(id)) continue;
    const auto spec = rows::GetSpec({store_, world_.partition()}, {"ns", id});
    REQUIRE(spec);
    Expect(spec->client.starts_with("hook of "), id + " runs, and nobody has asked for it");
  }
}

namespace {

std::string TextOf(const Tally& tally) {
  std::string text;
  for (uint64_t n : {tally.scheduled, tally.running, tally.paused, tally.stopped, tally.ready,
                     tally.claimed, tally.waiting, tally.held}) {
    text += " " + std::to_string(n);
  }
  return text;
}

void Count(const Instance& instance, Tally* tally) {
  switch (instance.state) {
    case InstanceState::kScheduled: ++tally->scheduled; break;
    case InstanceState::kPaused: ++tally->paused; break;
    case InstanceState::kStopped: ++tally->stopped; return;
    default: ++tally->running;
  }
  for (const Token& token : instance.tokens) {
    if (token.state == TokenState::kReady && Runs(instance.state)) ++tally->ready;
    if (token.state == TokenState::kClaimed) ++tally->claimed;
    if (token.state == TokenState::kWaiting) ++tally->waiting;
    if (token.state == TokenState::kHeld) ++tally->held;
  }
}

}  // namespace

// What people are told of a machine as a whole is what its instances add up to; what lies ready in
// those that are paused is nobody's to take.
void Sim::CheckTallies(const std::map<std::string, Instance>& instances) {
  const auto all = [](const std::string&) { return true; };
  for (const MachineTally& told : world_.engine().survey().Machines(all, "")) {
    if (told.version == 0) continue;  // flows that nobody has defined
    Tally counted;
    for (const auto& [id, instance] : instances) {
      if (instance.machine == told.id && !instance.dry_run) Count(instance, &counted);
    }
    Expect(TextOf(told.now) == TextOf(counted), "an overview tells of " + told.id +
                                                    TextOf(told.now) + " instead of" +
                                                    TextOf(counted));
  }
}

// The graph of each instance keeps what is written in its plan, and its history goes the way that
// the conditions and the waits of its steps ask for.
void Sim::CheckPlans(const std::map<std::string, Instance>& instances) {
  for (const auto& [id, instance] : instances) {
    if (!instance.plan || instance.plan->graph.empty()) continue;
    auto graph = rows::GetGraph({store_, world_.partition()}, instance);
    REQUIRE(graph);
    if (graph->planning) continue;
    CheckWritten(instance, *graph);
    if (!instance.dry_run) CheckConditions(instance, *graph);
  }
}

void Sim::CheckWritten(const Instance& instance, const PlanGraph& graph) {
  const auto& registry = world_.engine().reader().registry;
  const Machine* definition = registry.Resolve("ns", instance.machine, instance.version);
  const PlanSource* source = definition ? definition->plan() : nullptr;
  if (!source) return;
  const auto expect = [&](bool good, const std::string& what) {
    Expect(good, "in the graph of " + instance.id + " " + what);
  };
  const auto actions = [&](const std::string& name) -> const ActionSource* {
    const auto known = registry.Find("ns", name);
    return known ? known->machine.action() : nullptr;
  };
  OrderAudit(graph, expect).Check(source->flow);
  CheckNested(instance, graph, source->flow);
  const Machine machine = Assemble(std::make_shared<const PlanGraph>(graph), Machine());
  WrittenAudit(graph, machine, actions, expect).Check(source->flow);
}

// A plan that it nests has the steps that were written when it was planned.
void Sim::CheckNested(const Instance& instance, const PlanGraph& graph, const FlowNode& flow) {
  for (const FlowNode& part : flow.children) CheckNested(instance, graph, part);
  if (flow.plan != "pair") return;
  uint32_t defined = 0, begun = 0;  // its version, and that when this instance began
  uint32_t first = 0, last = 0;     // while it was planned
  for (const auto& [seq, event] : ledger_) {
    using enum ChangeKind;
    if (event.kind == kDefined && event.machine == flow.plan) defined = event.version;
    if (event.instance != instance.id) continue;
    const bool begins = event.kind == kScheduled || event.kind == kStarted ||
                        event.kind == kUpgraded || event.kind == kResumed;
    if (begins) begun = On(Fault::kOffload) && defined > 1 ? defined - 1 : defined;
    if (event.kind != kTransitioned || event.node != "/start") continue;
    first = begun;
    last = defined;
  }
  std::set<std::string> steps;
  for (const dfsmr::Step& step : graph.steps) {
    const bool inside = step.of.starts_with(flow.name + ".");
    const std::string name = inside ? step.of.substr(flow.name.size() + 1) : "";
    if (inside && name.find('.') == std::string::npos) steps.insert(name);
  }
  bool known = steps.empty() || last == 0;
  for (uint32_t version = first; version <= last; ++version) {
    std::set<std::string> written;
    const auto plan = world_.engine().reader().registry.Find("ns", flow.plan, version);
    if (!plan) continue;
    for (const FlowNode& one : plan->machine.plan()->flow.children) written.insert(one.name);
    known = known || written == steps;
  }
  Expect(known, "in the graph of " + instance.id + " " + flow.name +
                    " has other steps than were written when it was planned");
}

void Sim::CheckConditions(const Instance& instance, const PlanGraph& graph) {
  const auto expect = [this](bool good, const std::string& what) { Expect(good, what); };
  const std::vector<Event> history = world_.HistoryOf(instance);
  WaitAudit(graph, world_.now(), expect).Check(instance, history);
  if (!graph.sections.empty()) return;  // no plan of the simulator has both
  const rows::Reader reader{store_, world_.partition()};
  const auto spec = rows::GetSpec(reader, {"ns", instance.id});
  const auto outputs = rows::GetOutputs(reader, {"ns", instance.id});
  REQUIRE(spec);
  REQUIRE(outputs);
  for (const auto& [step, output] : *outputs) {
    Expect(output.find("\"finalized\"") == std::string::npos,
           instance.id + " keeps the output of a finalize phase for " + step);
  }
  IfAudit::Given given{*outputs, spec->params, world_.now(), world_.engine().WorkLeft()};
  IfAudit(graph, std::move(given), expect).Check(instance, history);
}

// Whoever is a member when all are ordered to end, ends or is being cancelled.
void Sim::CheckOrdered(const std::map<std::string, Instance>& instances) {
  using enum ChangeKind;
  for (const auto& mark : cancelled_groups_) {
    std::set<std::string> live;
    for (const auto& [seq, event] : ledger_) {
      if (!event.about || event.about->group != mark->group) continue;
      const bool ends = event.kind == kFinished;
      const bool lives = event.kind == kScheduled || event.kind == kStarted ||
                         event.kind == kResumed;
      if (seq <= mark->seq && lives) live.insert(event.instance);
      if (ends) live.erase(event.instance);
    }
    for (const std::string& id : live) {
      const auto one = instances.find(id);
      Expect(one == instances.end() || !mark->durable || one->second.Cancelling(),
             id + " has not obeyed when its group " + mark->group + " was cancelled");
    }
  }
  cancelled_groups_.clear();
}

}  // namespace dfsmr
