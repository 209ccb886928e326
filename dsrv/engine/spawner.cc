#include "dsrv/engine/spawner.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/family.h"
#include "dsrv/engine/followers.h"
#include "dsrv/engine/inherit.h"
#include "dsrv/engine/kept_starts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/starter.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/turn.h"
#include "dsrv/engine/values.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "storage/rows/plan.h"
#include "storage/rows/retention.h"

namespace dfsmr {
namespace {

constexpr size_t kStartsPerPass = 200;
constexpr size_t kStartsAtOnce = 50;  // for one step, before others come

// Of a child that a worker has named: `own` is its id when it has not.
Error LivesElsewhere(const std::string& id, const std::string& own) {
  return {Code::kInvalidArgument, Reason::kNone,
          "its id " + Quoted(id) + " lives in another partition than its parent, where a child has "
          "to live: " + Quoted(own) + " would do, the id that it gets when none is given"};
}

}  // namespace

void Spawner::Enlist(const Instance& instance, uint64_t visit) {
  Job job{ResidentKey(instance.ns, instance.id), visit};
  if (enlisted_.insert(job).second) waiting_.push_back(std::move(job));
}

void Spawner::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  if (!instance.plan) return;
  for (const Token& token : std::as_const(instance.tokens)) {
    if (rules::WantsChildren(instance, token)) Enlist(instance, token.visit);
  }
}

void Spawner::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.plan) return;
  for (const Tokens::Touched& touched : change.touched()) {
    const Token* now = instance.tokens.Find(touched.visit);
    /*mutant children-not-spawned*/ if (now && rules::WantsChildren(instance, *now))
      Enlist(instance, touched.visit); /*end*/
  }
  if (!Runs(instance.state) || change.before.state != InstanceState::kPaused) return;
  for (const Token& token : instance.tokens) {
    if (rules::WantsChildren(instance, token)) Enlist(instance, token.visit);
  }
}

void Spawner::BeginPass() { left_ = kStartsPerPass; }

bool Spawner::Work() {
  if (waiting_.empty()) return false;
  if (left_ == 0) {
    turn_.WantMore();
    return false;
  }
  const Job job = std::move(waiting_.front());
  waiting_.pop_front();
  size_t budget = std::min(left_, kStartsAtOnce);
  left_ -= budget;
  const bool done = SpawnSome(job, &budget);
  left_ += budget;
  if (done) {
    enlisted_.erase(job);
  } else {
    waiting_.push_back(job);
  }
  return true;
}

bool Spawner::SpawnSome(const Job& job, size_t* budget) {
  const auto [ns, id] = SplitKey(job.first);
  auto touched = changer_.Touch(ns, id);
  if (!touched) return true;
  Resident& resident = **touched;
  while (true) {
    const Token* token = std::as_const(resident.instance.tokens).Find(job.second);
    if (!token || !rules::WantsChildren(resident.instance, *token)) return true;
    if (*budget == 0) return false;
    --*budget;
    residents_.MarkDirty(resident);
    SpawnOne(resident, Token(*token));
  }
}

void Spawner::SpawnOne(Resident& resident, const Token& token) {
  const ChildCounts& children = *token.step->children;
  if (!children.counted) return CountItems(resident, token);
  if (children.restart) return RestartChild(resident, token);
  StartNext(resident, token);
}

void Spawner::StartNext(Resident& resident, const Token& token) {
  const ChildCounts& children = *token.step->children;
  auto args = ChildOf(resident, token, children.started);
  std::string error;
  if (!args) {
    error = args.error().message;
  } else if (args->id.size() > limits::kInstanceId) {
    error = "its id " + Quoted(args->id) + " would be longer than " +
            std::to_string(limits::kInstanceId) + " characters";
  } else {
    const std::string id = args->id;
    args->spec.client = "step " + std::string(NodeName(resident.machine(), token.home));
    auto started = starter_.Start(*std::move(args));
    if (!started) {
      error = started.error().message;
    } else if (!started->created) {
      error = "instance " + Quoted(id) + " exists already";
    }
  }
  if (!error.empty()) {
    const uint64_t number = children.first + children.started;
    rows::PutUnstarted(turn_.writer(), resident.instance, token.home, number);
  }
  changer_.Apply(resident, [&](Scene& scene) { rules::ChildStarted(scene, token.home, error); });
}

void Spawner::CountItems(Resident& resident, const Token& token) {
  const Node& home = resident.machine().nodes[token.home];
  const Spawn& spawn = resident.machine().graph->spawns.at(home.step);
  uint64_t total = 1;
  if (spawn.items) {
    PlanItems& items = ItemsOf(resident, token);
    total = 0;
    auto first = ItemOf(resident, spawn, &items, 0);
    if (!first && first.error().code != Code::kInternal) {
      const std::string why = first.error().message;
      changer_.Apply(resident, [&](Scene& scene) { rules::FailStep(scene, token.visit, why); });
      return;
    }
    json::ForEachItem(items.list, [&total](std::string_view) { return ++total, true; });
  }
  changer_.Apply(resident, [&](Scene& scene) { rules::CountChildren(scene, token.visit, total); });
}

// The next child that may have to be begun again: one that never had a step ready, or that could
// not be started at all.
void Spawner::RestartChild(Resident& resident, const Token& token) {
  const ChildCounts& children = *token.step->children;
  const uint64_t number = children.restart_at;
  auto advance = [&] {
    changer_.Apply(resident,
                   [&](Scene& scene) { rules::RestartedUpTo(scene, token.visit, number + 1); });
  };
  auto args = ChildOf(resident, token, number);
  if (!args) return advance();
  const uint64_t named = children.first + number;
  auto noted = rows::IsUnstarted(turn_.reader(), resident.instance, token.home, named);
  turn_.Trust(noted);
  if (noted && *noted) {
    const auto started = starter_.Start(*std::move(args));
    if (started && started->created) {  // else it is still somebody else's
      rows::DropUnstarted(turn_.writer(), resident.instance, token.home, named);
      changer_.Apply(resident, [&](Scene& scene) {
        rules::ChildMoved(scene, token.home, children.generation, ChildClass::kFailed,
                          ChildClass::kRunning, /*unplanned=*/true);
      });
    }
    return advance();
  }
  auto child = changer_.Touch(args->ns, args->id);
  const bool ours = child && (*child)->instance.parent_step == args->parent_step &&
                    (*child)->instance.Stopped() && Unplanned((*child)->instance);
  if (ours) {
    Revive(**child);
    while (family_.Work()) {
      // It counts as running before its siblings are judged.
    }
  }
  advance();
}

// A stopped instance that never began begins again.
void Spawner::Revive(Resident& resident) {
  Instance& instance = resident.instance;
  if (resident.stopped_on_disk) {
    rows::Revive(turn_.writer(), instance, residents_.ExpiryOf(resident));
    resident.stopped_on_disk = false;
  }
  if (!instance.dry_run)
    statistics_.NoteDropped(*resident.version, instance.result);  // as if it were
  rows::DropPlan(turn_.writer(), instance);
  // As if it were started now: what kept it from being planned may have been mended since.
  const uint32_t own = catalog_.VersionMeantBy(*resident.version, instance.machine);
  if (VersionState* latest = catalog_.VersionOf(instance.ns, instance.machine, own);
      latest && latest->plan) {
    if (instance.version != 0) {
      resident.version = latest;
      instance.version = latest->definition->version;
    }
  }
  resident.graph = resident.version->graph;
  resident.plan.reset();
  changer_.Apply(resident, [](Scene& scene) { rules::BeginAgain(scene); });
  residents_.MarkDirty(resident);
  FollowAgain(resident);
}

// It waits again for those that it waited for.
void Spawner::FollowAgain(Resident& resident) {
  Instance& instance = resident.instance;
  const std::vector<Instance::Prerequisite> after = instance.after;
  for (const Instance::Prerequisite& one : after) {
    if (!options_.Has(instance.ns, one.instance)) {
      followers_.Add(instance, one.instance);
      continue;
    }
    auto other = changer_.Touch(instance.ns, one.instance);
    if (other && !(*other)->instance.Stopped()) {
      followers_.Add(instance, one.instance);
      continue;
    }
    const InstanceResult result = other ? (*other)->instance.result : InstanceResult::kError;
    changer_.Apply(resident,
                   [&](Scene& scene) { rules::PrerequisiteStopped(scene, one.instance, result); });
  }
}

Result<StartArgs> Spawner::ChildOf(Resident& resident, const Token& token, uint64_t number) {
  const Node& home = resident.machine().nodes[token.home];
  const Step& step = resident.machine().graph->steps[home.step];
  const ChildCounts& children = *token.step->children;
  StartArgs args;
  args.ns = resident.instance.ns;
  args.priority = resident.instance.priority;
  args.parent = resident.instance.id;
  args.parent_step = ParentStep{token.home, children.generation};
  Deepen(resident.instance, &args);
  args.id = resident.instance.id + "/" + step.path + "/" + std::to_string(children.first + number);
  const std::string own = args.id;
  auto child = home.role == Role::kSpawn ? Spawned(resident, token, number, std::move(args))
                                         : Asked(resident, token, number, std::move(args));
  if (child && !options_.Has(child->ns, child->id)) return LivesElsewhere(child->id, own);
  if (child) InheritTrace(residents_, resident, token.visit, 0, &*child);
  return child;
}

// What its package has is of the same version of it.
void Spawner::Pin(const Resident& resident, StartArgs* args) const {
  args->version = catalog_.VersionMeantBy(*resident.version, args->machine);
  args->inside = args->version > 0;
}

// As a worker asked for it.
Result<StartArgs> Spawner::Asked(Resident& resident, const Token& token, uint64_t number,
                                 StartArgs args) {
  PlanItems& items = ItemsOf(resident, token);
  if (items.starts.empty()) {
    auto starts = rows::GetStarts(turn_.reader(), {args.ns, args.parent}, token.home);
    turn_.Trust(starts);
    if (!starts) return starts.error();
    items.starts = *std::move(starts);
  }
  if (number >= items.starts.size()) {
    return Error{Code::kInternal, Reason::kNone, "no child of that number was asked for"};
  }
  const rows::ChildStart& start = items.starts[number];
  args.machine = start.machine;
  args.package_version = start.package_version;
  args.inside = catalog_.IsOwn(*resident.version, args.machine, args.package_version);
  if (start.package_version.empty()) {
    args.machine = catalog_.NameMeantBy(*resident.version, start.machine);
    args.version = start.version;
    if (args.version == 0) Pin(resident, &args);
  }
  if (!start.id.empty()) args.id = start.id;
  if (start.priority != 0) args.priority = start.priority;
  if (auto asked = AsAsked(start, options_, &args); !asked) return asked.error();
  return args;
}

// As the plan's spawn says.
Result<StartArgs> Spawner::Spawned(Resident& resident, const Token& token, uint64_t number,
                                   StartArgs args) {
  PlanItems& items = ItemsOf(resident, token);
  const PlanGraph& graph = *resident.machine().graph;
  const Node& home = resident.machine().nodes[token.home];
  const Spawn& spawn = graph.spawns.at(home.step);
  args.machine = spawn.machine;
  Pin(resident, &args);
  std::string item = "null";
  if (spawn.items) {
    auto listed = ItemOf(resident, spawn, &items, number);
    if (!listed) return listed.error();
    item = *std::move(listed);
  }
  const std::string* patched = resident.instance.tokens.Patched(token.home);
  const std::string& input = patched ? *patched : spawn.input;
  auto params = Evaluate(input, [&](const Reference& reference) -> Result<std::string> {
    if (!spawn.items || reference.parts.front().key != spawn.as)
      return values_.Value(resident, reference);
    auto found = Find(item, std::span(reference.parts).subspan(1));
    if (found) return std::string(*found);
    return Missing(reference, "item " + std::to_string(number) + " of the list has no such thing");
  });
  if (!params) return params.error();
  if (resident.instance.dry_run && *params == "null") *params = "{}";  // nobody gave them
  if (json::KindOf(*params) != json::Kind::kObject || params->size() > limits::kJson) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 "input: expected an object of at most " + std::to_string(limits::kJson) +
                     " bytes for its params, but it is " + Quoted(Head(*params, 100))};
  }
  args.spec.params = *std::move(params);
  return args;
}

// The list is the same whenever it is asked for: what it is made of does not change any more.
Result<std::string> Spawner::ItemOf(Resident& resident, const Spawn& spawn, PlanItems* items,
                                    uint64_t number) {
  if (items->list.empty()) {
    auto list = values_.Fill(resident, *spawn.items);
    if (!list) return list.error();
    if (resident.instance.dry_run && *list == "null") *list = "[]";  // nobody gave it
    if (json::KindOf(*list) != json::Kind::kArray) {
      return Error{Code::kInvalidArgument, Reason::kNone,
                   "for_each: expected a list, not " + *list};
    }
    items->list = *std::move(list);
  }
  if (number < items->next) items->at = items->next = 0;
  std::optional<std::string_view> item;
  while (items->next <= number) {
    item = json::NextItem(items->list, &items->at);
    if (!item)
      return Error{Code::kInternal, Reason::kNone,
                   "the list has no item " + std::to_string(number)};
    ++items->next;
  }
  return std::string(*item);
}

}  // namespace dfsmr
