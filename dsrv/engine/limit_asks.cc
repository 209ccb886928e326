#include "dsrv/engine/limit_asks.h"

#include <algorithm>

#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/machine_state.h"
#include "dsrv/engine/resident.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/base/template.h"
#include "fsm/plan/graph.h"

namespace dfsmr {
namespace {

const LimitAsks& AsksOf(const VersionState& version, const PlanSource* flow) {
  if (flow) return flow->limits;
  return version.plan ? version.plan->limits : version.definition->machine.limits;
}

// A text with the params of a start and its id filled in.
Result<std::string> FillStart(const std::string& text, const std::string& params,
                              const std::string& id) {
  return TextOf(Evaluate(json::Quote(text), [&](const Reference& reference) -> Result<std::string> {
    const std::span<const Reference::Part> path = std::span(reference.parts).subspan(1);
    if (reference.parts.front().key == "instance") return json::Quote(id);
    auto found = Find(params.empty() ? "{}" : params, path);
    if (found) return std::string(*found);
    return Missing(reference, "the instance's params have no " + PathText(path));
  }));
}

bool Has(const LimitAsks& asks, const std::string& key) {
  return std::ranges::find(asks, key, &LimitAsk::key) != asks.end();
}

// In place of what the documents say.
void Say(std::optional<OnConflict> word, LimitAsks* asks) {
  if (!word) return;
  for (LimitAsk& ask : *asks) ask.on_conflict = *word;
}

// What was given at the start stands in place of what is asked for the same key otherwise.
void AddGiven(const LimitAsks& given, LimitAsks* asks) {
  for (const LimitAsk& ask : given) {
    auto same = std::ranges::find(*asks, ask.key, &LimitAsk::key);
    if (same == asks->end()) {
      asks->push_back(ask);
    } else {
      *same = ask;
    }
  }
}

}  // namespace

Result<LimitAsks> LimitAskers::Filled(const LimitAsks& asks, const Fill& fill) const {
  LimitAsks filled;
  for (const LimitAsk& ask : asks) {
    const std::string what = ask.singleton ? "singleton: " : "limit: ";
    auto key = fill(ask.key);
    // A document that was stored before such keys were refused goes on.
    const bool stored = BuiltInOf(ask.key) != BuiltIn::kNone || ReservedName(ask.key);
    const auto problem = !key     ? std::optional(key.error().message)
                         : stored ? LimitKeyProblem(*key)
                                  : WrittenKeyProblem(*key);
    if (problem) return Error{Code::kInvalidArgument, Reason::kNone, what + *problem};
    if (Has(filled, *key)) continue;
    filled.push_back(ask);
    filled.back().key = *std::move(key);
  }
  return filled;
}

void LimitAskers::AddBuiltIns(const Subject& subject, LimitAsks* asks) const {
  if (!numbers_.AnyNumber()) return;
  const auto add = [&](std::string key) {
    if (!numbers_.HasNumber(ResidentKey(subject.ns, key)) || Has(*asks, key)) return;
    asks->push_back({.key = std::move(key), .numbers = {}});
  };
  add("machine:" + subject.machine);
  if (subject.child) return;
  add("namespace:" + subject.ns);
  if (!subject.provenance) return;
  if (!subject.provenance->group.empty()) add("group:" + subject.provenance->group);
  if (const auto cause = CountedCause(*subject.provenance)) add(std::string(*cause));
}

Result<LimitAsks> LimitAskers::OfStart(const StartArgs& args, const VersionState& version) {
  auto asks = Filled(AsksOf(version, args.flow.get()), [&](const std::string& text) {
    return FillStart(text, args.spec.params, args.id);
  });
  if (!asks) return asks;
  AddBuiltIns({args.ns, args.machine, args.provenance ? &*args.provenance : nullptr,
               static_cast<bool>(args.parent_step)},
              &*asks);
  Say(args.on_conflict, &*asks);
  AddGiven(args.asks, &*asks);
  return asks;
}

Result<LimitAsks> LimitAskers::OfInstance(Resident& resident) {
  const Instance& instance = resident.instance;
  if (instance.dry_run) return LimitAsks();
  const LimitAsks* written = &resident.version->definition->machine.limits;
  std::shared_ptr<const PlanSource> source;
  if (instance.plan) {
    auto found = values_.SourceOf(resident);
    if (!found) return found.error();
    source = *std::move(found);
    if (source) written = &source->limits;
  }
  auto asks = Filled(*written, [&](const std::string& text) {
    return TextOf(values_.Fill(resident, json::Quote(text)));
  });
  if (!asks) return asks;
  AddBuiltIns({instance.ns, instance.machine, instance.provenance ? &*instance.provenance : nullptr,
               static_cast<bool>(instance.parent_step)},
              &*asks);
  if (!instance.limits) return asks;
  Say(instance.limits->on_conflict, &*asks);
  AddGiven(instance.limits->asks, &*asks);
  return asks;
}

void LimitAskers::AddHeld(Resident& resident, LimitAsks* asks) {
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    if (!token.limits || token.limits->state != TokenLimits::State::kHolds) continue;
    const auto written = OfToken(resident, token);
    for (const LimitKey& key : token.limits->keys) {
      if (Has(*asks, key.key)) continue;
      asks->push_back({.key = key.key, .numbers = key.numbers});
      if (!written) continue;
      const auto same = std::ranges::find(*written, key.key, &LimitAsk::key);
      if (same != written->end()) asks->back() = *same;
    }
  }
}

bool LimitAskers::AsksForAny(const Resident& resident, const Token& token) {
  const Machine& machine = resident.machine();
  if (resident.instance.dry_run) return false;
  if (!machine.nodes_ask || token.node >= machine.nodes.size()) return false;
  if (resident.instance.Cancelling()) return false;  // its workers are told, whatever has no room
  const Node& node = machine.nodes[token.node];
  if (!machine.graph) return !node.settings->limits.empty();
  return node.role == Role::kRun && machine.graph->limits.contains(node.step);
}

Result<LimitAsks> LimitAskers::OfToken(Resident& resident, const Token& token) {
  if (!AsksForAny(resident, token)) return LimitAsks();
  const Machine& machine = resident.machine();
  const Node& node = machine.nodes[token.node];
  const LimitAsks& asks =
      machine.graph ? machine.graph->limits.at(node.step) : node.settings->limits;
  return Filled(asks, [&](const std::string& text) {
    return TextOf(values_.Fill(resident, json::Quote(text)));
  });
}

}  // namespace dfsmr
