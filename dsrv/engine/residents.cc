#include "dsrv/engine/residents.h"

#include <algorithm>
#include <functional>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/statistics.h"
#include "fsm/base/limits.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

// Of those that have stopped, while there is room: what repeats a report is answered from memory.
// More of them would only spread what lives over more memory than the processor's caches hold.
constexpr size_t kEndedKept = 1'000;

}  // namespace

std::string ResidentKey(std::string_view ns, std::string_view id) {
  std::string key;
  key.reserve(ns.size() + id.size() + 1);
  key += ns;
  key += '\0';
  key += id;
  return key;
}

std::pair<std::string, std::string> SplitKey(const std::string& key) {
  const size_t zero = key.find('\0');
  return {key.substr(0, zero), key.substr(zero + 1)};
}

template <typename One>
size_t Residents::ByName::operator()(const One& one) const {
  if constexpr (std::is_same_v<One, ResidentName>) {
    const std::hash<std::string_view> hash;
    return hash(one.id) ^ Mix(hash(one.ns));
  } else {
    return (*this)(NameOf(*one));
  }
}

template <typename One, typename Other>
bool Residents::ByName::operator()(const One& one, const Other& other) const {
  if constexpr (!std::is_same_v<One, ResidentName>) {
    return (*this)(NameOf(*one), other);
  } else if constexpr (!std::is_same_v<Other, ResidentName>) {
    return one == NameOf(*other);
  } else {
    return one == other;
  }
}

Resident* Residents::Insert(Instance instance, VersionState* version, GraphPtr graph) {
  auto resident = std::make_unique<Resident>();
  resident->instance = std::move(instance);
  resident->version = version;
  resident->graph = std::move(graph);
  resident->stopped_on_disk = resident->instance.Stopped();
  Resident* added = resident.get();
  added->ended = added->instance.Stopped();
  auto& list = ListOf(*added);
  added->place = list.insert(list.end(), added);
  residents_.insert(std::move(resident));
  return added;
}

Resident* Residents::InMemory(ResidentName name) {
  auto it = residents_.find(name);
  return it == residents_.end() ? nullptr : it->get();
}

void Residents::Erase(Resident& resident) {
  NotLazy(resident);
  Check(!Dirty(resident), "an instance leaves memory without a row that is to be written");
  Check(resident.claim_timers.empty(), "an instance leaves memory without its claims' timers");
  ListOf(resident).erase(resident.place);
  residents_.erase(residents_.find(NameOf(resident)));
}

Result<Resident*> Residents::Load(const std::string& ns, const std::string& id) {
  if (Resident* resident = InMemory({ns, id})) {
    resident->used = true;
    return resident;
  }
  auto instance = rows::GetInstance(turn_.reader(), {ns, id}, catalog_.resolve());
  if (!instance) {
    if (instance.error().code != Code::kNotFound) turn_.Trust(instance);
    return instance.error();
  }
  VersionState* version = catalog_.VersionFor(*instance);
  auto graph = catalog_.LoadGraph(*instance, *version);
  if (!graph) {
    turn_.Trust(graph);
    return graph.error();
  }
  return Insert(*std::move(instance), version, *std::move(graph));
}

bool Residents::IsLeftOnDisk(const Resident& resident) {
  const Instance& instance = resident.instance;
  return instance.Stopped() && instance.resumable && instance.plan && resident.stopped_on_disk &&
         !resident.left_here;
}

Result<Ok> Residents::LoadGraphOfLeft(Resident& resident) {
  if (resident.instance.plan->graph.empty() || resident.machine().graph) return Ok{};
  auto graph = catalog_.LoadGraph(resident.instance, *resident.version, /*resumed=*/true);
  turn_.Trust(graph);
  if (!graph) return graph.error();
  resident.graph = *std::move(graph);
  return Ok{};
}

Result<Ok> Residents::LoadLeft(Resident& resident) {
  if (!IsLeftOnDisk(resident)) return Ok{};
  auto restored = rows::RestoreSteps(turn_.reader(), &resident.instance);
  turn_.Trust(restored);
  if (!restored) return restored;
  resident.left_here = true;
  MarkDirty(resident);  // so that it is forgotten when the turn ends
  return LoadGraphOfLeft(resident);
}

Result<Ok> Residents::LoadLeft(Resident& resident, NodeIndex home) {
  if (!IsLeftOnDisk(resident) || resident.instance.tokens.LeftAt(home)) return Ok{};
  auto restored = rows::RestoreStep(turn_.reader(), home, &resident.instance);
  turn_.Trust(restored);
  if (!restored) return restored;
  MarkDirty(resident);
  return LoadGraphOfLeft(resident);
}

rows::Reader Residents::RowsOf(const std::string& ns, const std::string& id) const {
  return {turn_.reader().view, PartitionOf(ns, id, options_.partitions)};
}

Result<Instance> Residents::ReadElsewhere(const std::string& ns, const std::string& id) const {
  return rows::GetInstance(RowsOf(ns, id), {ns, id}, catalog_.resolve());
}

Result<std::optional<uint64_t>> Residents::FirstSeqOf(const std::string& ns,
                                                      const std::string& id) {
  std::optional<uint64_t> first;
  if (Resident* resident = InMemory({ns, id})) {
    auto spec = SpecOf(*resident);
    if (!spec) return spec.error();
    return first = (*spec)->first_seq;
  }
  auto spec = rows::FindSpec(turn_.reader(), {ns, id});
  turn_.Trust(spec);
  if (!spec) return spec.error();
  if (*spec) first = (*spec)->first_seq;
  return first;
}

Result<std::shared_ptr<const Spec>> Residents::SpecOf(Resident& resident) {
  if (!resident.spec) {
    auto spec = rows::GetSpec(turn_.reader(), {resident.instance.ns, resident.instance.id});
    if (!spec) {
      turn_.Trust(spec);
      return spec.error();
    }
    resident.spec = std::make_shared<const Spec>(*std::move(spec));
  }
  return resident.spec;
}

InstanceView Residents::ViewOf(Resident& resident) {
  auto spec = SpecOf(resident);
  InstanceView view;
  view.partition = turn_.partition();
  view.waits_for_group = resident.instance.waits.Has(Wait::kGroup);
  view.left_behind = resident.version->LeftBehind();
  view.spec = spec ? *spec : std::make_shared<const Spec>();
  Tokens& tokens = resident.instance.tokens;
  if (tokens.size() <= limits::kTokensShown) {
    view.instance = resident.instance;
  } else {
    Tokens all = std::move(tokens);
    tokens = {};
    view.instance = resident.instance;
    tokens = std::move(all);
    view.more_tokens = tokens.size() - limits::kTokensShown;
    for (size_t slot = 0; slot < limits::kTokensShown; ++slot) {
      view.instance.tokens.Restore(std::as_const(tokens)[slot]);
    }
  }
  const MachineVersion& definition = *resident.version->Now().definition;
  view.instance.version = definition.version;
  view.package = definition.package;
  for (const Token& token : view.instance.tokens) {
    view.nodes.emplace_back(token.node == kElsewhere ? resident.instance.plan->ended_at
                                                     : NodeName(resident.machine(), token.node));
    view.tries_limits.push_back(TriesLimitOf(&resident.machine(), token));
  }
  return view;
}

// What is to be written --------------------------------------------------------------------------

void Residents::MarkDirty(Resident& resident) {
  NotLazy(resident);
  if (Dirty(resident)) return;
  resident.dirty_turn = turn_.number();
  dirty_.push_back(&resident);
}

void Residents::MarkLazy(Resident& resident) {
  if (resident.lazy || Dirty(resident)) return;
  resident.lazy = true;
  resident.lazy_place = lazy_.emplace(lazy_.end(), After(turn_.real(), options_.lazy), &resident);
}

void Residents::NotLazy(Resident& resident) {
  if (std::exchange(resident.lazy, false)) lazy_.erase(resident.lazy_place);
}

namespace {

// The step whose node it is.
std::string StepOf(const Machine& machine, const std::string& node) {
  const NodeIndex index = machine.Find(node);
  const uint32_t step = index == kNoNode ? kNoStep : machine.nodes[index].step;
  return step == kNoStep ? node : machine.graph->steps[step].path;
}

}  // namespace

// Steps of a section that begins anew have no outputs any more.
void Residents::DropOutputs(Resident& resident) {
  const Machine& machine = resident.machine();
  for (NodeIndex home : resident.instance.tokens.TakeResets()) {
    const uint32_t step = machine.nodes[home].step;
    if (step == kNoStep) continue;
    /*mutant outputs-outlive-try*/ rows::DropOutput(turn_.writer(), resident.instance,
                                                    machine.graph->steps[step].path); /*end*/
  }
}

void Residents::Stage(Resident& resident, std::vector<Event>& events) {
  const bool resets = resident.instance.tokens.HasResets();
  if (events.empty() && resident.pending.empty() && !resets) return;
  MarkDirty(resident);  // before anything is noted that the store does not have yet
  auto append = [&](Event& event) {
    if (!event.output.empty()) {
      std::string node = event.prev_node;
      if (resident.instance.plan) node = StepOf(resident.machine(), node);
      rows::PutOutput(turn_.writer(), resident.instance, node, event.output);
      resident.got_outputs = true;
      event.output.clear();
    }
    if (event.worker) KeepWorker(resident, event);
    if (resident.instance.dry_run) {
      if (!event.about) event.about = Event::About{};
      event.about->dry_run = true;
    }
    if (resident.version->stands_for && event.version == resident.instance.version) {
      event.version = resident.version->Now().definition->version;
    }
    statistics_.Record(&event, resident.version);
    resident.instance.change_time = event.time;
    /*mutant record-not-in-history*/ resident.instance.history.push_back(turn_.last_seq()); /*end*/
  };
  /*mutant planted-19*/ for (Event& event : resident.pending)
    append(event);
  for (Event& event : events) append(event); /*end*/
  /*mutant hand-out-told-twice*/ resident.pending = std::vector<Event>();
  /*end*/  // with its memory: most are at rest most of the time
  if (resets) DropOutputs(resident);
}

// Who reported `ok`, for the runs_on that refer to it.
void Residents::KeepWorker(Resident& resident, Event& event) {
  const std::string node = resident.instance.plan
                               ? event.prev_node.substr(0, event.prev_node.find('/'))
                               : event.prev_node;
  rows::PutWorker(turn_.writer(), resident.instance, node, *event.worker);
  resident.got_outputs = true;
  event.worker.reset();
}

void Residents::Settle(Resident& resident) {
  if (!resident.lazy && resident.pending.empty()) return;
  std::vector<Event> none;
  Stage(resident, none);
  MarkDirty(resident);
}

void Residents::SettleAll() {
  while (!lazy_.empty()) Settle(*lazy_.front().second);
}

void Residents::SettleDue() {
  while (SettleDueAt() <= turn_.real()) Settle(*lazy_.front().second);
}

Timestamp Residents::ExpiryOf(const Resident& resident) const {
  // In the next turn, which drops what expired before it began.
  if (resident.fleeting) return std::min(resident.instance.end_time, turn_.began());
  const auto& own = resident.version->definition->machine.retention;
  Duration retention = own.value_or(options_.retention);
  if (const auto cap = spaces_->RetentionCap(resident.instance.ns, resident.instance.end_time)) {
    /*mutant quota-retention-ignored*/ retention = std::min(retention, *cap); /*end*/
  }
  const Timestamp expiry =
      After(/*mutant planted-20*/ resident.instance.end_time /*end*/, retention);
  if (!turn_.has_virtual_clock()) return expiry;
  // The clock stood a little before the time of the change; see OpenTurn.
  return std::chrono::floor<std::chrono::duration<int64_t, std::deci>>(expiry);
}

void Residents::Write() {
  for (Resident* resident : dirty_) WriteOne(*resident);
  dirty_.clear();
}

void Residents::WriteOne(Resident& resident) {
  Instance& instance = resident.instance;
  std::vector<Event> none;
  Stage(resident, none);  // what the row tells, the history does, too
  rows::Changed changed;
  if (resident.created) changed.spec = resident.spec.get();
  /*mutant outputs-not-noted*/ changed.has_outputs = resident.got_outputs; /*end*/
  if (instance.Stopped() && !resident.stopped_on_disk) {
    changed.expiry = ExpiryOf(resident);
    /*mutant expiry-not-noted*/ first_expiry_ = std::min(first_expiry_, *changed.expiry); /*end*/
  }
  rows::Note(rows::PutInstance(turn_.writer(), instance, resident.machine(), changed), &instance);
  resident.created = false;
  resident.got_outputs = false;
  resident.stopped_on_disk = instance.Stopped();
  resident.left_here = false;
  if (instance.Stopped() && instance.plan) instance.tokens.ForgetLeft();
  if (resident.ended == instance.Stopped()) return;
  auto& from = ListOf(resident);
  resident.ended = instance.Stopped();
  ListOf(resident).splice(ListOf(resident).end(), from, resident.place);
}

// Only what is unwritten or claimed has to stay.
bool Residents::MayLeave(const Resident& resident) const {
  return /*mutant memory-only-evicted*/ !resident.lazy && Durable(resident) /*end*/ &&
         resident.claim_timers.empty() && resident.instance.tokens.Count(TokenState::kClaimed) == 0;
}

// Second-chance eviction, while `full`. Stops after so many in a row that have to stay, or after
// kChances second chances, so that the work of one turn is bounded.
template <typename Full>
void Residents::EvictFrom(std::list<Resident*>* list, Full full) {
  constexpr size_t kChances = 10'000;
  size_t kept = 0;
  size_t chances = 0;
  while (kept < std::min(limits::kTurnItems, list->size()) && chances < kChances && full()) {
    Resident* resident = list->front();
    const bool again = std::exchange(resident->used, false);
    if (!again && MayLeave(*resident)) {
      kept = 0;
      Erase(*resident);
      continue;
    }
    ++(again ? chances : kept);
    list->splice(list->end(), *list, list->begin());
  }
}

void Residents::Evict() {
  const auto full = [this] { return residents_.size() > options_.cached_instances; };
  EvictFrom(&ended_, [&] { return ended_.size() > kEndedKept || full(); });
  EvictFrom(&by_use_, full);
}

}  // namespace dfsmr
