#include "dsrv/wire/plan_view.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "dsrv/wire/replies.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/graph.h"
#include "fsm/plan/written.h"
#include "storage/rows/graph.h"
#include "storage/rows/plan.h"

namespace dfsmr {
namespace {

constexpr size_t kAfterShown = 200'000;  // names of steps before others, in one reply

bool LiesUnder(std::string_view path, std::string_view under) {
  if (under.empty() || path == under) return true;
  return path.size() > under.size() && path.starts_with(under) && path[under.size()] == '.';
}

void Fill(const ChildCounts& children, v1::Children* out) {
  out->set_total(children.total);
  out->set_started(children.started);
  out->set_running(children.running);
  out->set_success(children.success);
  out->set_failed(children.failed + children.paused);
  out->set_cancelled(children.cancelled);
}

class PlanView {
 public:
  PlanView(const Machine& machine, std::unordered_map<NodeIndex, rows::StepRow> rows, bool stopped)
      : machine_(machine), graph_(*machine.graph), rows_(std::move(rows)), stopped_(stopped) {}

  void Show(std::string_view under, const VisitStep& visit);

 private:
  void FindBefore();
  void FindConditions();
  // Whether it stands in front of a step and what came with that, and decides whether they run.
  bool IsGate(uint32_t step) const {
    return graph_.ifs.contains(step) && graph_.steps[step].path.ends_with("/gate");
  }
  void ShowStep(uint32_t index, v1::Step* out);
  // How a section stands: by the gates in front of its steps and behind them.
  v1::Step::State SectionStateOf(const Section& section, v1::Step* out);
  void FindSections();
  // Whether it stands for no step that anybody wrote.
  bool IsHidden(uint32_t step) const { return IsGate(step) || hidden_.contains(step); }
  v1::Step::State StateOf(NodeIndex home, v1::Step* out);
  v1::Step::State StateOf(const Token& token) const;
  // The same, of a plan that may have stopped before the phase began.
  v1::Step::State FinalStateOf(NodeIndex home, v1::Step* out);

  const Machine& machine_;
  const PlanGraph& graph_;
  std::unordered_map<NodeIndex, rows::StepRow> rows_;
  bool stopped_;
  std::vector<std::vector<uint32_t>> before_;        // by place: places
  std::vector<uint32_t> place_of_;                   // by step
  std::map<uint32_t, std::string_view> conditions_;  // by step
  std::map<uint32_t, uint32_t> sections_;            // by the steps in front of them
  std::map<uint32_t, uint32_t> ends_;                // by the steps behind them: those in front
  std::set<uint32_t> hidden_;  // behind sections, in front of and behind compensations
  size_t after_shown_ = 0;
};

void PlanView::FindBefore() {
  before_.resize(graph_.places.size());
  place_of_.resize(graph_.steps.size(), UINT32_MAX);
  for (uint32_t place = 0; place < graph_.places.size(); ++place) {
    for (uint32_t next : graph_.places[place].next) before_[next].push_back(place);
    if (graph_.places[place].step != UINT32_MAX) place_of_[graph_.places[place].step] = place;
  }
}

v1::Step::State PlanView::StateOf(NodeIndex home, v1::Step* out) {
  auto row = rows_.find(home);
  if (row == rows_.end()) return v1::Step::PENDING;
  const auto& settling = row->second.settling;
  // It had begun or failed when its section or plan ended.
  const bool dropped = settling && settling->dropped;
  if (const auto& ended = row->second.ended) {
    ToProto(ended->start_time, out->mutable_start_time());
    if (!dropped) ToProto(ended->end_time, out->mutable_end_time());
    if (!dropped) out->set_progress(1);
    if (ended->children) Fill(*ended->children, out->mutable_children());
    if (ended->skipped && !dropped) out->set_note(ended->note);
    out->set_tries(ended->tries);
    out->set_visit(ended->visit);
    out->set_worker(ended->worker);
    if (!dropped) return ended->skipped ? v1::Step::SKIPPED : v1::Step::DONE;
  }
  if (!row->second.token && !row->second.left) {
    if (dropped && settling->outcome == StepOutcome::kFailed) {
      out->set_error(settling->note);
      // While its section ends or is undone there is nothing to resume or to skip.
      return stopped_ ? v1::Step::HELD : v1::Step::PENDING;
    }
    const bool decided = settling && (settling->decision == Settling::Decision::kStays ||
                                      settling->decision == Settling::Decision::kPassed);
    if (dropped || (!decided && !row->second.doomed)) return v1::Step::PENDING;
    if (settling) out->set_note(settling->note);
    return v1::Step::SKIPPED;
  }
  const Token& token = row->second.token ? *row->second.token : *row->second.left;
  out->set_error(token.error);
  out->set_visit(token.visit);
  if (!token.claims.empty()) out->set_worker(token.claims.back().worker);
  if (token.step) {
    if (token.step->start_time != Timestamp()) {
      ToProto(token.step->start_time, out->mutable_start_time());
    }
    out->set_progress(token.step->progress);
    out->set_tries(token.step->tries);
    if (token.step->children) Fill(*token.step->children, out->mutable_children());
  }
  // It was cancelled, and waits for nothing but a resume.
  if (!row->second.token && token.state == TokenState::kReady) return v1::Step::PENDING;
  return StateOf(token);
}

v1::Step::State PlanView::StateOf(const Token& token) const {
  switch (token.state) {
    case TokenState::kReady:
      return v1::Step::READY;
    case TokenState::kClaimed:
      return std::ranges::any_of(token.claims, &Claim::Begun) ? v1::Step::RUNNING
                                                              : v1::Step::CLAIMED;
    case TokenState::kHeld:
      return v1::Step::HELD;
    case TokenState::kNone:
      return v1::Step::PENDING;
    case TokenState::kWaiting:
      // The node's number comes from the step's row, which may be damaged.
      return token.node < machine_.nodes.size() &&
                     machine_.nodes[token.node].role == Role::kSuspended
                 ? v1::Step::SUSPENDED
                 : v1::Step::WAITING;
    case TokenState::kDone:
      break;
  }
  return v1::Step::DONE;
}

v1::Step::State PlanView::FinalStateOf(NodeIndex home, v1::Step* out) {
  const v1::Step::State state = StateOf(home, out);
  const bool waits =
      state == v1::Step::PENDING || state == v1::Step::READY || state == v1::Step::WAITING;
  return stopped_ && waits && !out->has_start_time() ? v1::Step::NOT_RUN : state;
}

void PlanView::FindSections() {
  for (uint32_t i = 0; i < graph_.sections.size(); ++i) {
    const Section& section = graph_.sections[i];
    hidden_.insert(section.exit());
    if (section.compensates) {
      hidden_.insert(section.entry);
    } else {
      sections_[section.entry] = i;
      ends_[section.exit()] = section.entry;
    }
  }
}

v1::Step::State PlanView::SectionStateOf(const Section& section, v1::Step* out) {
  const NodeIndex entry = machine_.Find(graph_.steps[section.entry].path);
  const auto exit = rows_.find(machine_.Find(graph_.steps[section.exit()].path));
  const Keepsake* kept = exit != rows_.end() && exit->second.kept ? &*exit->second.kept : nullptr;
  const SectionState state = kept && kept->section ? *kept->section : SectionState();
  const v1::Step::State before = FinalStateOf(entry, out);
  out->set_tries(state.tries);
  out->set_tries_limit(section.retry.limit);
  if (!state.error.empty() && before != v1::Step::HELD) out->set_note(state.error);
  if (before != v1::Step::DONE) return before;
  out->clear_end_time();
  out->set_progress(0);
  if (exit == rows_.end() || !exit->second.ended) {
    return stopped_ && state.phase == SectionState::Phase::kCompensated ? v1::Step::HELD
                                                                        : v1::Step::RUNNING;
  }
  ToProto(exit->second.ended->end_time, out->mutable_end_time());
  out->set_progress(1);
  return exit->second.ended->skipped ? v1::Step::SKIPPED : v1::Step::DONE;
}

void PlanView::ShowStep(uint32_t index, v1::Step* out) {
  const Step& step = graph_.steps[index];
  out->set_path(step.path);
  if (step.kind == Step::Kind::kWork) {
    out->set_action(graph_.actions[step.action].name);
    out->set_tries_limit(graph_.actions[step.action].retry.limit);
  }
  const NodeIndex home = machine_.Find(step.path);
  v1::Step finalize;
  if (step.finalize) {
    out->set_finalize(FinalStateOf(machine_.Find(step.path + "/finalize"), &finalize));
    if (!finalize.error().empty()) out->set_error(finalize.error());
  }
  if (const auto section = sections_.find(index); section != sections_.end()) {
    out->set_state(SectionStateOf(graph_.sections[section->second], out));
  } else {
    out->set_state(step.left_out ? v1::Step::LEFT_OUT : FinalStateOf(home, out));
  }
  if (const auto text = conditions_.find(index); text != conditions_.end()) {
    out->set_condition(std::string(text->second));
  }
  if (place_of_[index] == UINT32_MAX) return;
  // The steps before this one, through the gates between.
  std::vector<uint32_t> open = before_[place_of_[index]];
  std::vector<bool> seen;
  while (!open.empty() && after_shown_ < kAfterShown) {
    const uint32_t place = open.back();
    open.pop_back();
    const uint32_t before = graph_.places[place].step;
    const auto section = ends_.find(before);
    if (before != UINT32_MAX &&
        (section != ends_.end() || (!IsHidden(before) && !sections_.contains(before)))) {
      out->add_after(graph_.steps[section == ends_.end() ? before : section->second].path);
      ++after_shown_;
      continue;
    }
    open.insert(open.end(), before_[place].begin(), before_[place].end());
  }
  std::sort(out->mutable_after()->begin(), out->mutable_after()->end());
  out->mutable_after()->erase(
      std::unique(out->mutable_after()->begin(), out->mutable_after()->end()),
      out->mutable_after()->end());
}

void PlanView::FindConditions() {
  for (const auto& [step, decision] : graph_.ifs) {
    const uint32_t shown = IsGate(step) && !decision.members.empty() ? decision.members[0] : step;
    conditions_.emplace(shown, decision.text);
  }
}

void PlanView::Show(std::string_view under, const VisitStep& visit) {
  FindBefore();
  FindConditions();
  FindSections();
  v1::Step shown;
  for (uint32_t i = 0; i < graph_.steps.size(); ++i) {
    if (IsHidden(i) || !LiesUnder(graph_.steps[i].path, under)) continue;
    shown.Clear();
    ShowStep(i, &shown);
    visit(shown);
  }
}

}  // namespace

namespace {

// An instance's own graph, and the rows of its steps.
struct OwnPlan {
  Machine machine;
  std::unordered_map<NodeIndex, rows::StepRow> rows;
};

// With the rows of the steps under a path alone, and of what stands between steps. nullopt: it is
// not planned yet, or is of a plain machine.
Result<std::optional<OwnPlan>> ReadPlan(const Moment& moment, const Instance& instance,
                                        std::string_view under) {
  std::optional<OwnPlan> plan;
  if (!instance.plan || instance.plan->graph.empty()) return plan;
  auto graph = rows::GetGraph(moment.rows, instance);
  if (!graph) return graph.error();
  plan.emplace();
  Machine named;
  named.id = instance.machine;
  plan->machine = Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), std::move(named));
  const std::vector<Node>& nodes = plan->machine.nodes;
  const std::vector<Step>& steps = plan->machine.graph->steps;
  plan->rows.reserve(steps.size());
  const auto wanted = [&](NodeIndex home) {
    if (under.empty() || home >= nodes.size() || nodes[home].step == kNoStep) return true;
    const Step& step = steps[nodes[home].step];
    return step.kind == Step::Kind::kPass || LiesUnder(step.path, under);
  };
  auto scanned = rows::ScanSteps(
      moment.rows, instance,
      [&plan](rows::StepRow row) {
        const NodeIndex home = row.home;
        plan->rows.emplace(home, std::move(row));
        return true;
      },
      wanted);
  if (!scanned) return scanned.error();
  return plan;
}

}  // namespace

Result<Ok> ShowNodes(const Moment& moment, const Instance& instance, v1::Instance* out) {
  if (!instance.plan) {
    const Machine* machine =
        moment.registry.Resolve(instance.ns, instance.machine, instance.version);
    for (const Node& node : machine->nodes) ToProto(node, *machine, out->add_nodes());
    return Ok{};
  }
  auto plan = ReadPlan(moment, instance, "");
  if (!plan) return plan.error();
  if (!*plan) return Ok{};
  for (const Node& node : (*plan)->machine.nodes) {
    ToProto(node, (*plan)->machine, out->add_nodes());
  }
  PlanView((*plan)->machine, std::move((*plan)->rows), instance.Stopped())
      .Show("", [out](v1::Step& step) { out->add_steps()->Swap(&step); });
  return Ok{};
}

Result<Ok> VisitSteps(const Moment& moment, const Instance& instance, std::string_view under,
                      const VisitStep& visit) {
  auto plan = ReadPlan(moment, instance, under);
  if (!plan) return plan.error();
  if (!*plan) return Ok{};
  PlanView((*plan)->machine, std::move((*plan)->rows), instance.Stopped()).Show(under, visit);
  return Ok{};
}

void ShowSteps(const Machine& machine, v1::Machine* out) {
  if (!machine.graph) return;
  PlanView(machine, {}, /*stopped=*/false).Show("", [out](v1::Step& step) {
    out->add_steps()->Swap(&step);
  });
}

Result<std::optional<StepSource>> ReadStepSource(const Moment& moment, const Instance& instance,
                                                 const std::string& path) {
  std::optional<StepSource> source;
  auto plan = ReadPlan(moment, instance, path);
  if (!plan) return plan.error();
  if (!*plan) return source;
  const Machine& machine = (*plan)->machine;
  const NodeIndex home = machine.Find(path);
  if (home == kNoNode || machine.nodes[home].step == kNoStep) return source;
  source.emplace();
  source->input = AsWritten(*machine.graph, machine.graph->steps[machine.nodes[home].step].input);
  source->queue = machine.nodes[home].settings->queue;
  source->priority = machine.nodes[home].settings->priority;
  const auto row = (*plan)->rows.find(home);
  if (row != (*plan)->rows.end() && !row->second.input.empty()) source->input = row->second.input;
  PlanView(machine, std::move((*plan)->rows), instance.Stopped()).Show(path, [&](v1::Step& step) {
    if (step.path() == path) source->step.Swap(&step);
  });
  return source;
}

}  // namespace dfsmr
