// Plans and actions as they are written: what the YAML says, before it is compiled to nodes. Plain
// values, immutable once read. Templates are those of template.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsm/base/diagnostic.h"
#include "fsm/base/time.h"
#include "fsm/machine/limit.h"
#include "fsm/machine/machine.h"
#include "fsm/machine/timeout.h"

namespace dfsmr {

// Where something was written, for messages.
struct Written {
  Position at;
  std::string path;  // in the document, for example flow.sequence[1].input
};

// A step that has suspended is handed out again with event `poll`: `per_interval` times after each
// of the intervals, then for ever after the last.
struct PollPolicy {
  std::vector<Duration> intervals;  // at least one; default 500ms, 1s, 2s, 4s, 8s, 16s
  uint32_t per_interval = 5;
  uint32_t max_failures = 3;        // in a row
  friend bool operator==(const PollPolicy&, const PollPolicy&) = default;
};

struct Phases {
  bool run = true;
  bool finalize = false;
  friend bool operator==(const Phases&, const Phases&) = default;
};

enum class Rescue : uint8_t { kPause, kSkip, kFail };

struct Weights {
  double run = 1;
  double finalize = 1;
  friend bool operator==(const Weights&, const Weights&) = default;
};

// A JSON Schema: its check, and its text, from which the check can be made again.
struct Schema {
  std::shared_ptr<const ParamsCheck> check;  // null: anything goes
  std::string text;
};

struct Use {
  std::string name;
  std::vector<std::string> before;
  std::vector<std::string> after;
  friend bool operator==(const Use&, const Use&) = default;
};
struct MiddlewareSource {
  std::vector<Use> use;
  std::vector<std::pair<std::string, std::string>> replace;  // name → the one in its place
  std::vector<std::string> without;
  Written written;

  bool empty() const { return use.empty() && replace.empty() && without.empty(); }
};

// What is not given is inherited (`extends`), or the default.
struct ActionSource {
  std::string id;  // empty: the keys that a step gives itself
  std::string description;
  std::string extends;
  Written extends_written;
  std::optional<Phases> phases;
  std::optional<bool> planned_by_worker;  // plan: worker
  std::optional<std::string> queue;
  std::optional<int32_t> priority;
  TimeoutKeys timeout;  // inherited key by key, then judged: PolicyOf(timeout.Over(…))
  std::optional<RetryPolicy> retry;
  std::optional<Duration> run_timeout;
  std::optional<Duration> ready_timeout;
  std::optional<uint32_t> abandon_after;
  std::optional<PollPolicy> poll;
  std::optional<Rescue> rescue;
  std::string rescue_from;  // a template, "${params.X}", that is the rescue; empty: `rescue` is
  std::optional<Weights> weight;
  std::optional<Schema> input;
  std::optional<Schema> output;
  std::optional<LimitAsks> limits;        // from `limit` or `singleton`
  std::optional<OnConflict> on_conflict;  // of a singleton; it may be inherited without this
  std::optional<RunsOn> runs_on;
  std::optional<DryRunRule> dry_run;
  std::optional<std::vector<std::string>> subscribes_to;
  std::optional<std::string> with;       // a subscriber's input, a template
  MiddlewareSource middleware;
  Written written;
};

struct SpawnSource {
  std::string machine;       // a plan or a machine
  std::optional<std::string> items;  // for_each: a template; absent: one child
  std::string as = "item";
  std::string input = "{}";  // each child's params, a template that may refer to `as`
  uint32_t concurrency = 0;  // 0: no limit
};

struct FlowNode {
  enum class Kind : uint8_t { kStep, kSequence, kConcurrence, kForEach, kSection };
  Kind kind = Kind::kConcurrence;
  Written written;

  // Of all kinds.
  std::string when;                // a template, as JSON text; empty: always
  std::vector<std::string> after;  // names of steps

  // Blocks: their parts. kForEach: its body, one. kSection: its body and, if it has one, what
  // compensates that.
  std::vector<FlowNode> children;

  // kForEach.
  std::string items;        // a template, as JSON text: a reference, or a list
  std::string as = "item";
  bool sequential = false;  // sequence: {for_each: …}

  // kSection; its name and its rescue (kFail: compensate) stand with those of steps.
  RetryPolicy retry;

  // kStep.
  ConditionPtr condition;  // its `if`; null: none
  // Exactly one of action, plan, spawn, self_run.
  std::string name;
  std::string action;
  std::string plan;
  std::optional<SpawnSource> spawn;
  bool self_run = false;    // {self: run}, in a planner's flow
  std::string input = "{}"; // a template
  ActionSource own;         // an action's keys, given at the step: they win
};

struct HookSource {
  std::vector<std::string> on;  // scheduled, planning, running, paused, stopped, success, warning,
                                // failure, cancelled
  std::string action;
  std::string input = "{}";     // a template: params, instance.id
  Written written;
};

struct PlanSource {
  std::string id;
  std::string description;
  UpgradeStrategy upgrade_strategy = UpgradeStrategy::kContinue;
  std::optional<Duration> retention;  // absent: the server's
  Schema params;
  std::string label;      // template text, without quotes; empty: none
  LimitAsks limits;       // from `limit` or `singleton`
  std::optional<Duration> wait_after_fail;  // absent: no end
  std::vector<HookSource> hooks;
  MiddlewareSource middleware;
  FlowNode flow;
  Written written;
};

}  // namespace dfsmr
