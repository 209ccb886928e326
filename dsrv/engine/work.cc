// Hand-outs, timers, and what the engine does in the background.
#include <algorithm>
#include <cstring>

#include "dsrv/engine/engine.h"
#include "dsrv/engine/state.h"
#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kTimersPerTurn = 1'000;
constexpr size_t kMovesPerTurn = 128;
constexpr size_t kScannedPerTurn = 1'024;
// Besides as many as the turn brings: what retention drops keeps up with what comes in.
constexpr size_t kDropsPerTurn = 50;
constexpr size_t kTrimsPerTurn = 500;
// What one reply holds, so that with one more task of the largest it is still a message.
constexpr size_t kTaskBytes = limits::kMessage - 2 * limits::kJson - (64 << 10);
constexpr size_t kTasksAtFirst = 16;  // room for so many, when there is one
constexpr size_t kTasksPerMessage = 200;  // of a stream, so that one message stays small

}  // namespace

// Hand-outs --------------------------------------------------------------------------------------

Agenda::Queue* Engine::QueueOf(VersionState& version, const Graph& graph, NodeIndex index) {
  NodeState& state = *graph.states[index];
  if (state.queue) return state.queue;
  const MachineVersion& definition = *version.definition;
  const Node& node = graph.machine->nodes[index];
  Agenda::Queue* queue =
      agenda_.QueueFor({definition.ns, definition.machine.id, definition.version,
                        StatsName(version, node.id), node.settings->action, node.settings->queue});
  // Steps of one name may be of several actions, in the plans of several instances.
  if (!version.plan) state.queue = queue;
  return queue;
}

ReadyEntry Engine::EntryOf(const Graph& graph, std::string id, int32_t priority,
                           const Token& token) {
  // In 64 bits, then clamped: both priorities come from outside.
  const int64_t sum = int64_t{graph.machine->nodes[token.node].settings->priority} + priority;
  return {std::move(id), token.visit, token.available_at,
          static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX))};
}

void Engine::Enqueue(Resident& resident, const Token& token) {
  agenda_.Push(QueueOf(*resident.version, *resident.graph, token.node),
               EntryOf(*resident.graph, resident.instance.id, resident.instance.priority, token));
}

// Whether an open breaker holds this retry back; then it has been put aside.
bool Engine::Throttled(MachineState& machine, Agenda::Popped& popped) {
  if (machine.breaker.state() == Breaker::State::kClosed) return false;
  auto& held_back = machine.held_back[popped.queue];
  const bool released = held_back.released == popped.entry.instance &&
                        held_back.released_visit == popped.entry.visit;
  if (released) held_back.released.clear();
  if (released && machine.breaker.MayRetry(now_)) return false;
  if (released) {
    held_back.waiting.push_front(std::move(popped.entry));
  } else {
    held_back.waiting.push_back(std::move(popped.entry));
  }
  ReleaseRetries(machine);
  return true;
}

// Lets the next held-back retry of each queue out when a retry may be handed out again, or all of
// them when the breaker has closed.
void Engine::ReleaseRetries(MachineState& machine) {
  if (machine.breaker.state() == Breaker::State::kClosed) {
    for (auto& [queue, held_back] : machine.held_back) {
      for (ReadyEntry& entry : held_back.waiting) agenda_.Push(queue, std::move(entry));
    }
    machine.held_back.clear();
    return;
  }
  if (machine.breaker.MayRetry(now_)) {
    for (auto& [queue, held_back] : machine.held_back) {
      if (held_back.waiting.empty() || !held_back.released.empty()) continue;
      ReadyEntry entry = std::move(held_back.waiting.front());
      held_back.waiting.pop_front();
      held_back.released = entry.instance;
      held_back.released_visit = entry.visit;
      agenda_.Push(queue, std::move(entry));
    }
  }
  ArmBreaker(machine);
}

void Engine::ArmBreaker(MachineState& machine) {
  if (machine.breaker_timer) timers_.erase(*machine.breaker_timer);
  machine.breaker_timer.reset();
  Timestamp next = machine.breaker.NextTick();
  const bool waiting = std::ranges::any_of(machine.held_back, [](const auto& item) {
    return !item.second.waiting.empty() && item.second.released.empty();
  });
  if (waiting) next = std::min(next, machine.breaker.NextRetry(now_));
  if (next == kNever) return;
  machine.breaker_timer = Arm(std::max(next, now_ + std::chrono::milliseconds(1)),
                              {.machine = &machine});
}

// Opening and closing are changes in the feed.
void Engine::NoteBreaker(MachineState& machine, Breaker::Turn turn) {
  if (turn == Breaker::Turn::kNone) return;
  Event event;
  event.kind = turn == Breaker::Turn::kOpened ? ChangeKind::kBreakerOpened
                                              : ChangeKind::kBreakerClosed;
  event.time = now_;
  event.ns = machine.ns;
  event.machine = machine.id;
  event.version = machine.versions.rbegin()->first;
  Append(&event, nullptr);
  ReleaseRetries(machine);
}

// False when it was not to be handed out after all.
bool Engine::TakeOne(Agenda::Popped popped, const std::string& worker, uint64_t session,
                     Task* task, bool* durable) {
  auto touched = Touch(Agenda::KeyOf(popped.queue).ns, popped.entry.instance);
  if (!touched) return false;
  Resident& resident = **touched;
  Instance& instance = resident.instance;
  MachineState& machine = *resident.version->machine;
  const Token* found = std::as_const(instance.tokens).Find(popped.entry.visit);
  if (!found || found->state != TokenState::kReady || !Runs(instance.state)) {
    auto held_back = machine.held_back.find(popped.queue);
    if (held_back != machine.held_back.end() &&
        held_back->second.released == popped.entry.instance) {
      held_back->second.released.clear();
      ReleaseRetries(machine);  // nobody needs this one any more: the next one
    }
    return false;
  }
  if (found->TimedOutBefore() && Throttled(machine, popped)) return false;
  std::string key;
  if (!Prepare(resident, *found, task, &key)) return false;

  const uint64_t visit = found->visit;
  const Node& node = resident.machine().nodes[found->node];
  const NodeState& state = resident.StateOf(found->node);
  const auto timeout =
      state.latency->Timeout(node.settings->timeout, found->TimedOutBefore(), state.claimed);
  Scene scene{resident.machine(), instance, now_, epoch_, random_, resident.pending, {}, {}};
  Token& token = *instance.tokens.FindMutable(visit);
  const dfsmr::Claim& claim =
      TakeClaim(scene, token, {{epoch_, next_serial_++}, worker,
                               timeout ? After(now_, *timeout) : kNever, session, key});
  CountTokens(resident, *resident.graph);
  instance.tokens.Forget();
  if (!key.empty()) NoteKey(resident, "", false, key, false, visit);
  if (/*mutant at-most-once-not-durable*/ node.AtMostOnce() /*end*/) {
    Settle(resident);
  } else {
    MarkLazy(resident);
  }
  *durable = *durable && Durable(resident);
  ArmClaim(resident, visit, claim);
  task->attempt = claim.attempt;
  task->claim_id = claim.id;
  task->claim = ClaimText(instance, visit, claim.id);
  task->deadline = claim.deadline;
  NoteBreaker(machine, machine.breaker.Claimed(claim.retry, now_));
  if (!machine.held_back.empty()) ReleaseRetries(machine);
  return true;
}

// What its worker is told of a ready token, but for the claim. False when it cannot be handed out:
// then it is not ready any more.
bool Engine::Prepare(Resident& resident, const Token& token, Task* task, std::string* key) {
  auto spec = SpecOf(resident);
  if (!spec) return false;
  const Instance& instance = resident.instance;
  const Node& node = resident.machine().nodes[token.node];
  task->ns = instance.ns;
  task->instance = instance.id;
  task->machine = instance.machine;
  task->version = instance.version;
  task->node = node.id;
  task->visit = token.visit;
  task->spec = *std::move(spec);
  task->node_params = token.params;
  task->action = node.settings->action;
  task->queue = node.settings->queue;
  return !token.step || PrepareStep(resident, token, task, key);
}

std::vector<Task> Engine::Take(const Filter& filter, const std::string& worker, size_t max,
                               uint64_t session, bool* durable) {
  std::vector<Task> tasks;
  size_t bytes = 0;
  size_t sweeps = max / kMovesPerTurn + 2;  // enough to fill the reply, and no more than that
  while (tasks.size() < max && bytes < kTaskBytes && handing_out_) {
    auto popped = agenda_.Pop(filter);
    if (!popped && sweeps > 0 && SweepFor(filter)) {
      --sweeps;
      continue;
    }
    if (!popped) break;
    if (tasks.empty()) tasks.reserve(std::min(max, kTasksAtFirst));
    Task& task = tasks.emplace_back();
    if (TakeOne(*std::move(popped), worker, session, &task, durable)) {
      if (task.spec) bytes += task.spec->params.size();
      bytes += task.node_params.size() + task.event_data.size() + 256;
    } else {
      tasks.pop_back();
    }
  }
  return tasks;
}

std::optional<Error> Engine::NeedsRoom(Room least) const {
  if (room_ <= least) return std::nullopt;
  return Error{Code::kResourceExhausted, Reason::kDiskFull,
               std::string("the server's disk is nearly full: ") +
                   (room_ == Room::kNone ? "no work is handed out and no reports are taken"
                                         : "nothing new is taken, only what is under way goes on") +
                   " until there is room; try again then"};
}

Result<WaiterId> Engine::Poll(PollArgs args, PollSink sink) {
  if (auto full = NeedsRoom(Room::kScarce)) return *std::move(full);
  bool durable = true;
  auto answer = [&](std::vector<Task> tasks) {
    auto tell = [sink, tasks = std::move(tasks)]() mutable { sink(std::move(tasks)); };
    (durable ? answers_ : turn_.after).push_back(std::move(tell));
  };
  const auto max = static_cast<size_t>(args.max_tasks);
  auto tasks = Take(args.filter, args.worker, max, 0, &durable);
  if (!tasks.empty() || args.until <= now_ || !handing_out_) {
    answer(std::move(tasks));
    return WaiterId{0};
  }
  if (waiters_.size() >= limits::kWaiters) {
    return Error{Code::kResourceExhausted, Reason::kOverloaded,
                 "the server holds " + std::to_string(limits::kWaiters) +
                     " waiting polls and streams already; try again with a shorter wait"};
  }
  const WaiterId id = next_id_++;
  auto waiter = std::make_unique<Waiter>();
  waiter->filter = args.filter;
  waiter->worker = std::move(args.worker);
  waiter->max = max;
  waiter->poll = std::move(sink);
  waiter->timer = Arm(args.until, {.poll = id});
  agenda_.AddWaiter(id, waiter->filter);
  waiters_[id] = std::move(waiter);
  return id;
}

bool Engine::CancelPoll(WaiterId poll) {
  auto it = waiters_.find(poll);
  if (it == waiters_.end() || !it->second->poll) return false;
  if (it->second->timer) timers_.erase(*it->second->timer);
  agenda_.RemoveWaiter(poll);
  waiters_.erase(it);
  return true;
}

void Engine::AnswerPoll(WaiterId poll, std::vector<Task> tasks, bool durable) {
  auto tell = [sink = waiters_.at(poll)->poll, tasks = std::move(tasks)]() mutable {
    sink(std::move(tasks));
  };
  (durable ? answers_ : turn_.after).push_back(std::move(tell));
  CancelPoll(poll);
}

void Engine::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    auto touched = Touch(task->ns, task->instance);
    if (!touched) continue;
    Resident& resident = **touched;
    const Token* token = std::as_const(resident.instance.tokens).Find(task->visit);
    const dfsmr::Claim* claim = token ? token->FindClaim(task->claim_id) : nullptr;
    if (!claim || !claim->Live()) continue;
    if (perhaps && resident.machine().nodes[token->node].AtMostOnce()) continue;
    ForgetClaim(resident, *claim);
    const size_t told = resident.pending.size();
    std::erase_if(resident.pending, [&](const Event& event) {
      return event.kind == ChangeKind::kClaimed && event.visit == task->visit &&
             event.attempt == claim->attempt;
    });
    const bool unseen = resident.pending.size() < told;  // by the feed
    Change(resident, task->claim_id, [&](Scene& scene) {
      Unclaim(scene, task->visit, task->claim_id, /*told=*/!unseen);
      return Ok{};
    });
  }
}

Result<SessionId> Engine::OpenSession(Filter filter, std::string worker, int32_t capacity,
                                      SessionSink sink) {
  if (auto full = NeedsRoom(Room::kScarce)) return *std::move(full);
  if (waiters_.size() >= limits::kWaiters) {
    return Error{Code::kResourceExhausted, Reason::kOverloaded,
                 "the server holds " + std::to_string(limits::kWaiters) +
                     " waiting polls and streams already"};
  }
  const SessionId id = next_id_++;
  auto waiter = std::make_unique<Waiter>();
  waiter->filter = std::move(filter);
  waiter->worker = std::move(worker);
  waiter->max = static_cast<size_t>(capacity);
  waiter->session = std::move(sink);
  agenda_.AddWaiter(id, waiter->filter);
  waiters_[id] = std::move(waiter);
  if (!handing_out_) DrainSession(id);
  return id;
}

void Engine::DrainSession(SessionId session) {
  auto it = waiters_.find(session);
  if (it == waiters_.end() || it->second->draining) return;
  it->second->draining = true;
  agenda_.RemoveWaiter(session);
  if (it->second->in_hand.empty()) {
    Tell(session, [](SessionUpdate& update) { update.drained = true; });
  }
}

void Engine::CloseSession(SessionId session) {
  auto it = waiters_.find(session);
  if (it == waiters_.end()) return;
  auto in_hand = std::move(it->second->in_hand);
  const std::string ns = it->second->filter.ns;
  agenda_.RemoveWaiter(session);
  waiters_.erase(it);
  for (const auto& [id, held] : in_hand) {
    auto touched = Touch(ns, held.instance);
    if (!touched) continue;
    Resident& resident = **touched;
    const Token* token = std::as_const(resident.instance.tokens).Find(held.visit);
    const dfsmr::Claim* claim = token ? token->FindClaim(id) : nullptr;
    if (/*mutant closed-stream-gives-back*/ !claim || !claim->Live() ||
        resident.machine().nodes[token->node].AtMostOnce() /*end*/) {
      continue;
    }
    ForgetClaim(resident, *claim);
    const std::string text = ClaimText(resident.instance, held.visit, id);
    (void)Change(resident, id, [&](Scene& scene) { return dfsmr::Relinquish(scene, text, ""); });
  }
}

void Engine::StopHandingOut() {
  handing_out_ = false;
  std::vector<WaiterId> all;
  for (const auto& [id, waiter] : waiters_) all.push_back(id);
  for (WaiterId id : all) {
    if (waiters_.at(id)->poll) {
      AnswerPoll(id, {}, true);
    } else {
      DrainSession(id);
    }
  }
}

void Engine::Tell(SessionId session, const std::function<void(SessionUpdate&)>& note,
                  bool durable) {
  note(updates_[session]);
  if (!durable) update_waits_.insert(session);
}

void Engine::Serve(WaiterId id, const Filter& filter) {
  Waiter& waiter = *waiters_.at(id);
  bool durable = true;
  if (waiter.poll) {
    auto tasks = Take(filter, waiter.worker, waiter.max, 0, &durable);
    if (!tasks.empty()) AnswerPoll(id, std::move(tasks), durable);
    return;
  }
  auto tasks = Take(filter, waiter.worker, std::min(waiter.Room(), kTasksPerMessage), id, &durable);
  if (tasks.empty()) return;
  for (const Task& task : tasks) {
    waiter.in_hand[task.claim_id] = {task.instance, task.visit};
  }
  if (waiter.Room() == 0) agenda_.RemoveWaiter(id);
  Tell(id, [&](SessionUpdate& update) {
    std::ranges::move(tasks, std::back_inserter(update.tasks));
  }, durable);
}

// Timers -----------------------------------------------------------------------------------------

Engine::TimerKey Engine::Arm(Timestamp at, Timer timer) {
  const TimerKey key{at, next_id_++};
  timers_.emplace(key, std::move(timer));
  return key;
}

// One timer a live claim, at its deadline as it is now.
void Engine::ArmClaim(Resident& resident, uint64_t visit, const dfsmr::Claim& claim) {
  auto armed = std::ranges::find_if(resident.claim_timers,
                                    [&](const auto& one) { return one.first == claim.id; });
  if (armed != resident.claim_timers.end()) {
    if (armed->second.first == claim.deadline) return;
    DisarmClaim(resident, claim.id);
  }
  if (claim.deadline == kNever) return;
  const TimerKey key =
      Arm(claim.deadline, {.resident = &resident, .visit = visit, .claim = claim.id});
  resident.claim_timers.emplace_back(claim.id, key);
}

void Engine::DisarmClaim(Resident& resident, ClaimId claim) {
  auto armed = std::ranges::find_if(resident.claim_timers,
                                    [&](const auto& one) { return one.first == claim; });
  if (armed == resident.claim_timers.end()) return;
  timers_.erase(armed->second);
  resident.claim_timers.erase(armed);
}

// visit (8 bytes), then ns and id, each ended by a zero byte.
Engine::Alarm::Alarm(ResidentName name, uint64_t visit)
    : bytes_(new char[sizeof visit + name.ns.size() + name.id.size() + 2]) {
  char* at = std::copy_n(reinterpret_cast<const char*>(&visit), sizeof visit, bytes_.get());
  for (std::string_view text : {name.ns, name.id}) {
    at = std::ranges::copy(text, at).out;
    *at++ = '\0';
  }
}

std::pair<std::string, std::string> Engine::Alarm::name() const {
  std::string ns(bytes_.get() + sizeof(uint64_t));
  std::string id(bytes_.get() + sizeof(uint64_t) + ns.size() + 1);
  return {std::move(ns), std::move(id)};
}

uint64_t Engine::Alarm::visit() const {
  uint64_t visit;
  std::memcpy(&visit, bytes_.get(), sizeof visit);
  return visit;
}

void Engine::Await(Timestamp at, ResidentName name, uint64_t visit) {
  alarms_.emplace(TimerKey{at, next_id_++}, Alarm(name, visit));
}

void Engine::FireTimers() {
  auto due = [this](const auto& all) { return !all.empty() && all.begin()->first.first <= now_; };
  for (size_t fired = 0; due(timers_) || due(alarms_); ++fired) {
    if (fired == kTimersPerTurn) {
      more_ = true;
      return;
    }
    if (due(timers_) && (!due(alarms_) || timers_.begin()->first < alarms_.begin()->first)) {
      const Timer timer = timers_.begin()->second;
      timers_.erase(timers_.begin());
      Fire(timer);
    } else {
      const Alarm alarm = std::move(alarms_.begin()->second);
      alarms_.erase(alarms_.begin());
      Ring(alarm);
    }
  }
}

void Engine::Fire(const Timer& timer) {
  if (timer.resident) {
    TimeOutClaim(timer);
  } else if (timer.machine) {
    timer.machine->breaker_timer.reset();
    NoteBreaker(*timer.machine, timer.machine->breaker.Tick(now_));
    ReleaseRetries(*timer.machine);
  } else if (auto waiter = waiters_.find(timer.poll); waiter != waiters_.end()) {
    waiter->second->timer.reset();
    AnswerPoll(timer.poll, {}, true);
  }
}

void Engine::Ring(const Alarm& alarm) {
  const auto [ns, id] = alarm.name();
  auto touched = Touch(ns, id);
  if (!touched) return;
  Change(**touched, {}, [&](Scene& scene) {
    alarm.visit() == 0 ? StartDue(scene) : EndWait(scene, alarm.visit());
    return Ok{};
  });
}

void Engine::TimeOutClaim(const Timer& timer) {
  const Instance& claimed = timer.resident->instance;
  auto touched = Touch(claimed.ns, claimed.id);
  if (!touched) return;
  Resident& resident = **touched;
  std::erase_if(resident.claim_timers, [&](const auto& one) { return one.first == timer.claim; });
  const Token* token = std::as_const(resident.instance.tokens).Find(timer.visit);
  const dfsmr::Claim* claim = token ? token->FindClaim(timer.claim) : nullptr;
  if (!claim || !claim->Live()) return;
  const bool retry = claim->retry;
  const Timestamp claimed_at = claim->claim_time;
  MachineState& machine = *resident.version->machine;
  Change(resident, {}, [&](Scene& scene) {
    TimeOut(scene, timer.visit, timer.claim);
    return Ok{};
  });
  if (retry) machine.breaker.RetryFailed(claimed_at);
}

// The rest of a turn -----------------------------------------------------------------------------

void Engine::Work() {
  FireTimers();
  SettleLazy();
  Sweep();
  if (now_ >= expiry_due_) DropExpired();
  if (now_ >= trim_due_) TrimFeed();
  if (now_ >= stats_due_ && !unsaved_.empty()) SaveStats();
  // A hand-out may fail its step, which may stop an instance: what follows is of the same commit.
  do {
    PlanWork();
    while (auto match = agenda_.NextMatch()) Serve(match->first, match->second);
  } while (PlanPending());
  more_ = more_ || !spawning_.empty() || !cancelling_.empty();
}

// Instances that were to start after one that has stopped hear of it in the same commit.
void Engine::StartFollowers() {
  while (!stopped_now_.empty()) {
    const StoppedNow stopped = std::move(stopped_now_.front());
    stopped_now_.pop_front();
    auto it = followers_.find(ResidentKey(stopped.ns, stopped.id));
    if (it == followers_.end()) continue;
    const std::set<std::string> waiting = std::move(it->second);
    followers_.erase(it);
    for (const std::string& id : waiting) {
      auto resident = Touch(stopped.ns, id);
      if (!resident) continue;
      Change(**resident, {}, [&](Scene& scene) {
        PrerequisiteStopped(scene, stopped.id, stopped.result);
        return Ok{};
      });
      MarkDirty(**resident);
    }
  }
}

void Engine::SettleLazy() {
  while (!lazy_.empty() && lazy_.front().first <= now_) Settle(*lazy_.front().second);
}

bool Engine::ByNames::operator()(const MachineState* a, const MachineState* b) const {
  return std::tie(a->ns, a->id) < std::tie(b->ns, b->id);
}

// Moves what a new version has left behind: a bounded number a turn, in order of id. After a crash
// it starts again from the first one, and finds most of them moved.
void Engine::Sweep() {
  if (sweeping_.empty()) return;
  SweepSome(**sweeping_.begin());
  more_ = more_ || !sweeping_.empty();
}

void Engine::SweepSome(MachineState& machine) {
  std::vector<std::string> ids;
  size_t scanned = 0;
  bool done = true;
  auto outcome = rows::ScanInstances(
      store_, options_.partition, /*stopped=*/false, machine.ns, machine.swept, resolve(),
      [&](const Instance& instance) {
        if (ids.size() == kMovesPerTurn || scanned == kScannedPerTurn) {
          done = false;
          return false;
        }
        ++scanned;
        machine.swept = instance.id;
        if (instance.machine == machine.id) ids.push_back(instance.id);
        return true;
      },
      {.tokens = false});
  if (!outcome) {
    if (!broken_) broken_ = outcome.error();
    return;
  }
  for (const std::string& id : ids) (void)Touch(machine.ns, id);
  if (done) sweeping_.erase(&machine);
}

// What an upgrade has made ready but the background has not come to yet is ready all the same:
// moves some of it for whoever asks. False when there is nothing of the kind.
bool Engine::SweepFor(const Filter& filter) {
  for (MachineState* machine : sweeping_) {
    if (machine->ns != filter.ns) continue;
    if (!filter.machine.empty() && machine->id != filter.machine) continue;
    SweepSome(*machine);
    return true;
  }
  return false;
}

// Of what expired before the oldest turn that is not written began: no row appears behind that any
// more, however short a machine's retention is.
void Engine::DropExpired() {
  expiry_due_ = After(now_, std::chrono::seconds(1));
  const size_t most = kDropsPerTurn + turn_.records() / 2;  // an instance has at least two
  const Timestamp until = uncommitted_.empty() ? turn_began_ : uncommitted_.front().began;
  auto expired = rows::ScanExpired(store_, options_.partition, expired_up_to_, until, most);
  if (!expired) {
    if (!broken_) broken_ = expired.error();
    return;
  }
  for (const rows::Expired& one : *expired) {
    if (!DropExpired(one)) break;
    expired_up_to_ = one.at;
  }
  expired_pending_ = expired->size() == most;
  if (expired_pending_) {
    expiry_due_ = now_;
    more_ = true;
  }
}

// False when it must wait for a commit.
bool Engine::DropExpired(const rows::Expired& one) {
  std::string key = ResidentKey(one.ns, one.id);
  if (dropped_.contains(key)) return true;
  const bool bare = one.version != 0 && one.first_seq >= feed_start_;
  Resident* resident = InMemory({one.ns, one.id});
  VersionState* version =
      bare && !resident ? VersionOf(one.ns, one.machine, one.version) : nullptr;
  if (!version) {
    auto loaded = Load(one.ns, one.id);
    if (!loaded) return true;
    resident = *loaded;
    if (!Durable(*resident)) return false;
    if (!resident->instance.Stopped()) return true;
    version = resident->version;
  }
  if (bare) {
    rows::DropBare(&turn_.batch, options_.partition, one);
  } else {
    auto outcome = rows::DropInstance(store_, &turn_.batch, options_.partition,
                                      resident->instance, feed_start_, one.at);
    if (!outcome && !broken_) broken_ = outcome.error();
  }
  if (resident) Erase(*resident);
  NoteDropped(*version);
  dropped_order_.emplace_back(turn_.number, key);
  dropped_.insert(std::move(key));
  return true;
}

// A stopped instance is no more. The feed does not tell of it, so that a row of this turn does.
void Engine::NoteDropped(VersionState& version) {
  /*mutant dropped-still-counted*/ --version.stopped; /*end*/
  ++version.machine->dropped[version.definition->version];
  unsaved_.insert(version.machine);
  dropped_from_.insert(version.machine);
}

// The feed is kept an eighth longer than stopped instances, so that most records have outlived
// their instance by then and need not be moved to where its history finds them; if those are
// dropped late, it waits for them.
void Engine::TrimFeed() {
  const Duration period =
      std::clamp<Duration>(options_.retention / 16, std::chrono::milliseconds(250),
                           expired_pending_ ? std::chrono::seconds(1) : std::chrono::minutes(1));
  trim_due_ = After(now_, period);
  const Timestamp horizon =
      (expired_pending_ ? expired_up_to_ : now_) - options_.retention - options_.retention / 8;
  const size_t most = kTrimsPerTurn + turn_.records();
  std::pair<std::string, std::string> last;  // records of one instance are often neighbours
  std::optional<uint64_t> last_first;
  auto first = rows::TrimFeed(
      store_, &turn_.batch, options_.partition, feed_start_, horizon, most,
      [&](const Event& event) {
        if (event.instance.empty()) return false;
        if (last.second != event.instance || last.first != event.ns) {
          last = {event.ns, event.instance};
          auto found = FirstSeqOf(event.ns, event.instance);
          last_first = found ? *found : std::nullopt;
        }
        // What is older is of an instance that had the same id.
        return last_first && event.seq >= *last_first;
      });
  if (!first) {
    if (!broken_) broken_ = first.error();
    return;
  }
  if (*first - feed_start_ >= most) {
    trim_due_ = now_;
    more_ = true;
  }
  if (*first == feed_start_) return;
  turn_.feed_start = feed_start_ = *first;
  if (feed_start_ > stats_seq_ + 1) SaveStats();  // a restart could not count them any more
}

void Engine::Flush() {
  (void)Settle("", "");
  SaveStats();
}

void Engine::SaveStats() {
  for (MachineState* machine : unsaved_) {
    rows::StatsRow row;
    row.ns = machine->ns;
    row.machine = machine->id;
    for (const auto& [number, version] : machine->versions) {
      rows::VersionCounts& counts = row.versions[number];
      counts.stopped = version.stopped;
      for (const auto& [name, node] : version.nodes) {
        if (node.completed == 0 && node.timed_out == 0) continue;
        counts.nodes[name] = {node.completed, node.timed_out};
      }
    }
    for (const auto& [node, latency] : machine->latencies) {
      if (latency.Samples() > 0) row.latencies[node] = latency.Save();
    }
    rows::PutStats(&turn_.batch, options_.partition, row);
    machine->dropped.clear();
    dropped_from_.erase(machine);
  }
  rows::PutStatsSeq(&turn_.batch, options_.partition, last_seq_);
  stats_seq_ = last_seq_;
  unsaved_.clear();
  stats_due_ = After(now_, options_.stats_every);
}

}  // namespace dfsmr
