#include "dsrv/engine/carried.h"

#include <algorithm>
#include <set>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/reader.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/assemble.h"
#include "storage/memory_store.h"
#include "storage/rows/graph.h"
#include "storage/rows/plan.h"

namespace dfsmr {

namespace {

constexpr PartitionId kPartition = 0;
constexpr const char* kSpace = "imported";
constexpr Timestamp kLatest = Timestamp(std::chrono::hours(24 * 365 * 1'000));

// What is wrong with an instance; empty: nothing.
using Fault = std::string;

bool IsTime(Timestamp time) { return time == kNever || (time >= Timestamp() && time <= kLatest); }

bool IsText(std::string_view text) { return !InvalidUtf8(text); }

// One instance, read from a store that holds nothing else.
class Examiner {
 public:
  Examiner(const CarriedInstance& rows, const CarriedSurroundings& around)
      : around_(around), id_(rows.front().Name()) {
    Batch batch;
    for (const rows::CarriedRow& row : rows) rows::PutCarried({batch, kPartition}, kSpace, row);
    for (const auto& [name, value] : around.graphs) {
      rows::PutCarried({batch, kPartition}, kSpace, rows::GraphCarried(name, value));
    }
    Check(store_.Write(kPartition, *store_.Acquire(kPartition), batch).has_value(),
          "memory is kept");
  }

  Fault Look() {
    if (!ValidInstanceId(id_)) return "its id is none";
    auto instance = rows::GetInstance(reader(), name(), around_.resolve);
    if (!instance) return "its row is damaged, or its machine is missing";
    instance_ = *std::move(instance);
    auto problem = LookAtSpec();
    if (problem.empty()) problem = LookAtSelf();
    if (problem.empty()) problem = LookAtOutputs();
    if (problem.empty()) problem = instance_.plan ? LookAtPlan() : LookAtTokens(*machine_);
    return problem;
  }

 private:
  rows::Reader reader() const { return {store_, kPartition}; }
  rows::InstanceName name() const { return {kSpace, id_}; }

  Fault LookAtSpec() const {
    auto spec = rows::GetSpec(reader(), name());
    if (!spec) return "its params are damaged";
    if (!around_.is_object(spec->params)) return "its params are no JSON object";
    if (spec->labels.size() > limits::kLabels) return "it has too many labels";
    for (const auto& [key, value] : spec->labels) {
      if (!ValidName(key) || !IsText(value) || value.find('\0') != value.npos ||
          Characters(value) > limits::kLabelValue) {
        return "a label is none";
      }
    }
    if (!IsText(spec->client)) return "its client is no text";
    for (const auto& [node, answer] : spec->dry_answers) {
      if (!IsText(node) || !around_.is_object(answer)) return "an answer of its dry run is none";
    }
    if (!spec->flow.empty() && !around_.is_flow(spec->flow)) return "its flow is none";
    if (instance_.version == 0 && !instance_.plan) return "nobody has defined its machine";
    return "";
  }

  Fault LookAtSelf() {
    const Instance& one = instance_;
    using State = InstanceState;
    if (!ValidName(one.machine)) return "its machine has no name";
    if (one.version > 0) {
      machine_ = around_.resolve(kSpace, one.machine, one.version);
      if (!machine_) return "its machine is missing";
      if (machine_->IsPlain() == static_cast<bool>(one.plan))
        return "its machine is of another kind";
    }
    if (one.state == State::kNone || one.state == State::kStopped) return "its state is none";
    if (one.result != InstanceResult::kPending) return "it has a result, and has not stopped";
    const bool runs = one.state == State::kRunning || one.state == State::kPlanning;
    if (runs != one.waits.empty()) return "it runs, and waits for something";
    const bool stands = runs || !one.tokens.empty();
    if (stands && !one.Begun()) return "it runs, and has not begun";
    if (one.state == State::kPaused && !one.waits.Paused()) return "it is paused for no reason";
    if (one.state == State::kPlanning && !one.plan) return "it plans, and has no plan";
    for (Timestamp time :
         {one.start_time, one.end_time, one.start_at, one.start_before, one.cancel_time}) {
      if (!IsTime(time)) return "a time of it is none";
    }
    if (one.start_time == kNever || one.start_at == kNever) return "a time of it is none";
    if (!one.parent.empty() && !ValidInstanceId(one.parent)) return "its parent has no id";
    if (one.parent_step && one.parent.empty()) return "it has no parent";
    if (!IsText(one.error)) return "its error is no text";
    if (one.last_visit > 1ULL << 60) return "it has too many visits";
    for (const auto& after : one.after) {
      if (!ValidInstanceId(after.instance)) return "what it waits for has no id";
    }
    if (one.provenance) {
      const auto& [group, cause, depth, backfill, time] = *one.provenance;
      if (!group.empty() && !ValidName(group)) return "its group has no name";
      if (!IsText(cause) || !IsTime(time) || time == kNever) return "where it comes from is none";
      if (cause.find('\0') != cause.npos) return "where it comes from is none";
    }
    return one.limits ? LookAtKeys(one.limits->keys) : "";
  }

  static Fault LookAtKeys(const std::vector<LimitKey>& keys) {
    for (const LimitKey& key : keys) {
      if (!IsText(key.key) || key.key.empty() || key.key.find('\0') != key.key.npos) {
        return "a limit of it has no key";
      }
    }
    return "";
  }

  Fault LookAtOutputs() const {
    auto outputs = rows::GetOutputs(reader(), name());
    if (!outputs) return "an output is damaged";
    for (const auto& [node, text] : *outputs) {
      if (!IsText(node) || !around_.is_object(text)) return "an output is no JSON object";
    }
    auto planned = rows::GetPlanned(reader(), name());
    if (!planned) return "a flow is damaged";
    for (const auto& [step, flow] : *planned) {
      if (!IsText(step) || !around_.is_flow(flow)) return "what a planner reported is no flow";
    }
    return "";
  }

  Fault LookAtPlan() {
    const PlanState& plan = *instance_.plan;
    if (!IsText(plan.label)) return "its label is no text";
    if (plan.graph.empty()) {
      const bool began = instance_.state == InstanceState::kRunning || !instance_.tokens.empty();
      return began ? "its plan is missing" : "";
    }
    auto graph = rows::GetGraph(reader(), instance_);
    if (!graph) return "its plan is missing or damaged";
    assembled_ = Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), {.id = "plan"});
    if (!Fits(instance_, assembled_)) return "it stands where its plan has no step";
    machine_ = &assembled_;
    return LookAtTokens(assembled_);
  }

  Fault LookAtTokens(const Machine& machine) const {
    const bool plan = static_cast<bool>(instance_.plan);
    if (!plan && instance_.tokens.empty() && instance_.state != InstanceState::kScheduled) {
      return "it stands nowhere";
    }
    std::set<uint64_t> visits;
    std::set<NodeIndex> homes;
    for (const Token& token : instance_.tokens) {
      if (!visits.insert(token.visit).second) return "two tokens have one visit";
      if (plan && !homes.insert(token.home).second) return "a step has two tokens";
      if (auto problem = LookAt(token, machine); !problem.empty()) return problem;
    }
    for (const auto& [key, token] : instance_.tokens.left()) {
      if (auto problem = LookAt(token, machine); !problem.empty()) return problem;
    }
    return "";
  }

  Fault LookAt(const Token& token, const Machine& machine) const {
    if (token.node >= machine.nodes.size()) return "it stands on no node";
    const Node& node = machine.nodes[token.node];
    if (token.visit == 0 || token.visit > instance_.last_visit) return "a visit has no number";
    if (!Stands(token.state, node.kind))
      return "it stands on node " + Quoted(node.id) + " in no way";
    const bool plan = static_cast<bool>(instance_.plan);
    if (plan != static_cast<bool>(token.step)) return "a token is of another kind of machine";
    if (plan && token.home != node.home) return "a token is not where its step is";
    if (!around_.is_object(token.params) || !IsText(token.error))
      return "what a token carries is damaged";
    if (!IsTime(token.available_at)) return "a time of a token is none";
    if (token.handling && !around_.is_object(token.handling->checkpoint))
      return "a checkpoint is damaged";
    for (const Claim& claim : token.claims) {
      if (!IsText(claim.worker)) return "a worker has no name";
    }
    if (!plan) return token.limits ? LookAtKeys(token.limits->keys) : "";
    const StepState& step = *token.step;
    if (node.role == Role::kSpawn && !step.children) return "the children of a step are missing";
    if (!IsText(step.event) || !around_.is_object(step.event_data) || !IsText(step.wake)) {
      return "an event is damaged";
    }
    if (step.inbox.size() > limits::kEvents) return "too many events wait";
    for (const auto& [event, data] : step.inbox) {
      if (!IsText(event) || !around_.is_object(data)) return "an event is damaged";
    }
    return token.limits ? LookAtKeys(token.limits->keys) : "";
  }

  static bool Stands(TokenState state, NodeKind kind) {
    switch (state) {
      case TokenState::kReady:
      case TokenState::kClaimed:
        return kind == NodeKind::kWork;
      case TokenState::kWaiting:
      case TokenState::kHeld:
        return kind != NodeKind::kFinal;
      default:
        return false;
    }
  }

  const CarriedSurroundings& around_;
  const std::string id_;
  MemoryStore store_;
  Instance instance_;
  const Machine* machine_ = nullptr;
  Machine assembled_;
};

}  // namespace

Result<Ok> CheckCarried(const CarriedInstance& rows, const CarriedSurroundings& around) {
  const Fault problem = Examiner(rows, around).Look();
  if (problem.empty()) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kBadArchive,
               "instance " + Quoted(rows.front().Name()) + ": " + problem};
}

bool IsGraph(const std::string& row) {
  MemoryStore store;
  Batch batch;
  rows::PutCarried({batch, kPartition}, kSpace, rows::GraphCarried("g", row));
  Check(store.Write(kPartition, *store.Acquire(kPartition), batch).has_value(), "memory is kept");
  Instance instance;
  instance.ns = kSpace;
  instance.id = "i";
  instance.plan = PlanState();
  instance.plan->graph = "g";
  return rows::GetGraph({store, kPartition}, instance).has_value();
}

}  // namespace dfsmr
