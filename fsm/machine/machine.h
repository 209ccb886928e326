// A machine: nodes and named transitions, as values. Immutable once compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fsm/base/names.h"
#include "fsm/base/params_check.h"
#include "fsm/base/result.h"
#include "fsm/base/template.h"
#include "fsm/base/time.h"
#include "fsm/machine/definition.h"
#include "fsm/machine/dry_run.h"
#include "fsm/machine/limit.h"
#include "fsm/machine/retry.h"
#include "fsm/machine/runs_on.h"

namespace dfsmr {

// Of fsm/condition, of which users of a machine mostly need no more than the name.
struct Condition;
using ConditionPtr = std::shared_ptr<const Condition>;

using NodeIndex = uint32_t;
inline constexpr NodeIndex kNoNode = UINT32_MAX;

// System nodes: part of every machine. Instances pass through them; a running one never stands
// there.
inline constexpr std::string_view kUpgradedNode = "dfsmr.upgraded";
inline constexpr std::string_view kAbortedNode = "dfsmr.aborted";
inline constexpr std::string_view kTimeoutNode = "dfsmr.timeout";      // also a transition
inline constexpr std::string_view kCancelledNode = "dfsmr.cancelled";
inline constexpr std::string_view kExhausted = "dfsmr.exhausted";      // a transition only

enum class NodeKind : uint8_t { kWork, kDelay, kManual, kHeld, kGate, kFinal };
// What a node of a compiled plan is to its step.
enum class Role : uint8_t {
  kNone, kRun, kError, kSuspended, kSpawn, kPass, kFinalize, kFinalizeError, kPlanner,
  kSection,    // in front of the steps of a section, or of its compensation
  kSectionEnd  // behind them
};
inline constexpr uint32_t kNoStep = UINT32_MAX;
inline constexpr uint32_t kNoSection = UINT32_MAX;
enum class Join : uint8_t { kAny, kAll };
enum class UpgradeStrategy : uint8_t { kContinue, kUpgrade, kAbort };
enum class Outcome : uint8_t { kSuccess, kWarning, kError };  // `result` of a final node

std::string_view Name(NodeKind kind);             // "work", "delay", …, as runner.proto's Node.kind
std::string_view Name(UpgradeStrategy strategy);  // "continue", "upgrade", "abort"

struct TimeoutPolicy {
  enum class Strategy : uint8_t { kPercentile, kFixed };
  Strategy strategy = Strategy::kPercentile;
  double value = 95.0;  // percent, or seconds; 0.0 under either: never timed out, at most once
  Duration initial = std::chrono::seconds(60);
  Duration min = std::chrono::milliseconds(100);
  Duration max = std::chrono::hours(24);

  bool AtMostOnce() const { return value == 0.0; }
  friend bool operator==(const TimeoutPolicy&, const TimeoutPolicy&) = default;
};

struct Edge {
  std::string transition;
  std::vector<NodeIndex> targets;  // one in a machine; several fork in a compiled plan
};

// What a document may say of a node besides its kind and its transitions.
struct NodeSettings {
  // The `if` of each of its edges, null where there is none; empty: none of them has one. Of edges
  // with one transition the first is taken whose `if` is true or null.
  std::vector<ConditionPtr> choices;
  TimeoutPolicy timeout;          // work
  std::string action;             // work: what a worker must be able to do; "<machine>.<node>"
  std::string queue = "default";  // work
  int32_t priority = 0;           // work
  DelayPolicy delay;              // delay
  uint32_t max_visits = 0;        // 0: no limit
  LimitAsks limits;               // work
  RunsOn runs_on;                 // work; as written
  RetryPolicy retry;              // work
  AttemptBounds bounds;           // work
  DryRunRule dry_run;             // work
  std::string description;
};
std::shared_ptr<const NodeSettings> NoSettings();  // the defaults

// A plan has one to three nodes for each of its steps, so the settings of many nodes are shared.
struct Node {
  std::string id;
  std::vector<Edge> transitions;  // in document order; may hold dfsmr.timeout and dfsmr.exhausted
  std::shared_ptr<const NodeSettings> settings = NoSettings();
  NodeKind kind = NodeKind::kWork;
  bool start = false;
  bool decides = false;    // of a compiled plan: its step has an `if`, decided here
  bool announces = false;  // of a compiled plan: conditions behind it want to know when it settles
  bool tells_worker = false;  // who reports its `ok` is kept: some runs_on refers to it
  Join join = Join::kAny;
  Outcome result = Outcome::kSuccess;  // final

  // Of a compiled plan.
  Role role = Role::kNone;   // kNone: a gate between steps, or /start and /end
  uint32_t step = kNoStep;   // in graph->steps
  uint32_t waits_for = 0;    // join kAll: how many nodes lead here by ok or skip
  NodeIndex home = kNoNode;  // the first node of its step and phase, whose row holds its token
  uint32_t section = kNoSection;  // the innermost that it is in, of machine.sections

  bool AtMostOnce() const { return settings->timeout.AtMostOnce(); }
  // Null when there is no such transition.
  const Edge* FindTransition(std::string_view name) const;
  // The transitions that a worker or operator may name, for error messages: "ok, error".
  std::string LegalTransitions() const;
};

// Finds nodes by their ids.
class NodeNames {
 public:
  void Index(const std::vector<Node>& nodes);
  // kNoNode when there is none. `nodes` are those that were indexed.
  NodeIndex Find(const std::vector<Node>& nodes, std::string_view id) const;

 private:
  std::vector<NodeIndex> slots_;  // by hash of the id, or the next that was free; half are empty
};

struct PlanGraph;

// Where the nodes of a section of a compiled plan are; see Section in fsm/plan/graph.h.
struct SectionNodes {
  NodeIndex entry = 0;
  NodeIndex exit = 0;
  NodeIndex own_end = 0;         // [entry, own_end): of its steps, without the compensation
  NodeIndex end = 0;             // [entry, end): with it
  std::vector<NodeIndex> gates;  // of all that is in it, elsewhere
  // What leads into it from outside, by the homes of the nodes: from, to. Those that lead into a
  // section in it are that section's.
  std::vector<std::pair<NodeIndex, NodeIndex>> incoming;
};

struct Machine {
  std::string id;
  std::string description;
  UpgradeStrategy upgrade_strategy = UpgradeStrategy::kContinue;
  std::optional<Duration> retention;  // absent: the server's
  std::vector<Node> nodes;            // in document order
  NodeIndex start = 0;
  LimitAsks limits;                           // of an instance; a plan's are in its source
  bool nodes_ask = false;                     // whether a node or a step asks for limits
  bool conditional = false;                   // a transition chooses, or a step has an `if`
  bool ready_ends = false;                    // whether a node or a step has a ready_timeout
  std::shared_ptr<const ParamsCheck> params;  // null: anything goes
  std::string source;                 // the text of this document alone
  // Equal for documents that differ only in comments, key order or layout.
  std::string fingerprint;

  DefinedAs defined_as;
  std::shared_ptr<const PlanGraph> graph;  // that `nodes` were made of; null: they were written
  std::vector<SectionNodes> sections;      // as graph->sections

  bool IsPlain() const { return std::holds_alternative<PlainMachine>(defined_as); }
  // The plan or action as written; null: it is not one.
  const PlanSource* plan() const {
    const PlanPtr* plan = std::get_if<PlanPtr>(&defined_as);
    return plan ? plan->get() : nullptr;
  }
  const ActionSource* action() const {
    const ActionPtr* action = std::get_if<ActionPtr>(&defined_as);
    return action ? action->get() : nullptr;
  }

  NodeIndex Find(std::string_view node) const { return names.Find(nodes, node); }
  NodeNames names;  // of the nodes; filled by Compile
};

// What is wrong with (or odd about) a definition, at a path such as "nodes.crawl.transitions.ok".
struct Problem {
  bool error = true;  // false: a warning
  std::string path;
  std::string message;
  friend bool operator==(const Problem&, const Problem&) = default;
};

// A definition as written: targets are still names.
struct NodeDraft {
  Node node;  // its `transitions` and `settings` are not used
  NodeSettings settings;
  std::vector<std::pair<std::string, std::string>> transitions;  // transition → target
  std::vector<ConditionPtr> choices;  // of each of them; empty: none has an `if`
  bool timeout_given = false;
  bool result_given = false;
};
struct MachineDraft {
  Machine machine;  // its `nodes` are empty
  std::vector<NodeDraft> nodes;
};

// The node whose output a condition of a machine refers to: "check" of ${check.output.sum}. Names
// of nodes may hold dots. nullopt: it refers to no output.
std::optional<std::string> NodeOfOutput(const Reference& reference);
// The node whose worker a `runs_on` refers to: "check" of ${check.worker}. nullopt: none.
std::optional<std::string> NodeOfWorker(const Reference& reference);

// Resolves names and checks soundness: all that is "Refused at define time" because of the graph,
// not of the text. Appends what it finds to `problems`; the machine is usable only without errors.
Machine Compile(MachineDraft draft, std::vector<Problem>* problems);

}  // namespace dfsmr
