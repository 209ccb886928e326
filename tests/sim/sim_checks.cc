// What is checked of a run beside the model and the audits of one instance: what the feed may tell
// of late reports, what is added up of all instances, and the order of plans.
#include <algorithm>

#include "dsrv/engine/survey.h"
#include "storage/rows/graph.h"
#include "tests/sim/order_audit.h"
#include "tests/sim/sim.h"

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

// The graph of each instance keeps the order in which its plan is written.
void Sim::CheckOrders(const std::map<std::string, Instance>& instances) {
  for (const auto& [id, instance] : instances) {
    if (!instance.plan || instance.plan->graph.empty()) continue;
    const Machine* machine =
        world_.engine().reader().registry.Resolve("ns", instance.machine, instance.version);
    const PlanSource* source = machine ? machine->plan() : nullptr;
    if (!source) continue;
    auto graph = rows::GetGraph({store_, world_.partition()}, instance);
    REQUIRE(graph);
    if (graph->planning) continue;
    OrderAudit(*graph, [&, &name = id](bool good, const std::string& what) {
      Expect(good, "in the graph of " + name + " " + what);
    }).Check(source->flow);
  }
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
