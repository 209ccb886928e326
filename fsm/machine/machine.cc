#include "fsm/machine/machine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <unordered_map>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/condition/condition.h"

namespace dfsmr {
namespace {

constexpr std::string_view kOk = "ok";
constexpr std::string_view kError = "error";
// Guessing what a name meant compares it with every node. After this many guesses no more are made.
constexpr int kHintsMax = 20;

// Everything below works on positions in `draft_.nodes`, which are those in the machine's nodes.
class Compiler {
 public:
  Compiler(MachineDraft draft, std::vector<Problem>* problems)
      : draft_(std::move(draft)), problems_(problems) {}

  Machine Run();

 private:
  struct Unresolved {
    NodeIndex node;
    NodeIndex meant;  // kNoNode when there is no guess
  };

  void CheckNames();
  void IndexNodes();
  void CheckStart();
  void CheckNode(const NodeDraft& node);
  void CheckDryRun(const NodeDraft& node);
  void CheckTransitionName(const NodeDraft& node, const std::string& name);
  void CheckDelay(const NodeDraft& node);
  void CheckSystemTransitions(const NodeDraft& node);
  void CheckRetry(const NodeDraft& node);
  void CheckChoices(const NodeDraft& node);
  void CheckRunsOn();
  void CheckAgent(const Reference& reference, NodeIndex of, const std::string& path);
  void CheckReference(const Reference& reference, const std::string& path);
  void ResolveTargets();
  NodeIndex Resolve(const std::string& path, const std::string& target);
  void CheckDiversions();
  void CheckReachable();
  void CheckFinishes();
  Machine Assemble();

  void Fail(std::string path, std::string message) {
    problems_->push_back({true, std::move(path), std::move(message)});
  }
  static std::string Path(const NodeDraft& node) { return "nodes." + node.node.id; }
  static std::string Path(const NodeDraft& node, std::string_view transition) {
    return Path(node) + ".transitions." + std::string(transition);
  }
  // Of the edge at this position: "nodes.a.transitions.ok", or "….ok[1]" of several choices.
  static std::string PathOfEdge(const NodeDraft& node, size_t edge);

  MachineDraft draft_;
  std::vector<Problem>* problems_;
  std::unordered_map<std::string, NodeIndex> index_;
  std::vector<NodeIndex> starts_;
  // targets_[node]: where its transitions lead, in their order, as far as they lead anywhere.
  std::vector<std::vector<NodeIndex>> targets_;
  std::vector<Unresolved> unresolved_;
  int hints_ = 0;
};

const std::string* TargetOf(const NodeDraft& node, std::string_view transition) {
  auto it = std::ranges::find(node.transitions, transition,
                              &std::pair<std::string, std::string>::first);
  return it == node.transitions.end() ? nullptr : &it->second;
}

void Compiler::CheckNames() {
  if (auto problem = NameProblem("machine", draft_.machine.id)) Fail("id", *problem);
  for (const NodeDraft& node : draft_.nodes) {
    if (auto problem = NameProblem("node", node.node.id)) Fail(Path(node), *problem);
    for (const auto& [name, target] : node.transitions) CheckTransitionName(node, name);
    if (node.node.kind != NodeKind::kWork) continue;
    if (!node.settings.action.empty()) {
      if (auto problem = NameProblem("action", node.settings.action)) {
        Fail(Path(node) + ".action", *problem);
      }
    }
    if (auto problem = NameProblem("queue", node.settings.queue)) {
      Fail(Path(node) + ".queue", *problem);
    }
  }
}

void Compiler::CheckTransitionName(const NodeDraft& node, const std::string& name) {
  if (name == kTimeoutNode || name == kExhausted) return;
  auto problem = NameProblem("transition", name);
  if (!problem) return;
  if (ReservedName(name)) {
    *problem += "; of those a machine may list 'dfsmr.timeout' and 'dfsmr.exhausted'";
  }
  Fail(Path(node, name), *problem);
}

void Compiler::IndexNodes() {
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    const NodeDraft& node = draft_.nodes[i];
    if (!index_.emplace(node.node.id, i).second) {
      Fail(Path(node), "node " + Quoted(node.node.id) + " is there twice; ids must differ");
    }
  }
}

void Compiler::CheckStart() {
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    if (draft_.nodes[i].node.start) starts_.push_back(i);
  }
  if (draft_.nodes.empty()) {
    Fail("nodes", "a machine needs at least one node, with 'start: true'");
    return;
  }
  if (starts_.empty()) Fail("nodes", "no start node; exactly one node needs 'start: true'");
  for (size_t i = 1; i < starts_.size(); ++i) {
    const NodeDraft& node = draft_.nodes[starts_[i]];
    Fail(Path(node) + ".start", "a second start node: " +
                                    Quoted(draft_.nodes[starts_[0]].node.id) +
                                    " is one already; keep 'start: true' on one of them");
  }
}

void Compiler::CheckNode(const NodeDraft& draft) {
  const Node& node = draft.node;
  const std::string name = "node " + Quoted(node.id);
  if (node.kind == NodeKind::kFinal) {
    if (!draft.transitions.empty()) {
      Fail(Path(draft) + ".transitions",
           name + " is final and has transitions; remove 'final' or the transitions");
    }
  } else if (draft.transitions.empty()) {
    Fail(Path(draft), name + " is neither final nor has a transition; add 'final: true' or "
                             "'transitions: {ok: NODE}'");
  }
  if (draft.result_given && node.kind != NodeKind::kFinal) {
    Fail(Path(draft) + ".result", "'result' is for final nodes; " + name + " is a " +
                                      std::string(Name(node.kind)) + " node");
  }
  if (node.kind == NodeKind::kDelay) CheckDelay(draft);
  CheckSystemTransitions(draft);
  CheckRetry(draft);
  if (!draft.choices.empty()) CheckChoices(draft);
  if (!draft.settings.dry_run.empty()) CheckDryRun(draft);
}

void Compiler::CheckDryRun(const NodeDraft& draft) {
  const std::string& transition = draft.settings.dry_run.transition;
  if (draft.settings.dry_run.worker) return;
  std::string all;
  for (const auto& [name, target] : draft.transitions) {
    if (name == transition && !name.starts_with(kSystemPrefix)) return;
    if (!name.starts_with(kSystemPrefix)) all += (all.empty() ? "" : ", ") + name;
  }
  Fail(Path(draft) + ".dry_run", "node " + Quoted(draft.node.id) + " has no transition " +
                                     Quoted(transition) +
                                     " to report in a dry run; it has: " + all);
}

void Compiler::CheckDelay(const NodeDraft& draft) {
  const std::string name = "delay node " + Quoted(draft.node.id);
  for (const auto& [transition, target] : draft.transitions) {
    if (transition == kOk || transition == kExhausted) continue;
    if (transition == kTimeoutNode) continue;  // reported by CheckSystemTransitions
    Fail(Path(draft, transition), name + " has transition " + Quoted(transition) +
                                      "; a delay takes 'ok' by itself and may list only 'ok' and "
                                      "'dfsmr.exhausted'");
  }
  if (!draft.transitions.empty() && !TargetOf(draft, kOk)) {
    Fail(Path(draft) + ".transitions",
         name + " has no transition 'ok', which it takes when its time is over; add 'ok: NODE'");
  }
}

void Compiler::CheckSystemTransitions(const NodeDraft& draft) {
  const Node& node = draft.node;
  const std::string name = "node " + Quoted(node.id);
  const uint32_t max_visits = draft.settings.max_visits;
  const bool exhausts = TargetOf(draft, kExhausted) != nullptr;
  if (max_visits > 0 && !exhausts && node.kind != NodeKind::kFinal) {
    Fail(Path(draft) + ".max_visits",
         name + " has max_visits but no transition 'dfsmr.exhausted'; add 'dfsmr.exhausted: NODE' "
                "to say where the visits beyond " + std::to_string(max_visits) + " go");
  }
  if (max_visits == 0 && exhausts) {
    Fail(Path(draft, kExhausted), name + " has a transition 'dfsmr.exhausted' but no max_visits; "
                                         "add 'max_visits: N' or remove the transition");
  }
  if (!TargetOf(draft, kTimeoutNode)) return;
  if (node.kind != NodeKind::kWork) {
    Fail(Path(draft, kTimeoutNode), "only work nodes time out; " + name + " is a " +
                                        std::string(Name(node.kind)) +
                                        " node: remove 'dfsmr.timeout'");
  } else if (draft.settings.timeout.AtMostOnce()) {
    Fail(Path(draft, kTimeoutNode), name + " never times out (timeout: 0.0); remove "
                                           "'dfsmr.timeout' or give it a timeout");
  }
}

// A node that is not tried again may say so, since 'defaults' may say otherwise.
void Compiler::CheckRetry(const NodeDraft& draft) {
  if (draft.settings.retry.limit <= 1 || TargetOf(draft, kError)) return;
  Fail(Path(draft) + ".retry",
       "node " + Quoted(draft.node.id) +
           " has retry but no transition 'error', which it takes when no try is left; add "
           "'error: NODE', or 'retry: 1', which tries once");
}

std::string Compiler::PathOfEdge(const NodeDraft& draft, size_t edge) {
  const std::string& transition = draft.transitions[edge].first;
  const std::string path = Path(draft, transition);
  size_t first = edge;
  while (first > 0 && draft.transitions[first - 1].first == transition) --first;
  const bool one = draft.choices.empty() || (first == edge && !draft.choices[edge]);
  return one ? path : path + "[" + std::to_string(edge - first) + "].to";
}

// What a condition may refer to, and that the last choice is always open.
void Compiler::CheckChoices(const NodeDraft& draft) {
  for (size_t edge = 0; edge < draft.transitions.size(); ++edge) {
    const std::string& transition = draft.transitions[edge].first;
    const bool last =
        edge + 1 == draft.transitions.size() || draft.transitions[edge + 1].first != transition;
    std::string path = PathOfEdge(draft, edge);
    if (last != (draft.choices[edge] == nullptr)) {
      const std::string name = "transition " + Quoted(transition);
      Fail(std::move(path), last ? "the last choice of " + name +
                                       " has an 'if', so that none may "
                                       "be open; end with one that has only 'to'"
                                 : "this choice of " + name +
                                       " has no 'if', so that none behind "
                                       "it is ever taken; give it one, or move it to the end");
      continue;
    }
    if (last) continue;
    path.resize(path.size() - std::string_view("to").size());
    ForEachLeaf(*draft.choices[edge], [&](const Condition& leaf) {
      for (const std::string* json : {&leaf.value, &leaf.operand}) {
        const auto references = References(*json);
        if (!references) continue;
        for (const Reference& reference : *references) CheckReference(reference, path + "if");
      }
    });
  }
}

void Compiler::CheckReference(const Reference& reference, const std::string& path) {
  const std::string& root = reference.parts.front().key;
  if (root == "params" || root == "given" || reference.text == "instance.id") return;
  const std::string name = "'${" + reference.text + "}'";
  const std::optional<std::string> node = NodeOfOutput(reference);
  if (node && index_.contains(*node)) return;
  if (!node) {
    return Fail(path, name +
                          ": a transition chooses by ${params…}, ${given…} (the report's "
                          "params), ${NODE.output…} and ${instance.id}");
  }
  Nearest nearest(*node);
  if (++hints_ <= kHintsMax) {
    for (const NodeDraft& known : draft_.nodes) nearest.Try(known.node.id);
  }
  Fail(path, name + ": there is no node " + Quoted(*node) + nearest.Hint());
}

// Marks the nodes that can be reached along `edges` from marked ones.
void Spread(const std::vector<std::vector<NodeIndex>>& edges, std::vector<bool>* marked) {
  std::vector<NodeIndex> open;
  for (NodeIndex i = 0; i < marked->size(); ++i) {
    if ((*marked)[i]) open.push_back(i);
  }
  while (!open.empty()) {
    NodeIndex node = open.back();
    open.pop_back();
    for (NodeIndex next : edges[node]) {
      if ((*marked)[next]) continue;
      (*marked)[next] = true;
      open.push_back(next);
    }
  }
}

void Compiler::CheckRunsOn() {
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    const std::string& agent = draft_.nodes[i].settings.runs_on.agent;
    if (!Refers(agent)) continue;
    const std::string path = Path(draft_.nodes[i]) + ".runs_on.agent";
    const auto references = References(json::Quote(agent));
    for (const Reference& reference : references ? *references : std::vector<Reference>()) {
      CheckAgent(reference, i, path);
    }
  }
}

// What the agent of a node's runs_on refers to: what is known before the node is ready.
void Compiler::CheckAgent(const Reference& reference, NodeIndex of, const std::string& path) {
  const std::string& root = reference.parts.front().key;
  const bool params = root == "params" && reference.parts.size() > 1;
  if (params || reference.text == "instance.id") return;
  const std::string name = "'${" + reference.text + "}'";
  const auto worker = NodeOfWorker(reference);
  const auto node = worker ? worker : NodeOfOutput(reference);
  if (!node) {
    return Fail(path, name +
                          ": a runs_on may refer to ${params…}, ${instance.id}, "
                          "${NODE.output…} and ${NODE.worker}");
  }
  const auto found = index_.find(*node);
  if (found == index_.end()) {
    Nearest nearest(*node);
    for (const NodeDraft& known : draft_.nodes) nearest.Try(known.node.id);
    return Fail(path, name + ": there is no node " + Quoted(*node) + nearest.Hint());
  }
  NodeDraft& draft = draft_.nodes[found->second];
  std::vector<bool> after(draft_.nodes.size());
  for (NodeIndex next : targets_[found->second]) after[next] = true;
  Spread(targets_, &after);
  if (!after[of]) {
    Fail(path, name + ": node " + Quoted(*node) + " does not come before node " +
                   Quoted(draft_.nodes[of].node.id));
  } else if (worker && draft.node.kind != NodeKind::kWork) {
    Fail(path, name + ": no worker runs node " + Quoted(*node) + ", which is a " +
                   std::string(Name(draft.node.kind)) + " node");
  } else if (worker) {
    draft.node.tells_worker = true;
  }
}

NodeIndex Compiler::Resolve(const std::string& path, const std::string& target) {
  auto it = index_.find(target);
  if (it != index_.end()) return it->second;
  std::string message = "there is no node " + Quoted(target);
  if (ReservedName(target)) {
    message += " to lead to: system nodes are only passed through, by the system";
    Fail(path, std::move(message));
    return kNoNode;
  }
  Nearest nearest(target);
  if (++hints_ <= kHintsMax) {
    for (const NodeDraft& known : draft_.nodes) nearest.Try(known.node.id);
  }
  message += nearest.Hint();
  if (nearest.Best().empty()) message += "; name one under 'nodes'";
  Fail(path, std::move(message));
  return nearest.Best().empty() ? kNoNode : index_.find(std::string(nearest.Best()))->second;
}

void Compiler::ResolveTargets() {
  targets_.resize(draft_.nodes.size());
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    const NodeDraft& draft = draft_.nodes[i];
    for (size_t edge = 0; edge < draft.transitions.size(); ++edge) {
      const std::string& target = draft.transitions[edge].second;
      const bool known = index_.contains(target);
      NodeIndex to = Resolve(PathOfEdge(draft, edge), target);
      if (to != kNoNode) targets_[i].push_back(to);
      if (!known) unresolved_.push_back({i, to});
    }
  }
}

// An entry that 'dfsmr.exhausted' diverts may be diverted again at its target. The chain must end.
void Compiler::CheckDiversions() {
  std::vector<std::vector<NodeIndex>> next(draft_.nodes.size());
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    for (const auto& [transition, target] : draft_.nodes[i].transitions) {
      auto it = transition == kExhausted ? index_.find(target) : index_.end();
      if (it != index_.end()) next[i].push_back(it->second);
    }
  }
  enum class Mark : uint8_t { kNew, kOnTheWay, kDone };
  std::vector<Mark> marks(next.size(), Mark::kNew);
  std::vector<std::pair<NodeIndex, size_t>> way;  // nodes, and how many of their edges were taken
  for (NodeIndex origin = 0; origin < next.size(); ++origin) {
    if (marks[origin] == Mark::kNew) way.emplace_back(origin, 0);
    while (!way.empty()) {
      auto& [at, taken] = way.back();
      marks[at] = Mark::kOnTheWay;
      if (taken == next[at].size()) {
        marks[at] = Mark::kDone;
        way.pop_back();
        continue;
      }
      const NodeIndex to = next[at][taken++];
      if (marks[to] == Mark::kNew) way.emplace_back(to, 0);
      if (marks[to] != Mark::kOnTheWay) continue;
      Fail(Path(draft_.nodes[to], kExhausted),
           "'dfsmr.exhausted' leads from node " + Quoted(draft_.nodes[to].node.id) +
               " back to itself, through such transitions alone; an instance would come to rest "
               "nowhere: lead one of them to a node without max_visits");
    }
  }
}

void Compiler::CheckReachable() {
  if (starts_.empty()) return;  // reported already, and would be reported for every node
  std::vector<bool> reached(draft_.nodes.size());
  for (NodeIndex start : starts_) reached[start] = true;
  Spread(targets_, &reached);
  for (NodeIndex i = 0; i < reached.size(); ++i) {
    if (reached[i]) continue;
    Fail(Path(draft_.nodes[i]), "no path leads from start node " +
                                    Quoted(draft_.nodes[starts_[0]].node.id) + " to node " +
                                    Quoted(draft_.nodes[i].node.id) +
                                    "; lead a transition to it or remove it");
  }
}

void Compiler::CheckFinishes() {
  auto final = [](const NodeDraft& node) { return node.node.kind == NodeKind::kFinal; };
  if (draft_.nodes.empty()) return;
  if (std::ranges::none_of(draft_.nodes, final)) {
    problems_->push_back({false, "nodes",
                          "machine " + Quoted(draft_.machine.id) +
                              " has no final node: its instances never stop by themselves"});
    return;
  }
  // A node without transitions, or with one to an unknown name, was reported for that. The nodes
  // that lead to it may be sound.
  std::vector<bool> finishes(draft_.nodes.size());
  for (NodeIndex i = 0; i < finishes.size(); ++i) {
    finishes[i] = final(draft_.nodes[i]) || draft_.nodes[i].transitions.empty();
  }
  for (const Unresolved& edge : unresolved_) {
    if (edge.meant == kNoNode) finishes[edge.node] = true;
  }
  std::vector<std::vector<NodeIndex>> sources(draft_.nodes.size());
  for (NodeIndex i = 0; i < targets_.size(); ++i) {
    for (NodeIndex target : targets_[i]) sources[target].push_back(i);
  }
  Spread(sources, &finishes);
  for (NodeIndex i = 0; i < finishes.size(); ++i) {
    if (finishes[i]) continue;
    Fail(Path(draft_.nodes[i]), "no final node can be reached from node " +
                                    Quoted(draft_.nodes[i].node.id) +
                                    "; lead a transition towards one");
  }
}

Machine Compiler::Assemble() {
  Machine machine = std::move(draft_.machine);
  machine.start = starts_.front();
  machine.nodes.reserve(draft_.nodes.size());
  for (NodeIndex i = 0; i < draft_.nodes.size(); ++i) {
    Node node = std::move(draft_.nodes[i].node);
    node.transitions.clear();
    for (size_t t = 0; t < draft_.nodes[i].transitions.size(); ++t) {
      node.transitions.push_back({std::move(draft_.nodes[i].transitions[t].first),
                                  {targets_[i][t]}});
    }
    NodeSettings settings = std::move(draft_.nodes[i].settings);
    settings.choices = std::move(draft_.nodes[i].choices);
    if (!settings.choices.empty()) machine.conditional = true;
    if (node.kind == NodeKind::kWork && settings.action.empty()) {
      /*mutant default-action-unnamed*/ settings.action = machine.id + "." + node.id; /*end*/
    }
    if (!settings.limits.empty()) machine.nodes_ask = true;
    if (settings.bounds.ready_timeout != Duration::zero()) machine.ready_ends = true;
    node.settings = std::make_shared<const NodeSettings>(std::move(settings));
    machine.nodes.push_back(std::move(node));
  }
  machine.names.Index(machine.nodes);
  return machine;
}

Machine Compiler::Run() {
  const size_t before = problems_->size();
  if (draft_.nodes.size() > limits::kNodes) {
    Fail("nodes", "the machine has " + std::to_string(draft_.nodes.size()) + " nodes; at most " +
                      std::to_string(limits::kNodes) + " are allowed");
    return std::move(draft_.machine);
  }
  CheckNames();
  IndexNodes();
  CheckStart();
  for (const NodeDraft& node : draft_.nodes) CheckNode(node);
  ResolveTargets();
  CheckRunsOn();
  CheckDiversions();
  CheckReachable();
  CheckFinishes();

  const bool sound = std::none_of(problems_->begin() + static_cast<ptrdiff_t>(before),
                                  problems_->end(), [](const Problem& p) { return p.error; });
  return sound ? Assemble() : std::move(draft_.machine);
}

// Where the node of this id is, or would be.
size_t SlotOf(const std::vector<NodeIndex>& slots, const std::vector<Node>& nodes,
              std::string_view id) {
  const size_t mask = slots.size() - 1;
  size_t at = std::hash<std::string_view>()(id) & mask;
  while (slots[at] != kNoNode && nodes[slots[at]].id != id) at = (at + 1) & mask;
  return at;
}

}  // namespace

std::string_view Name(NodeKind kind) {
  static constexpr std::array<std::string_view, 6> kNames = {"work", "delay", "manual",
                                                             "held", "gate",  "final"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view Name(UpgradeStrategy strategy) {
  static constexpr std::array<std::string_view, 3> kNames = {"continue", "upgrade", "abort"};
  return kNames[static_cast<size_t>(strategy)];
}

const Edge* Node::FindTransition(std::string_view name) const {
  auto it = std::ranges::find(transitions, name, &Edge::transition);
  return it == transitions.end() ? nullptr : &*it;
}

std::optional<std::string> NodeOfOutput(const Reference& reference) {
  std::string node;
  for (const Reference::Part& part : reference.parts) {
    if (part.key.empty()) break;
    if (part.key == "output" && !node.empty()) return node;
    node += (node.empty() ? "" : ".") + part.key;
  }
  return std::nullopt;
}

std::optional<std::string> NodeOfWorker(const Reference& reference) {
  std::string node;
  for (const Reference::Part& part : reference.parts) {
    if (part.key.empty()) return std::nullopt;
    if (&part == &reference.parts.back()) break;
    node += (node.empty() ? "" : ".") + part.key;
  }
  const bool worker = !node.empty() && reference.parts.back().key == "worker";
  return worker ? std::optional(node) : std::nullopt;
}

std::string Node::LegalTransitions() const {
  constexpr size_t kTold = 1'000;  // bytes
  std::string list;
  for (const Edge& edge : transitions) {
    const bool choice = &edge != transitions.data() && (&edge - 1)->transition == edge.transition;
    if (ReservedName(edge.transition) || choice) continue;
    if (list.size() > kTold) return list + ", …";
    if (!list.empty()) list += ", ";
    list += edge.transition;
  }
  return list;
}

std::shared_ptr<const NodeSettings> NoSettings() {
  static const auto none = std::make_shared<const NodeSettings>();
  return none;
}

void NodeNames::Index(const std::vector<Node>& nodes) {
  slots_.assign(std::bit_ceil(2 * nodes.size() + 1), kNoNode);
  for (NodeIndex i = 0; i < nodes.size(); ++i) slots_[SlotOf(slots_, nodes, nodes[i].id)] = i;
}

NodeIndex NodeNames::Find(const std::vector<Node>& nodes, std::string_view id) const {
  return slots_.empty() ? kNoNode : slots_[SlotOf(slots_, nodes, id)];
}

Machine Compile(MachineDraft draft, std::vector<Problem>* problems) {
  return Compiler(std::move(draft), problems).Run();
}

}  // namespace dfsmr
