// An instance of a plan, played by its rules alone. After every rule what can be counted is counted
// anew; a rule that refuses must have changed nothing.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "fsm/plan/assemble.h"
#include "fsm/plan/compile.h"
#include "fsm/plan/library.h"
#include "fsm/rules/rules.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr {

using Kinds = std::vector<ChangeKind>;
using Texts = std::vector<std::string>;

inline constexpr Timestamp kNoon = FromMicros(1'700'000'000'000'000);

inline std::string_view Word(TokenState state) {
  static constexpr std::string_view kWords[] = {"none",    "ready", "claimed",
                                                "waiting", "held",  "done"};
  return kWords[static_cast<size_t>(state)];
}

// An instance of plan p, planned and begun.
class Play {
 public:
  template <typename Rule>
  auto Do(Rule rule) {
    events.clear();
    entered.clear();
    instance.tokens.Forget();
    now += std::chrono::microseconds(1);
    Scene scene{machine, instance, now, 1, random, events, &gate};
    if (machine.conditional) {
      scene.value = [this](const Reference& reference, const FreshOutput& fresh) {
        return Value(reference, fresh);
      };
    }
    if constexpr (std::is_void_v<decltype(rule(scene))>) {
      rule(scene);
      entered = scene.entered;
      Recount();
      Keep();
    } else {
      auto outcome = rule(scene);
      entered = scene.entered;
      Recount();
      Keep();
      return outcome;
    }
  }
  explicit Play(std::string_view yaml, const std::string& given = "{}") : params(given) {
    Parsed parsed = ParseDefinitions(yaml, "test");
    std::string problems;
    for (const Diagnostic& diagnostic : parsed.diagnostics) problems += Format(diagnostic) + "\n";
    REQUIRE_MESSAGE(parsed.ok(), problems);
    Definitions library;
    for (const Machine& one : parsed.definitions) library.Add(one);
    library.Index();
    std::vector<PlanProblem> wrong;
    auto graph = CompilePlan({library.FindPlan("p"), &library, params, nullptr, "i"}, &wrong);
    REQUIRE_MESSAGE(graph, (wrong.empty() ? "" : wrong.front().message));
    machine.id = "p";
    instance.ns = "ns";
    instance.id = "i";
    instance.machine = "p";
    instance.version = 1;
    instance.plan = PlanState();
    instance.plan->wait_after_fail = library.FindPlan("p")->wait_after_fail;
    Do([](Scene& scene) { rules::Start(scene); });
    if (instance.state != InstanceState::kPlanning) return;
    machine = Assemble(graph, std::move(machine));
    Do([](Scene& scene) { rules::Planned(scene); });
  }

  // Does what must be refused, and answers why.
  template <typename Rule>
  std::string Refuse(Rule rule) {
    const Instance before = instance;
    auto outcome = Do(rule);
    CHECK_FALSE(outcome.has_value());
    CHECK(instance == before);
    CHECK(events.empty());
    CHECK(entered.empty());
    return outcome.has_value() ? "" : std::string(Name(outcome.error().reason));
  }

  const Token& At(const std::string& step) {
    const NodeIndex node = machine.Find(step);
    REQUIRE_MESSAGE(node != kNoNode, step);
    const auto slot = instance.tokens.SlotOfHome(machine.nodes[node].home);
    REQUIRE_MESSAGE(slot, step, " in ", Where());
    return std::as_const(instance.tokens)[*slot];
  }
  std::string Claim(const std::string& step, Duration timeout = std::chrono::seconds(10)) {
    const ClaimId id{1, ++serial};
    const uint64_t visit = At(step).visit;
    Do([&](Scene& scene) {
      rules::TakeClaim(scene, *instance.tokens.FindMutable(visit), {id, "w", now + timeout});
    });
    last = id;
    return rules::ClaimText(instance, visit, id);
  }
  Result<Answer> Report(ReportArgs args) {
    return Do([&](Scene& scene) { return rules::Report(scene, args); });
  }
  std::string RefuseReport(ReportArgs args) {
    return Refuse([&](Scene& scene) { return rules::Report(scene, args); });
  }
  // Claims a step and reports; the answer must be positive.
  Answer Run(const std::string& step, ReportArgs args) {
    args.claim = Claim(step);
    auto answer = Report(args);
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return *answer;
  }
  Answer Ok(const std::string& step, std::string output = "") {
    return Run(step, {.transition = "ok", .output = std::move(output)});
  }
  Answer Error(const std::string& step, std::string error = "broke") {
    return Run(step, {.transition = "error", .error = std::move(error)});
  }
  Answer Suspend(const std::string& step, std::optional<Duration> wake_after = {}) {
    return Run(step, {.transition = "suspend", .wake_after = wake_after});
  }
  Answer Outside(const std::string& step, const std::string& word, std::string given = "") {
    auto answer =
        Report({.transition = word, .params = std::move(given), .node = step, .client = "op"});
    REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().message));
    return *answer;
  }
  void Elapse(Duration by, const std::string& step) {
    now += by;
    const uint64_t visit = At(step).visit;
    Do([&](Scene& scene) { rules::EndWait(scene, visit); });
  }
  void Cancel(CancelMode mode = CancelMode::kCancel) {
    REQUIRE(Do([&](Scene& scene) { return rules::Cancel(scene, mode); }));
  }
  Result<dfsmr::Ok> Resume(const std::string& node = "", bool force = false) {
    return Do([&](Scene& scene) { return rules::Resume(scene, node, force); });
  }
  void Child(const std::string& step, ChildClass from, ChildClass to, bool unplanned = false) {
    const Token& token = At(step);
    const NodeIndex home = token.home;
    const uint64_t generation = token.step->children->generation;
    Do([&](Scene& scene) { rules::ChildMoved(scene, home, generation, from, to, unplanned); });
  }
  void StartChild(const std::string& step, const std::string& error = "") {
    const NodeIndex home = At(step).home;
    Do([&](Scene& scene) { rules::ChildStarted(scene, home, error); });
  }
  void Count(const std::string& step, uint64_t total) {
    const uint64_t visit = At(step).visit;
    Do([&](Scene& scene) { rules::CountChildren(scene, visit, total); });
  }

  // "a ready, b/error held", in order of their names.
  std::string Where() const {
    Texts texts;
    for (const Token& token : instance.tokens) {
      const std::string node = token.node < machine.nodes.size()
                                   ? machine.nodes[token.node].id
                                   : std::string(NodeName(machine, token.node));
      texts.push_back(node + " " + std::string(Word(token.state)));
    }
    std::ranges::sort(texts);
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
    return all;
  }
  std::string Ended() const {
    return std::string(Name(instance.state)) + " " + std::string(Name(instance.result)) + " " +
           (instance.plan ? instance.plan->ended_at : "");
  }
  Kinds kinds() const {
    Kinds list;
    for (const Event& event : events) list.push_back(event.kind);
    return list;
  }
  double progress() const {
    const PlanState& plan = *instance.plan;
    return plan.weight == 0 ? 1 : (plan.done_weight + plan.partial) / plan.weight;
  }

  Machine machine;
  std::string params;
  std::map<std::string, std::string> outputs;  // kept, by step
  Instance instance;
  Timestamp now = kNoon;
  uint64_t random = 0;
  uint64_t serial = 0;
  ClaimId last;
  // Answers as if one key were asked for, as a singleton.
  struct Gate : LimitGate {
    LimitAnswer Ask(const Instance&) override {
      LimitAnswer answer;
      if (!key.empty()) answer.keys = {{key, {.max = 1, .rate = {}}}};
      answer.order = 7;
      if (holder.empty()) return answer;
      answer.kind = LimitAnswer::Kind::kWaits;
      answer.why = "singleton '" + key + "' is held by instance '" + holder + "'";
      answer.singleton = true;
      return answer;
    }
    LimitAnswer WouldAnswer(const Instance& of) override { return Ask(of); }
    std::string key;
    std::string holder;
  };
  Gate gate;
  std::vector<Event> events;
  std::vector<InstanceState> entered;

 private:
  // What a condition refers to.
  std::optional<std::string> Value(const Reference& reference, const FreshOutput& fresh) const {
    const std::string& root = reference.parts.front().key;
    std::span<const Reference::Part> path = std::span(reference.parts).subspan(1);
    std::string text = params;
    if (root[0] == '#') {
      const std::string& step = machine.graph->steps[std::stoul(root.substr(2))].path;
      const auto kept = outputs.find(step);
      text = kept == outputs.end() ? "{}" : kept->second;
      if (!fresh.json.empty() && fresh.node == step) text = fresh.json;
      path = path.subspan(1);
    }
    const auto found = Find(text, path);
    return found ? std::optional(std::string(*found)) : std::nullopt;
  }
  std::string PathOf(NodeIndex node) const {
    const uint32_t step = machine.nodes[node].step;
    return step == kNoStep ? "" : machine.graph->steps[step].path;
  }
  void Keep() {
    for (const Event& event : events) {
      if (event.output.empty()) continue;
      outputs[PathOf(machine.Find(event.prev_node))] = event.output;
    }
    for (NodeIndex home : instance.tokens.TakeResets()) outputs.erase(PathOf(home));
  }
  // What must be true after every rule.
  void Recount() const {
    const Instance& in = instance;
    CHECK(in.Stopped() == (in.result != InstanceResult::kPending));
    if (in.Stopped() || !machine.graph) return;
    double partial = 0;
    for (const Token& token : in.tokens) {
      const Node& home = machine.nodes[token.home];
      REQUIRE(token.step);
      CHECK(machine.nodes[token.node].home == token.home);
      CHECK(token.visit <= in.last_visit);
      const StepAction& action = machine.graph->actions[machine.graph->steps[home.step].action];
      const double weight =
          home.role == Role::kFinalize ? action.weight.finalize : action.weight.run;
      partial += token.step->progress * weight;
    }
    CHECK(std::abs(partial - in.plan->partial) < 1e-9);
    const size_t held = in.tokens.Count(TokenState::kHeld);
    const bool stuck = held > 0 && (held == in.tokens.size() || in.plan->impatient != kNoNode);
    if (in.Cancelling()) return;
    const bool asked = in.waits.Has(Wait::kPause) || in.waits.Has(Wait::kTurn);
    CHECK((in.state == InstanceState::kPaused) == (stuck || asked));
    CHECK((in.state == InstanceState::kPaused) == in.waits.Paused());
    CHECK((!in.tokens.empty() || in.state == InstanceState::kPlanning || !in.plan->open.empty()));
  }
};

}  // namespace dfsmr
