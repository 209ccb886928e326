// Plans: the model does not walk them (tests/sim/plan_audit.h does), but keeps what was promised of
// them. A cancel ends in CANCELLED, what is paused gets no task, a step errs as often as its retry
// says before it is held, a patch reaches each task to come, and a child's id is nobody else's.
#include <algorithm>

#include "fsm/base/json.h"
#include "tests/sim/model/model.h"

namespace dfsmr::model {
namespace {

// "s" of s, s/error and s/suspended; "s/finalize" of s/finalize and s/finalize/error.
std::string HomeOf(const std::string& node) {
  for (const char* suffix : {"/error", "/suspended"}) {
    if (node.ends_with(suffix)) return node.substr(0, node.rfind('/'));
  }
  return node;
}

// "s" of s/finalize as well; the steps of a compensation have a '/' of their own.
std::string StepOf(const std::string& node) {
  std::string step = HomeOf(node);
  for (const char* suffix : {"/finalize", "/gate"}) {
    if (step.ends_with(suffix)) step.resize(step.rfind('/'));
  }
  return step;
}

const StepAction* ActionOf(const PlanGraph& graph, const std::string& step) {
  for (const Step& one : graph.steps) {
    if (one.path == step) return &graph.actions[one.action];
  }
  return nullptr;
}

}  // namespace

// The graph that the instance has in the store.
const PlanGraph* Model::GraphOf(Life& life) {
  if (!life.graph && graphs_) life.graph = graphs_(life.id);
  return life.graph.get();
}

// It is planned anew in this turn, so that the store's graph is not that of all of its records.
bool Model::Planned(const Life& life) {
  return std::ranges::any_of(queues_[life.id], [](const Event& event) {
    return event.kind == ChangeKind::kUpgraded || event.kind == ChangeKind::kScheduled ||
           event.kind == ChangeKind::kStarted || event.transition == "planned";
  });
}

// Whether some definition asks that others give way to its instances.
bool Model::LimitsCancel() const {
  for (const auto& [id, versions] : machines_) {
    for (const Machine& machine : versions) {
      const LimitAsks& asks = machine.plan() ? machine.plan()->limits : machine.limits;
      const auto ask = std::ranges::find(asks, OnConflict::kCancel, &LimitAsk::on_conflict);
      if (ask != asks.end()) return true;
    }
  }
  return false;
}

void Model::Tried(Life& life, const Event& event) {
  const std::string home = HomeOf(event.prev_node);
  if (event.transition == "retry" || HomeOf(event.node) != home) {
    life.tries.erase(HomeOf(event.node));
    return;
  }
  const bool unclaimed = event.error_kind == "unclaimed";
  const bool reported = event.answer || !event.client.empty() || unclaimed;
  const bool polled = life.polled.erase(event.left_visit) > 0;
  if (event.transition != "error" || !reported || polled) return;
  const uint32_t tries = ++life.tries[home];
  const bool child = life.id.find('/') != std::string::npos;  // its parent may have cancelled it
  const bool member = event.about && !event.about->group.empty();  // or an order has
  const bool cancelled = life.cancel_requested || cancelled_now_.contains(life.id);
  if (cancelled || life.unheard || Planned(life) || child || member || LimitsCancel()) return;
  const PlanGraph* graph = GraphOf(life);
  const StepAction* action = graph ? ActionOf(*graph, StepOf(home)) : nullptr;
  if (!action) return;
  const bool held = event.node.ends_with("/error");
  const RetryPolicy& retry = action->retry;
  const bool again = MachineRules::Meant(retry, event.error_kind);
  const bool fatal = event.note.find("for good") != std::string::npos;
  const auto within = [&](const std::string& section) { return home.starts_with(section + "."); };
  const bool ends = std::ranges::any_of(life.ending, within);
  if (!held) {
    const size_t said = event.note.find("again in ");
    Duration wait = MachineRules::SpanOf(retry.delay, tries).first;
    if (said != std::string::npos) wait = Duration(std::stoll(event.note.substr(said + 9)));
    reached_ = std::max(reached_, event.time);
    life.not_before[event.visit] = After(event.time, wait);
  }
  Expect(held == (tries >= retry.limit || !again || fatal || ends),
         home + " of " + life.id + (held ? " is held" : " is tried again") + " after " +
             std::to_string(tries) + " tries of " + std::to_string(action->retry.limit));
}

void Model::FollowPlan(Life& life, const Event& event) {
  life.version = event.version;
  if (event.answer) StartKept(life.id, *event.answer);
  switch (event.kind) {
    case ChangeKind::kScheduled:
    case ChangeKind::kStarted:
      life.state = InstanceState::kRunning;
      [[fallthrough]];
    case ChangeKind::kUpgraded:
      life.graph.reset();
      life.tries.clear();
      life.patched.clear();
      life.polled.clear();
      life.ending.clear();
      break;
    case ChangeKind::kSkipped:  // "section NAME ends: …"
      if (event.transition != "end") break;
      life.ending.insert(event.note.substr(8, event.note.find(" ends: ") - 8));
      break;
    case ChangeKind::kClaimed: {
      NoteAttempt(life.machine, {{}, event.time, true, true});
      const auto from = life.not_before.find(event.visit);
      if (from == life.not_before.end()) break;
      // A time that has come has come, also when the clock goes back behind it.
      const bool came = event.time >= from->second || (now_ < reached_ && reached_ >= from->second);
      Expect(came, event.node + " of " + life.id + " is tried again too early");
      life.not_before.erase(from);
      break;
    }
    case ChangeKind::kPaused:
      life.paused = true;
      life.paused_in = turn_;
      break;
    case ChangeKind::kResumed:
      life.paused = false;
      if (event.note == "its parent goes on" || event.note.starts_with("it had stopped")) {
        life.cancel_requested = false;
      }
      if (event.note == "its parent goes on" || life.Stopped()) life.tries.clear();
      if (!life.Stopped()) break;
      life.not_before.clear();  // what was to be tried again begins anew
      life.result = InstanceResult::kPending;
      life.state = InstanceState::kRunning;
      break;
    case ChangeKind::kWoken:
      if (event.transition == "poll") life.polled.insert(event.visit);
      break;
    case ChangeKind::kTransitioned:
      if (event.transition == "planned") life.graph.reset();
      if (event.visit != 0) life.ending.erase(event.node);  // it begins anew
      if (event.visit != 0 || event.left_visit != 0) Tried(life, event);
      CheckClash(life, event.note);
      break;
    case ChangeKind::kFinished:
      life.state = InstanceState::kStopped;
      life.ended_at = event.time;
      for (size_t i = 0; i <= static_cast<size_t>(InstanceResult::kAborted); ++i) {
        const auto result = static_cast<InstanceResult>(i);
        if (event.note.starts_with(Name(result))) life.result = result;
      }
      Expect(!life.cancel_requested || life.result == InstanceResult::kCancelled,
             life.id + " was cancelled, and ends with " + std::string(Name(life.result)));
      life.cancel_requested = life.paused = false;
      life.ended = {turn_, life.result};
      break;
    default:
      break;
  }
}

// An id that a child was to have is somebody's: a client's, or i0, the generator's clash.
void Model::CheckClash(const Life& life, const std::string& note) {
  const size_t clash = note.find("instance '");
  if (note.find("exists already") == std::string::npos || clash == std::string::npos) return;
  const std::string id = note.substr(clash + 10, note.find('\'', clash + 10) - clash - 10);
  Expect(clients_.contains(id) || id == "i0" || unheard_,
         life.id + " cannot start its child " + id + ", and nobody else has taken that id");
}

void Model::CheckStep(const Task& task, Life& life) {
  const bool resumed = std::ranges::any_of(
      queues_[life.id], [](const Event& event) { return event.kind == ChangeKind::kResumed; });
  if (Planned(life)) return;
  Expect(!life.paused || resumed || life.paused_in == turn_,
         life.id + " is paused, and gets a task at " + task.node);
  Expect(!life.cancel_requested || task.event == "cancel",
         life.id + " is being cancelled, and gets a task at " + task.node);
  const auto patch = life.patched.find(task.node);
  if (patch == life.patched.end()) return;
  const auto patched = json::Member(patch->second, "v");
  const auto given = json::Member(task.node_params, "v");
  Expect(patched == given, "the input of " + task.node + " of " + life.id +
                               " was patched, and its task holds " + task.node_params);
}

// A held run phase is patched for the finalize phase to come, too.
void Model::Patched(Life& life, const std::string& node, const std::string& params) {
  const std::string home = HomeOf(node);
  life.patched[home] = params;
  if (!home.ends_with("/finalize")) life.patched[home + "/finalize"] = params;
}

}  // namespace dfsmr::model
