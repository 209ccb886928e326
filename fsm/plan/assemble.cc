#include "fsm/plan/assemble.h"

#include <algorithm>

namespace dfsmr {
namespace {

class Assembler {
 public:
  Assembler(std::shared_ptr<const PlanGraph> graph, Machine machine)
      : graph_(*graph), machine_(std::move(machine)), at_(NumberNodes(graph_)) {
    machine_.graph = std::move(graph);
    machine_.nodes_ask = !graph_.limits.empty();
    for (const StepAction& action : graph_.actions) {
      settings_.push_back(std::make_shared<const NodeSettings>(
          NodeSettings{.timeout = action.timeout,
                       .action = action.name,
                       .queue = action.queue,
                       .priority = /*mutant action-priority-lost*/ action.priority /*end*/,
                       .runs_on = action.runs_on,
                       .retry = action.retry,
                       .bounds = action.bounds,
                       .dry_run = action.dry_run}));
      if (action.bounds.ready_timeout != Duration::zero()) machine_.ready_ends = true;
    }
  }

  Machine Run();

 private:
  void AddStart();
  void AddPlace(const Place& place);
  void AddWork(uint32_t step, const std::vector<NodeIndex>& next);
  void AddSpawn(uint32_t step, const std::vector<NodeIndex>& next);
  void AddGate(std::string id, uint32_t step, const std::vector<NodeIndex>& next);
  void AddFinalize(size_t position);

  Node& Add(std::string id, NodeKind kind, Role role, uint32_t step);
  // The first nodes of the places that wait for this one; the first finalize phase, or the end,
  // when none is sure to.
  std::vector<NodeIndex> After(const Place& place) const;
  void CountWaits();
  void NoteDecisions();
  // Of sections: which steps are in which, and then which nodes.
  void FindSections();
  void NoteSections();
  // The section that a place's successors are in at least: of a section's exit the one around it.
  uint32_t Around(uint32_t place) const;
  // Whether it is in front of a section or behind it.
  bool IsEnd(uint32_t place) const {
    if (section_.empty() || section_[place] == kNoSection) return false;
    const Section& section = graph_.sections[section_[place]];
    return place == section.entry || place == section.exit();
  }
  bool IsCompensation(uint32_t section) const {
    return section != kNoSection && graph_.sections[section].compensates;
  }

  static Edge To(std::string_view transition, std::vector<NodeIndex> targets) {
    return {std::string(transition), std::move(targets)};
  }
  NodeIndex Here() const { return static_cast<NodeIndex>(machine_.nodes.size()); }

  const PlanGraph& graph_;
  Machine machine_;
  const NodeNumbers at_;
  std::vector<std::shared_ptr<const NodeSettings>> settings_;  // of each action
  std::vector<uint32_t> section_;  // of each place, the innermost; empty: there are none
};

// How many nodes the run phase of a step, or a gate, has.
uint32_t Width(const PlanGraph& graph, const Place& place) {
  if (graph.planning || place.step == UINT32_MAX) return 1;
  switch (graph.steps[place.step].kind) {
    case Step::Kind::kWork: return 3;
    case Step::Kind::kSpawn: return 2;
    case Step::Kind::kPass: return 1;
  }
  return 1;
}

Node& Assembler::Add(std::string id, NodeKind kind, Role role, uint32_t step) {
  const NodeIndex at = Here();
  Node& node = machine_.nodes.emplace_back();
  node.id = std::move(id);
  node.kind = kind;
  node.role = role;
  node.step = step;
  node.home = at;
  return node;
}

std::vector<NodeIndex> Assembler::After(const Place& place) const {
  std::vector<NodeIndex> targets;
  targets.reserve(place.next.size());
  for (uint32_t next : place.next) targets.push_back(at_.places[next]);
  // A step with an `if` may go before this place has led on, so the end waits for both.
  const bool may_pass = std::ranges::all_of(
      place.next, [this](uint32_t next) { return graph_.ifs.contains(graph_.places[next].step); });
  const auto at = static_cast<size_t>(&place - graph_.places.data());
  const uint32_t section = section_.empty() ? kNoSection : section_[at];
  if (may_pass && section != kNoSection) {
    const uint32_t exit = graph_.sections[section].exit();
    if (at != exit) {
      targets.push_back(at_.places[exit]);
      return targets;
    }
    if (IsCompensation(section)) return targets;  // what it compensates goes on
    const uint32_t outer = graph_.sections[section].outer;
    if (outer != kNoSection) {
      targets.push_back(at_.places[graph_.sections[outer].exit()]);
      return targets;
    }
  }
  /*mutant end-forgets-failed*/ if (may_pass)
    targets.push_back(at_.finalize); /*end*/
  return targets;
}

void Assembler::AddStart() {
  std::vector<bool> waits(graph_.places.size());
  for (const Place& place : graph_.places) {
    for (uint32_t next : place.next) waits[next] = true;
  }
  std::vector<NodeIndex> entries;
  for (size_t i = 0; i < waits.size(); ++i) {
    const uint32_t section = section_.empty() ? kNoSection : section_[i];
    const bool later = IsCompensation(section) && graph_.sections[section].entry == i;
    if (!waits[i] && !later) entries.push_back(at_.places[i]);
  }
  if (entries.empty()) entries.push_back(at_.end);
  Node& start = Add("/start", NodeKind::kGate, Role::kNone, kNoStep);
  start.start = true;
  start.transitions.push_back(To("ok", std::move(entries)));
}

void Assembler::AddWork(uint32_t step, const std::vector<NodeIndex>& next) {
  const std::string& path = graph_.steps[step].path;
  const NodeIndex home = Here();
  Node& run = Add(path, NodeKind::kWork, Role::kRun, step);
  run.settings = settings_[graph_.steps[step].action];
  run.tells_worker = graph_.steps[step].tells_worker;
  run.transitions.reserve(3);
  run.transitions.push_back(To("ok", next));
  run.transitions.push_back(To("error", {home + 1}));
  run.transitions.push_back(To("suspend", {home + 2}));

  Node& error = Add(path + "/error", NodeKind::kHeld, Role::kError, step);
  error.home = home;
  error.transitions.reserve(2);
  error.transitions.push_back(To("retry", {home}));
  error.transitions.push_back(To("skip", next));

  Node& suspended = Add(path + "/suspended", NodeKind::kManual, Role::kSuspended, step);
  suspended.home = home;
  suspended.transitions.push_back(To("wake", {home}));
}

void Assembler::AddSpawn(uint32_t step, const std::vector<NodeIndex>& next) {
  const std::string& path = graph_.steps[step].path;
  const NodeIndex home = Here();
  Node& spawn = Add(path, NodeKind::kManual, Role::kSpawn, step);
  spawn.transitions.reserve(2);
  spawn.transitions.push_back(To("ok", next));
  spawn.transitions.push_back(To("error", {home + 1}));

  Node& error = Add(path + "/error", NodeKind::kHeld, Role::kError, step);
  error.home = home;
  error.transitions.reserve(2);
  error.transitions.push_back(To("retry", {home}));
  error.transitions.push_back(To("skip", next));
}

void Assembler::AddGate(std::string id, uint32_t step, const std::vector<NodeIndex>& next) {
  Role role = step == kNoStep ? Role::kNone : Role::kPass;
  if (step != kNoStep && IsEnd(step)) {
    role = graph_.sections[section_[step]].entry == step ? Role::kSection : Role::kSectionEnd;
  }
  Add(std::move(id), NodeKind::kGate, role, step).transitions.push_back(To("ok", next));
}

void Assembler::AddPlace(const Place& place) {
  const std::vector<NodeIndex> next = After(place);
  if (place.step == UINT32_MAX) return AddGate(place.gate, kNoStep, next);
  const Step& step = graph_.steps[place.step];
  if (graph_.planning) {
    Node& node = Add(step.path, NodeKind::kWork, Role::kPlanner, place.step);
    node.settings = settings_[step.action];
    node.transitions.push_back(To("planned", {at_.end}));
    return;
  }
  switch (step.kind) {
    case Step::Kind::kWork: return AddWork(place.step, next);
    case Step::Kind::kSpawn: return AddSpawn(place.step, next);
    case Step::Kind::kPass: return AddGate(step.path, place.step, next);
  }
}

void Assembler::AddFinalize(size_t position) {
  const uint32_t step = at_.finalizers[position];
  const std::string path = graph_.steps[step].path + "/finalize";
  const NodeIndex home = Here();
  const NodeIndex next = at_.Finalize(position + 1);  // after the last, the end
  Node& finalize = Add(path, NodeKind::kWork, Role::kFinalize, step);
  finalize.settings = settings_[graph_.steps[step].action];
  finalize.transitions.reserve(2);
  finalize.transitions.push_back(To("ok", {next}));
  finalize.transitions.push_back(To("error", {home + 1}));

  Node& error = Add(path + "/error", NodeKind::kHeld, Role::kFinalizeError, step);
  error.home = home;
  error.transitions.reserve(2);
  error.transitions.push_back(To("retry", {at_.finalize}));
  error.transitions.push_back(To("skip", {next}));
}

// A skip edge enters the same nodes as its ok edge, so a join counts the two as one arrival.
void Assembler::CountWaits() {
  for (const Node& node : machine_.nodes) {
    for (const Edge& edge : node.transitions) {
      if (edge.transition != "ok" && edge.transition != "planned") continue;
      for (NodeIndex target : edge.targets) ++machine_.nodes[target].waits_for;
    }
  }
  for (Node& node : machine_.nodes) {
    if (node.waits_for > 1) node.join = Join::kAll;
  }
}

// Which places decide, and from which what happens is to be announced to those: past gates.
void Assembler::NoteDecisions() {
  machine_.conditional = true;
  std::vector<bool> tells(graph_.places.size());  // a place that decides, or a gate in front of one
  std::vector<std::vector<uint32_t>> before(graph_.places.size());
  std::vector<uint32_t> open;
  for (uint32_t at = 0; at < graph_.places.size(); ++at) {
    for (uint32_t next : graph_.places[at].next) before[next].push_back(at);
    if (!graph_.ifs.contains(graph_.places[at].step)) continue;
    machine_.nodes[at_.places[at]].decides = tells[at] = true;
    open.push_back(at);
  }
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    for (uint32_t place : before[at]) {
      machine_.nodes[at_.places[place]].announces = true;
      const bool gate = graph_.places[place].step == UINT32_MAX || IsEnd(place);
      if (gate && !tells[place]) open.push_back(place);
      if (gate) tells[place] = true;
    }
  }
}

uint32_t Assembler::Around(uint32_t place) const {
  const uint32_t section = section_[place];
  if (section == kNoSection || place != graph_.sections[section].exit()) return section;
  return graph_.sections[section].outer;
}

// A gate is in the section of what is before it: nothing outside waits for less than all of one.
void Assembler::FindSections() {
  if (graph_.sections.empty()) return;
  section_.resize(graph_.places.size(), kNoSection);
  for (uint32_t i = 0; i < graph_.sections.size(); ++i) {  // those inside come later
    const Section& section = graph_.sections[i];
    std::fill(section_.begin() + section.entry, section_.begin() + section.end, i);
  }
  std::vector<uint32_t> waits(graph_.places.size());
  for (const Place& place : graph_.places) {
    for (uint32_t next : place.next) ++waits[next];
  }
  std::vector<uint32_t> open;
  for (uint32_t at = 0; at < waits.size(); ++at) {
    if (waits[at] == 0) open.push_back(at);
  }
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    const uint32_t around = Around(at);
    for (uint32_t next : graph_.places[at].next) {
      const bool gate = graph_.places[next].step == UINT32_MAX;
      if (gate && LiesIn(graph_, around, section_[next])) section_[next] = around;
      if (--waits[next] == 0) open.push_back(next);
    }
  }
}

void Assembler::NoteSections() {
  const auto at = [this](uint32_t place) {
    return place < at_.places.size() ? at_.places[place] : at_.finalize;
  };
  for (const Section& section : graph_.sections) {
    const uint32_t compensation = section.compensation;
    SectionNodes& nodes = machine_.sections.emplace_back();
    nodes.entry = at_.places[section.entry];
    nodes.exit = at_.places[section.exit()];
    nodes.end = at(section.end);
    nodes.own_end =
        compensation == kNoSection ? nodes.end : at_.places[graph_.sections[compensation].entry];
  }
  for (uint32_t place = 0; place < section_.size(); ++place) {
    const uint32_t end = at(place + 1);
    for (NodeIndex node = at_.places[place]; node < end; ++node) {
      machine_.nodes[node].section = section_[place];
    }
    const bool gate = graph_.places[place].step == UINT32_MAX;
    for (uint32_t in = section_[place]; gate && in != kNoSection; in = graph_.sections[in].outer) {
      machine_.sections[in].gates.push_back(at_.places[place]);
    }
    for (uint32_t next : graph_.places[place].next) {
      const uint32_t to = section_[next];
      if (LiesIn(graph_, section_[place], to)) continue;
      machine_.sections[to].incoming.emplace_back(at_.places[place], at_.places[next]);
    }
  }
}

Machine Assembler::Run() {
  FindSections();
  machine_.nodes.clear();
  machine_.nodes.reserve(at_.end + 1);
  AddStart();
  for (const Place& place : graph_.places) AddPlace(place);
  for (size_t i = 0; i < at_.finalizers.size(); ++i) AddFinalize(i);
  Add("/end", NodeKind::kFinal, Role::kNone, kNoStep);
  CountWaits();
  if (!graph_.ifs.empty()) NoteDecisions();
  if (!section_.empty()) NoteSections();
  machine_.start = 0;
  machine_.names.Index(machine_.nodes);
  return std::move(machine_);
}

}  // namespace

NodeNumbers NumberNodes(const PlanGraph& graph) {
  NodeNumbers numbers;
  NodeIndex at = 1;  // after /start
  numbers.places.reserve(graph.places.size());
  for (const Place& place : graph.places) {
    numbers.places.push_back(at);
    at += Width(graph, place);
  }
  for (uint32_t i = 0; i < graph.steps.size() && !graph.planning; ++i) {
    if (graph.steps[i].finalize) numbers.finalizers.push_back(i);
  }
  numbers.finalize = at;
  numbers.end = numbers.Finalize(numbers.finalizers.size());
  return numbers;
}

Machine Assemble(std::shared_ptr<const PlanGraph> graph, Machine machine) {
  return Assembler(std::move(graph), std::move(machine)).Run();
}

}  // namespace dfsmr
