// Where work runs: decides which workers may take what has become ready, before it is queued.
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

Error Invalid(std::string why) {
  return {Code::kInvalidArgument, Reason::kNone, "runs_on: " + std::move(why)};
}

}  // namespace

bool HandOuts::Work() {
  if (unplaced_.empty()) return false;
  if (places_left_ == 0) return turn_.WantMore(), false;
  return PlaceOne();
}

bool HandOuts::PlaceOne() {
  if (unplaced_.empty() || places_left_ == 0) return false;
  --places_left_;
  const auto next = std::move(unplaced_.front());
  unplaced_.pop_front();
  const uint64_t visit = next.second;
  const auto [ns, id] = SplitKey(next.first);
  auto touched = changer_.Touch(ns, id);
  if (!touched) return true;
  Resident& resident = **touched;
  const Instance& instance = resident.instance;
  const Token* token = instance.tokens.Find(visit);
  if (!token || token->state != TokenState::kReady || !Runs(instance.state)) return true;
  if (token->runs_on) return true;  // it was noted twice, and queued the first time
  auto runs_on = Resolve(resident, *token);
  if (!runs_on) return FailPlace(resident, visit, runs_on.error().message), true;
  changer_.Apply(resident, [&](Scene& scene) { rules::PlaceToken(scene, visit, *runs_on); });
  residents_.MarkDirty(resident);
  Enqueue(resident, *instance.tokens.Find(visit));
  return true;
}

void HandOuts::FailPlace(Resident& resident, uint64_t visit, const std::string& why) {
  const bool step = resident.machine().graph != nullptr;
  changer_.Apply(resident, [&](Scene& scene) {
    step ? rules::FailStep(scene, visit, why) : rules::PlanningFailed(scene, why);
  });
  residents_.MarkDirty(resident);
}

bool HandOuts::TryPlace(Resident& resident, const Token& token) {
  const uint64_t unknown = values_.unknown();
  const auto runs_on = Resolve(resident, token);
  // Made of outputs that nobody gave, it may well be no worker's name.
  if (runs_on || values_.unknown() != unknown) return true;
  FailPlace(resident, token.visit, runs_on.error().message);
  return false;
}

Result<RunsOn> HandOuts::Resolve(Resident& resident, const Token& token) {
  const Machine& machine = resident.machine();
  const Node& node = machine.nodes[token.node];
  RunsOn runs_on = node.settings->runs_on;
  std::string agent = std::exchange(runs_on.agent, {});
  if (machine.graph) {
    const auto compiled = machine.graph->agents.find(node.step);
    if (compiled == machine.graph->agents.end()) return runs_on;  // known to its planner alone
    agent = compiled->second;
  } else if (agent.empty()) {
    return runs_on;
  } else {
    agent = json::Quote(agent);
  }
  auto filled = values_.FillByNode(resident, agent);
  if (!filled) return Invalid(filled.error().message);
  const json::Kind kind = json::KindOf(*filled);
  const bool text = kind == json::Kind::kString || kind == json::Kind::kNumber;
  runs_on.agent = TextOf(*filled);
  if (text && ValidWorkerName(runs_on.agent)) return runs_on;
  return Invalid("the agent " + Quoted(node.settings->runs_on.agent) + " comes to " +
                 Quoted(*filled) + ", which is no worker's name");
}

}  // namespace dfsmr
