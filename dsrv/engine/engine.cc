#include "dsrv/engine/engine.h"

#include <algorithm>

#include "dsrv/engine/state.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/plan/inherit.h"

namespace dfsmr {
namespace {

Error NoSuchMachine(const std::string& ns, const std::string& id, uint32_t version) {
  return {Code::kNotFound, Reason::kNoSuchMachine,
          "namespace " + Quoted(ns) + " has no " +
              (version ? "version " + std::to_string(version) + " of machine " : "machine ") +
              Quoted(id)};
}

// Sorts by time: 10 characters of milliseconds, 10 of entropy, in Crockford's base 32.
std::string NewId(Timestamp now, uint64_t random) {
  static constexpr char kDigits[] = "0123456789abcdefghjkmnpqrstvwxyz";
  auto ms = static_cast<uint64_t>(Micros(now) / 1000);
  std::string id(20, '0');
  for (size_t i = 10; i-- > 0; ms >>= 5) id[i] = kDigits[ms & 31];
  for (size_t i = 20; i-- > 10; random >>= 5) id[i] = kDigits[random & 31];
  return id;
}

// What is wrong with a start, whatever exists: its params and its times.
std::optional<Error> RefusalOf(const StartArgs& args, const ParamsCheck* check, Timestamp now) {
  if (check) {
    const std::string& given = args.spec.params;
    if (auto violation = check->Violation(given.empty() ? "{}" : std::string_view(given))) {
      return Error{
          Code::kInvalidArgument, Reason::kBadParams,
          "machine " + Quoted(args.machine) + " does not accept these params: " + *violation};
    }
  }
  if (args.start_before == kNever) return std::nullopt;
  if (args.start_before <= now) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, "start_before has passed already"};
  }
  if (args.start_before < args.start_at) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest, "start_before is before start_at"};
  }
  return std::nullopt;
}

// Of several that name the same instance, one: the strictest.
std::vector<Instance::Prerequisite> EachOnce(const std::vector<Instance::Prerequisite>& all) {
  std::vector<Instance::Prerequisite> once;
  for (const Instance::Prerequisite& one : all) {
    auto same = std::ranges::find(once, one.instance, &Instance::Prerequisite::instance);
    if (same != once.end()) {
      same->any_result = same->any_result && one.any_result;
    } else {
      once.push_back(one);
    }
  }
  return once;
}

}  // namespace

Engine::Engine(Store& store, EngineOptions options) : store_(store), options_(std::move(options)) {}
Engine::~Engine() = default;

rows::Resolve Engine::resolve() const {
  return [this](std::string_view ns, std::string_view id, uint32_t version) {
    return registry_.Resolve(ns, id, version);
  };
}

// Turns ------------------------------------------------------------------------------------------

void Engine::BeginTurn(Timestamp now, uint64_t random) {
  ResumeTurn(now, random);
  turn_began_ = now_;
  turn_.number++;
  turn_.batch = Batch();
  turn_.after.clear();
  turn_.feed_start = 0;
  turn_.feed = std::make_shared<std::vector<rows::FeedPage>>();
}

void Engine::ResumeTurn(Timestamp now, uint64_t random) {
  now_ = std::max(now, now_);  // a clock that goes back stands still
  random_ = random;
  starts_left_ = kStartsPerTurn;
  cancels_left_ = kCancelsPerTurn;
  more_ = false;
  const uint64_t committed = committed_.load(std::memory_order_acquire);
  while (!uncommitted_.empty() && uncommitted_.front().turn <= committed) uncommitted_.pop_front();
  while (!dropped_order_.empty() && dropped_order_.front().first <= committed) {
    dropped_.erase(dropped_order_.front().second);
    dropped_order_.pop_front();
  }
}

Turn Engine::EndTurn() {
  for (Resident* resident : dirty_) {
    Instance& instance = resident->instance;
    const auto& retention = resident->version->definition->machine.retention;
    const bool just_stopped = instance.Stopped() && !resident->stopped_on_disk;
    std::vector<Event> none;
    Stage(*resident, none);  // what the row tells, the history does, too
    if (resident->created) {
      rows::PutSpec(&turn_.batch, options_.partition, &instance, *resident->spec);
    }
    for (const auto& [node, json] : resident->outputs) {
      rows::PutOutput(&turn_.batch, options_.partition, &instance, node, json);
    }
    const std::vector<uint64_t> page =
        rows::PutInstance(&turn_.batch, options_.partition, &instance, resident->machine(),
                          just_stopped,
                          After(instance.end_time, retention.value_or(options_.retention)));
    std::ranges::copy(page, std::back_inserter(resident->pages));
    if (resident->plan && resident->plan->new_graph && resident->graph->machine->graph) {
      rows::PutGraph(&turn_.batch, options_.partition, instance, *resident->graph->machine->graph);
      resident->plan->new_graph = false;
    }
    resident->outputs.clear();
    resident->created = false;
    resident->stopped_on_disk = instance.Stopped();
  }
  dirty_.clear();
  for (const MachineState* machine : dropped_from_) {
    rows::PutDropped(&turn_.batch, options_.partition, machine->ns, machine->id, machine->dropped);
  }
  dropped_from_.clear();
  if (!turn_.feed->empty()) {
    rows::PutPages(&turn_.batch, options_.partition, *turn_.feed);
    uncommitted_.push_back({turn_.number, turn_began_, turn_.feed});
  }
  Turn turn = std::move(turn_);
  turn_.number = turn.number;
  Evict();
  return turn;
}

// After each pass: a session that ends in the next one may have been given work in this one.
void Engine::TellSessions() {
  for (auto& [session, answers] : session_answers_) {
    const bool open = waiters_.contains(session);  // else no two need be of one stream
    const bool updated = update_waits_.contains(session);
    for (size_t i = 0; i < answers.size(); ++i) {
      const bool more = open && (updated || i + 1 < answers.size());
      turn_.after.push_back([tell = std::move(answers[i]), more] { tell(more); });
    }
  }
  session_answers_.clear();
  for (auto& [session, update] : updates_) {
    auto waiter = waiters_.find(session);
    if (waiter == waiters_.end()) continue;
    auto tell = [sink = waiter->second->session, update = std::move(update)]() mutable {
      sink(std::move(update));
    };
    (update_waits_.contains(session) ? turn_.after : answers_).push_back(std::move(tell));
  }
  updates_.clear();
  update_waits_.clear();
}

std::vector<std::function<void()>> Engine::TakeAnswers() {
  TellSessions();
  return std::exchange(answers_, {});
}

void Engine::AfterCommit(std::function<void()> tell) { /*mutant answers-before-commit*/
  turn_.after.push_back(std::move(tell));              /*end*/
}

void Engine::AfterCommit(SessionId session, std::function<void(bool)> tell) {
  session_answers_[session].push_back(std::move(tell));
}

Timestamp Engine::NextDeadline() const {
  if (more_) return now_;
  Timestamp next = std::min(expiry_due_, trim_due_);
  if (!unsaved_.empty()) next = std::min(next, stats_due_);
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first.first);
  if (!alarms_.empty()) next = std::min(next, alarms_.begin()->first.first);
  if (!lazy_.empty()) next = std::min(next, lazy_.front().first);
  return next;
}

// Instances --------------------------------------------------------------------------------------

Engine::Resident* Engine::Insert(Instance instance, VersionState* version, GraphPtr graph) {
  auto resident = std::make_unique<Resident>();
  resident->instance = std::move(instance);
  resident->version = version;
  resident->graph = std::move(graph);
  resident->stopped_on_disk = resident->instance.Stopped();
  Resident* added = resident.get();
  resident->place = by_use_.insert(by_use_.end(), added);
  residents_.insert(std::move(resident));
  return added;
}

Engine::Resident* Engine::InMemory(ResidentName name) {
  auto it = residents_.find(name);
  return it == residents_.end() ? nullptr : it->get();
}

void Engine::Erase(Resident& resident) {
  NotLazy(resident);
  for (const auto& [claim, timer] : resident.claim_timers) timers_.erase(timer);
  by_use_.erase(resident.place);
  residents_.erase(residents_.find(NameOf(resident)));
}

Result<Engine::Resident*> Engine::Load(const std::string& ns, const std::string& id) {
  if (Resident* resident = InMemory({ns, id})) {
    resident->used = true;
    return resident;
  }
  auto instance = dropped_.contains(ResidentKey(ns, id))
                      ? rows::NoSuchInstance(ns, id)
                      : rows::GetInstance(store_, options_.partition, ns, id, resolve());
  if (!instance) {
    if (instance.error().code != Code::kNotFound && !broken_) broken_ = instance.error();
    return instance.error();
  }
  VersionState* version = VersionFor(*instance);
  auto graph = LoadGraph(*instance, *version);
  if (!graph) {
    if (!broken_) broken_ = graph.error();
    return graph.error();
  }
  return Insert(*std::move(instance), version, *std::move(graph));
}

Result<std::optional<uint64_t>> Engine::FirstSeqOf(const std::string& ns, const std::string& id) {
  std::optional<uint64_t> first;
  if (Resident* resident = InMemory({ns, id})) {
    auto spec = SpecOf(*resident);
    if (!spec) return spec.error();
    return first = (*spec)->first_seq;
  }
  if (dropped_.contains(ResidentKey(ns, id))) return first;
  auto spec = rows::FindSpec(store_, options_.partition, ns, id);
  if (!spec && !broken_) broken_ = spec.error();
  if (!spec) return spec.error();
  if (*spec) first = (*spec)->first_seq;
  return first;
}

Result<Engine::Resident*> Engine::Touch(const std::string& ns, const std::string& id) {
  auto resident = Load(ns, id);
  if (resident && (*resident)->version->LeftBehind() && !(*resident)->instance.Stopped()) {
    Move(**resident);
  }
  return resident;
}

void Engine::Move(Resident& resident) {
  VersionState* from = resident.version;
  Change(resident, {}, [&](Scene& scene) {
    if (from->aborted_by) {
      Abort(scene, from->aborted_by->definition->version);
      return Ok{};
    }
    resident.version = from->upgrades_to;
    resident.graph = resident.version->graph;
    const MachineVersion& next = *from->upgrades_to->definition;
    const bool planned = resident.instance.plan && !resident.instance.plan->graph.empty();
    Upgrade(scene, next.machine, next.version);
    if (planned) rows::DropPlan(&turn_.batch, options_.partition, resident.instance);
    resident.outputs.clear();
    resident.plan.reset();
    if (planned) CacheOf(resident).dropped_turn = turn_.number;
    return Ok{};
  });
}

Result<std::shared_ptr<const Spec>> Engine::SpecOf(Resident& resident) {
  if (!resident.spec) {
    auto spec = rows::GetSpec(store_, options_.partition, resident.instance.ns,
                              resident.instance.id);
    if (!spec) {
      if (!broken_) broken_ = spec.error();
      return spec.error();
    }
    resident.spec = std::make_shared<const Spec>(*std::move(spec));
  }
  return resident.spec;
}

InstanceView Engine::ViewOf(Resident& resident) {
  auto spec = SpecOf(resident);
  InstanceView view;
  view.spec = spec ? *spec : std::make_shared<const Spec>();
  Tokens& tokens = resident.instance.tokens;
  if (tokens.size() <= limits::kTokensShown) {
    view.instance = resident.instance;
  } else {
    Tokens all = std::move(tokens);
    tokens = {};
    view.instance = resident.instance;
    tokens = std::move(all);
    for (size_t slot = 0; slot < limits::kTokensShown; ++slot) {
      view.instance.tokens.Restore(std::as_const(tokens)[slot]);
    }
  }
  for (const Token& token : view.instance.tokens) {
    view.nodes.emplace_back(token.node == kElsewhere ? resident.instance.plan->ended_at
                                                     : NodeName(resident.machine(), token.node));
  }
  return view;
}

bool Engine::Durable(const Resident& resident) const {
  return /*mutant durable-at-once*/ resident.dirty_turn <=
         committed_.load(std::memory_order_acquire) /*end*/;
}

// Who has been used since it was looked at last has a second chance. What must stay in memory: what
// the store does not have yet, and what is claimed. It ends at so many of those in a row, or when so
// many have been given their chance; what a turn has brought in, however much, is otherwise not left
// to the next ones.
void Engine::Evict() {
  constexpr size_t kChances = 10'000;
  size_t kept = 0;
  size_t chances = 0;
  while (residents_.size() > options_.cached_instances && kept < limits::kTurnItems &&
         chances < kChances) {
    Resident* resident = by_use_.front();
    if (std::exchange(resident->used, false)) {
      by_use_.splice(by_use_.end(), by_use_, by_use_.begin());
      ++chances;
      continue;
    }
    if (/*mutant memory-only-evicted*/ resident->lazy || !Durable(*resident) /*end*/ ||
        !resident->claim_timers.empty() ||
        resident->instance.tokens.Count(TokenState::kClaimed) > 0) {
      by_use_.splice(by_use_.end(), by_use_, by_use_.begin());
      ++kept;
      continue;
    }
    kept = 0;
    Erase(*resident);
  }
}

void Engine::MarkDirty(Resident& resident) {
  NotLazy(resident);
  if (resident.dirty_turn == turn_.number) return;
  if (Durable(resident) || resident.before_turn <= committed_.load(std::memory_order_acquire)) {
    const bool all = Durable(resident);
    resident.pages_before = std::exchange(resident.pages, {});
    if (all) resident.pages_before.clear();
    if (resident.plan) {
      resident.plan->before = std::exchange(resident.plan->last, {});
      if (all) resident.plan->before = {};
    }
    resident.before_turn = resident.dirty_turn;
  }
  resident.dirty_turn = turn_.number;
  dirty_.push_back(&resident);
}

void Engine::MarkLazy(Resident& resident) {
  if (resident.lazy || resident.dirty_turn == turn_.number) return;
  resident.lazy = true;
  resident.lazy_place = lazy_.emplace(lazy_.end(), After(now_, options_.lazy), &resident);
}

void Engine::NotLazy(Resident& resident) {
  if (std::exchange(resident.lazy, false)) lazy_.erase(resident.lazy_place);
}

void Engine::Settle(Resident& resident) {
  if (!resident.lazy && resident.pending.empty()) return;
  std::vector<Event> none;
  Stage(resident, none);
  MarkDirty(resident);
}

// Adds or takes away what an instance as a whole contributes to the counters.
void Engine::CountState(const Resident& resident, int64_t by) {
  VersionState& version = *resident.version;
  auto add = [by](uint64_t& counter) { counter += static_cast<uint64_t>(by); };
  switch (resident.instance.state) {
    case InstanceState::kScheduled: add(version.scheduled); break;
    case InstanceState::kPlanning:
    case InstanceState::kRunning: add(version.running); break;
    case InstanceState::kPaused: add(version.paused); break;
    case InstanceState::kNone:
    case InstanceState::kStopped: break;  // stopped ones are counted by their FINISHED
  }
}

void Engine::CountToken(const Graph& graph, const Token& token, int64_t by) {
  if (token.node >= graph.states.size()) return;
  NodeState& node = *graph.states[token.node];
  auto add = [by](uint64_t& counter) { counter += static_cast<uint64_t>(by); };
  switch (token.state) {
    case TokenState::kReady: add(node.ready); break;
    case TokenState::kClaimed: add(node.claimed); break;
    case TokenState::kWaiting: add(node.waiting); break;
    case TokenState::kHeld: add(node.held); break;
    case TokenState::kNone:
    case TokenState::kDone: break;
  }
}

void Engine::CountTokens(const Resident& resident, const Graph& before) {
  const Tokens& tokens = resident.instance.tokens;
  for (const Tokens::Touched& touched : tokens.touched()) {
    if (touched.before) /*mutant token-not-uncounted*/
      CountToken(before, *touched.before, -1) /*end*/;
    if (const Token* now = tokens.Find(touched.visit)) CountToken(*resident.graph, *now, +1);
  }
}

// What the counters and latencies take from a record; at recovery from those of the last seconds.
void Engine::Learn(const Event& event, VersionState* version) {
  const bool ended = event.kind == ChangeKind::kFinished;
  const bool left = event.kind == ChangeKind::kTransitioned && event.left_visit != 0;
  const bool timed_out = event.kind == ChangeKind::kTimedOut;
  if (!ended && !left && !timed_out && event.samples.empty()) return;
  if (!version || version->definition->version != event.version) {
    auto machine = machines_.find({event.ns, event.machine});
    if (machine == machines_.end()) return;
    auto it = machine->second->versions.find(event.version);
    if (it == machine->second->versions.end()) return;
    version = &it->second;
  }
  auto node_of = [&](const std::string& name) -> NodeState* {
    // At recovery no graph of a plan has been read yet, that would have made its nodes known.
    if (version->plan) return &version->nodes[StatsName(*version, name)];
    auto found = version->nodes.find(name);
    return found == version->nodes.end() ? nullptr : &found->second;
  };
  if (ended) ++version->stopped;
  NodeState* node = left || timed_out ? node_of(event.prev_node) : nullptr;
  if (node) ++(left ? node->completed : node->timed_out);
  for (const Event::Sample& sample : event.samples) {
    version->machine->latencies[StatsName(*version, sample.node)].Learn(
        {sample.took, sample.censored, sample.replaces, sample.retry}, event.time);
  }
  unsaved_.insert(version->machine);
}

void Engine::Append(Event* event, VersionState* version) {
  event->seq = ++last_seq_;
  rows::AddEvent(turn_.feed.get(), *event);
  Learn(*event, version);
}

void Engine::Stage(Resident& resident, std::vector<Event>& events) {
  if (events.empty() && resident.pending.empty()) return;
  MarkDirty(resident);  // before anything is noted that the store does not have yet
  auto append = [&](Event& event) {
    if (!event.output.empty()) {
      std::string node = event.prev_node;
      if (resident.instance.plan) node.resize(std::min(node.find('/'), node.size()));
      if (resident.instance.plan) CacheOf(resident).last.outputs[node] = event.output;
      resident.outputs.emplace_back(std::move(node), std::move(event.output));
      event.output.clear();
    }
    Append(&event, resident.version);
    /*mutant record-not-in-history*/ resident.instance.history.push_back(last_seq_); /*end*/
  };
  for (Event& event : resident.pending) append(event);
  for (Event& event : events) append(event);
  /*mutant hand-out-told-twice*/ resident.pending = std::vector<Event>();
      /*end*/  // with its memory: most are at rest most of the time
}

void Engine::FreeClaim(Resident& resident, uint64_t visit, const dfsmr::Claim& claim,
                       ClaimId self) {
  DisarmClaim(resident, claim.id);
  if (claim.session == 0) return;
  auto it = waiters_.find(claim.session);
  if (it == waiters_.end()) return;
  Waiter& stream = *it->second;
  const bool full = stream.Room() == 0;
  stream.in_hand.erase(claim.id);
  if (full && stream.Room() > 0) agenda_.AddWaiter(claim.session, stream.filter);
  const bool drained = stream.draining && stream.in_hand.empty();
  if (claim.id == self && !drained) return;
  Tell(claim.session, [&](SessionUpdate& update) {
    if (claim.id != self) {
      std::string text = ClaimText(resident.instance, visit, claim.id);
      if (resident.instance.killed) update.killed.push_back(text);
      update.cancelled.push_back(std::move(text));
    }
    update.drained = drained;
  });
}

// A claim that had timed out is alive again: it counts against its stream's capacity as before.
void Engine::HoldInHand(const Resident& resident, uint64_t visit, const dfsmr::Claim& claim) {
  auto it = waiters_.find(claim.session);
  if (it == waiters_.end() || it->second->in_hand.contains(claim.id)) return;
  it->second->in_hand[claim.id] = {resident.instance.id, visit};
  if (it->second->Room() == 0) agenda_.RemoveWaiter(claim.session);
}

// A claim whose visit is over: its worker's late report still tells how long it took.
void Engine::Lose(const Before& before, NodeIndex node, const dfsmr::Claim& claim) {
  if (claim.id.epoch != epoch_ || node >= before.graph->states.size()) return;
  Latency* latency = before.graph->states[node]->latency;
  if (!latency) return;
  const Duration censored_at =
      claim.timed_out ? claim.sampled : std::max(now_ - claim.claim_time, Duration(1));
  ended_[claim.id.serial] = {latency, claim.claim_time, censored_at, claim.retry};
  ended_order_.push_back(claim.id.serial);
  if (ended_order_.size() <= 65'536) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

// One token that may have changed.
void Engine::Follow(Resident& resident, const Before& before, const Tokens::Touched& touched,
                    ClaimId self) {
  const Instance& instance = resident.instance;
  const Token* token = instance.Stopped() ? nullptr : instance.tokens.Find(touched.visit);
  if (touched.before) {
    for (const dfsmr::Claim& was : touched.before->claims) {
      if (was.given_back) continue;
      const dfsmr::Claim* claim = token ? token->FindClaim(was.id) : nullptr;
      if (was.Live() && !(claim && claim->Live())) FreeClaim(resident, touched.visit, was, self);
      if (!token && was.id != self) Lose(before, touched.before->node, was);
    }
  }
  if (!token) return;
  for (const dfsmr::Claim& claim : token->claims) {
    if (!claim.Live()) continue;
    ArmClaim(resident, token->visit, claim);
    if (claim.session != 0) HoldInHand(resident, token->visit, claim);
  }
  const TokenState state = touched.before ? touched.before->state : TokenState::kNone;
  if (token->state == TokenState::kReady && Runs(instance.state) &&
      !(Runs(before.state) && state == TokenState::kReady)) {
    Enqueue(resident, *token);
  }
  const bool waits = token->state == TokenState::kWaiting && token->available_at != kNever;
  if (waits && state != TokenState::kWaiting) {
    Await(token->available_at, NameOf(resident), token->visit);
  }
}

void Engine::Consequences(Resident& resident, const Before& before, ClaimId self,
                          const std::vector<InstanceState>& entered) {
  const Instance& instance = resident.instance;
  for (const Tokens::Touched& touched : instance.tokens.touched()) {
    Follow(resident, before, touched, self);
  }
  if (instance.plan || before.plan || instance.parent_step) FollowPlan(resident, before, entered);
  if (instance.Stopped()) {
    if (before.state != InstanceState::kStopped && !followers_.empty()) {
      stopped_now_.push_back({instance.ns, instance.id, instance.result});
    }
    return;
  }
  // What lies ready and was not touched, when the instance runs again.
  if (Runs(instance.state) && before.state == InstanceState::kPaused) {
    std::unordered_set<uint64_t> touched;
    size_t ready = instance.tokens.Count(TokenState::kReady);
    for (const Tokens::Touched& one : instance.tokens.touched()) {
      const Token* now = instance.tokens.Find(one.visit);
      if (!now || now->state != TokenState::kReady) continue;
      touched.insert(one.visit);
      --ready;
    }
    for (auto token = instance.tokens.begin(); ready > 0 && token != instance.tokens.end();
         ++token) {
      if (token->state != TokenState::kReady || touched.contains(token->visit)) continue;
      Enqueue(resident, *token);
      --ready;
    }
    for (const Token& token : instance.tokens) {
      if (WantsChildren(instance, token)) SpawnLater(resident, token.visit);
    }
  }
  if (instance.cancel_requested && !before.cancel_requested) {
    for (const Token& token : instance.tokens) {
      for (const dfsmr::Claim& claim : token.claims) {
        if (!claim.Live() || claim.session == 0) continue;
        Tell(claim.session, [&](SessionUpdate& update) {
          update.cancelled.push_back(ClaimText(instance, token.visit, claim.id));
        });
      }
    }
  }
  if (instance.tokens.empty() && NextStart(instance) != kNever) {
    Await(NextStart(instance), NameOf(resident), 0);
  }
}

// Commands ---------------------------------------------------------------------------------------

// The id is taken: by the same instance, which was started before, or by another one.
Result<Started> Engine::StartAgain(const StartArgs& args) {
  auto existing = Touch(args.ns, args.id);
  if (!existing) return existing.error();
  InstanceView view = ViewOf(**existing);
  const bool same_machine = view.instance.machine == args.machine;
  if (same_machine &&
      /*mutant other-params-same-start*/ json::Same(view.spec->params, args.spec.params) /*end*/) {
    return Started{std::move(view), false};
  }
  return Error{Code::kAlreadyExists, Reason::kInstanceExists,
               "instance " + Quoted(args.id) + " exists already, of machine " +
                   Quoted(view.instance.machine) + (same_machine ? " with other params" : "") +
                   "; choose another id"};
}

// Those that have stopped already, of the instances that must have before another one begins.
Result<std::vector<std::pair<std::string, InstanceResult>>> Engine::EndedOf(
    const std::string& ns, const std::vector<Instance::Prerequisite>& after) {
  std::vector<std::pair<std::string, InstanceResult>> ended;
  for (const Instance::Prerequisite& one : after) {
    auto prerequisite = Touch(ns, one.instance);
    if (!prerequisite) {
      Error error = prerequisite.error();
      error.message = "'after': " + error.message;
      return error;
    }
    const Instance& other = (*prerequisite)->instance;
    if (other.Stopped()) ended.emplace_back(other.id, other.result);
  }
  return ended;
}

Engine::Resident& Engine::Create(StartArgs args, std::vector<Instance::Prerequisite> after,
                                 VersionState* version) {
  Instance instance;
  instance.after = std::move(after);
  instance.ns = std::move(args.ns);
  instance.id = args.id.empty() ? NewId(now_, Mix(random_ + next_id_++ * 0x9e3779b97f4a7c15ull))
                                : std::move(args.id);
  instance.machine = version->definition->machine.id;
  instance.version = version->definition->version;
  instance.priority = args.priority;
  instance.start_at = args.start_at;
  instance.start_before = args.start_before;
  instance.hold = args.hold;
  instance.parent = std::move(args.parent);
  instance.parent_step = args.parent_step;
  if (version->plan || args.flow) instance.plan = PlanState();
  Resident& resident = *Insert(std::move(instance), version, version->graph);
  if (args.flow) CacheOf(resident).source = std::move(args.flow);
  args.spec.first_seq = last_seq_ + 1;
  args.spec.born_after = {epoch_, next_serial_ - 1};
  resident.spec = std::make_shared<const Spec>(std::move(args.spec));
  resident.created = true;
  return resident;
}

Result<Started> Engine::Start(StartArgs args) {
  if (args.flow && args.machine.empty()) {
    args.machine = args.flow->id.empty() ? "adhoc" : args.flow->id;
  }
  VersionState* version = VersionOf(args.ns, args.machine, args.version);
  if (args.flow || (!version && args.implicit)) version = &ImplicitVersion(args.ns, args.machine);
  if (!args.id.empty()) {
    auto taken = FirstSeqOf(args.ns, args.id);
    if (!taken) return taken.error();
    if (*taken) return StartAgain(args);
  }
  if (!version) return NoSuchMachine(args.ns, args.machine, args.version);
  if (version->LeftBehind()) {
    return Error{Code::kFailedPrecondition, Reason::kSupersededVersion,
                 "version " + std::to_string(args.version) + " of machine " + Quoted(args.machine) +
                     " has been left behind by an upgrade or abort; start the latest, version " +
                     std::to_string(version->machine->versions.rbegin()->first)};
  }
  const Machine& machine = version->definition->machine;
  const ParamsCheck* check = args.flow ? args.flow->params.check.get() : machine.params.get();
  if (auto refusal = RefusalOf(args, check, now_)) return *std::move(refusal);
  std::vector<Instance::Prerequisite> after = EachOnce(args.after);
  auto ended = EndedOf(args.ns, after);
  if (!ended) return ended.error();
  // What the server starts by itself belongs to something that has begun.
  if (args.parent.empty() && !args.implicit) {
    if (auto full = NeedsRoom(Room::kAmple)) return *std::move(full);
  }
  Resident& resident = Create(std::move(args), std::move(after), version);
  Change(resident, {}, [&](Scene& scene) {
    dfsmr::Start(scene);
    for (Event& event : scene.events) {
      event.client = resident.spec->client;
      if (event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kScheduled) {
        event.params = resident.spec->params;
      }
    }
    return Ok{};
  });
  for (const auto& [id, result] : *ended) {
    Change(resident, {}, [&](Scene& scene) {
      PrerequisiteStopped(scene, id, result);
      return Ok{};
    });
  }
  const Instance& instance = resident.instance;
  if (!instance.Stopped()) {
    for (const auto& one : instance.after) {
      followers_[ResidentKey(instance.ns, one.instance)].insert(instance.id);
    }
  }
  if (instance.state == InstanceState::kPlanning) Plan(resident);
  return Started{ViewOf(resident), true};
}

// How far back a report that may be a repetition is looked for: more than all workers together
// could have reported since.
constexpr size_t kLookedBack = 100'000;

// The answer to a report that was accepted before the last one: from the history.
std::optional<Answer> Engine::FormerAnswer(Resident& resident, const ReportArgs& args) {
  auto ref = ParseClaim(resident.instance, args.claim);
  if (!ref) return std::nullopt;
  std::optional<Answer> answer;
  size_t looked = 0;
  auto consider = [&](const Event& event) {  // false: looked far enough
    // What stops an instance may tell of a visit that was over by then.
    const bool entry = event.visit == ref->visit && (event.kind == ChangeKind::kStarted ||
                                                     event.kind == ChangeKind::kTransitioned ||
                                                     event.kind == ChangeKind::kSuspended ||
                                                     event.kind == ChangeKind::kWoken);
    if (event.left_visit != ref->visit) return !entry && ++looked < kLookedBack;
    if (event.answer && event.answer->claim == ref->id && event.transition == args.transition) {
      answer = event.answer;
      answer->repeated = true;
    }
    return false;
  };
  auto uncommitted = [&](uint64_t seq) {
    std::optional<Event> found;
    auto look_in = [&](const std::vector<rows::FeedPage>& pages) {
      for (const rows::FeedPage& page : pages) {
        if (seq < page.first || seq > page.last) continue;
        (void)rows::ReadPage(page, seq, [&found](Event event) {
          found = std::move(event);
          return false;
        });
      }
    };
    for (const Uncommitted& turn : uncommitted_) look_in(*turn.feed);
    look_in(*turn_.feed);
    return found;
  };
  rows::FeedReader feed(store_, options_.partition);
  Instance probe;  // its history, with the pages that the store may not show yet
  probe.ns = resident.instance.ns;
  probe.id = resident.instance.id;
  probe.history = resident.pages_before;
  std::ranges::copy(resident.pages, std::back_inserter(probe.history));
  std::ranges::copy(resident.instance.history, std::back_inserter(probe.history));
  auto scanned =
      rows::HistoryBackwards(store_, options_.partition, probe, [&](uint64_t seq) {
        if (auto event = uncommitted(seq)) return consider(*event);
        auto event = feed.Get(seq);
        if (!event && !broken_) broken_ = event.error();
        return event ? consider(*event) : false;
      });
  if (!scanned && !broken_) broken_ = scanned.error();
  return answer;
}

// A late report is refused, but how long its attempt took is worth knowing.
void Engine::LateReport(const Instance& instance, const std::string& claim) {
  auto ref = ParseClaim(instance, claim);
  if (!ref || ref->id.epoch != epoch_) return;
  auto it = ended_.find(ref->id.serial);
  if (it == ended_.end()) return;
  const EndedClaim& ended = it->second;
  ended.latency->Learn({now_ - ended.claim_time, false, ended.censored_at, ended.retry}, now_);
  unsaved_.insert(&StateOf(instance.ns, instance.machine));
  ended_.erase(it);
}

Result<Answer> Engine::Report(const std::string& ns, const std::string& id, ReportArgs args,
                              const std::vector<rows::ChildStart>& children) {
  auto resident = Touch(ns, id);
  if (!resident) return resident.error();
  if (auto full = NeedsRoom(children.empty() ? Room::kScarce : Room::kAmple)) {
    return *std::move(full);
  }
  if (auto possible = CheckSuspend(**resident, args, children); !possible) {
    if (args.claim.empty()) return possible.error();
    args.fault = possible.error();
  }
  bool retry = false;
  Timestamp claimed_at;
  ClaimId self;
  if (auto ref = ParseClaim((*resident)->instance, args.claim)) {
    self = ref->id;
    const Token* token = std::as_const((*resident)->instance.tokens).Find(ref->visit);
    if (const dfsmr::Claim* claim = token ? token->FindClaim(self) : nullptr) {
      retry = claim->retry;
      claimed_at = claim->claim_time;
    }
  }
  MachineState& machine = *(*resident)->version->machine;
  auto answer = Change(**resident, self, [&](Scene& scene) {
    scene.born_after = BornAfter(**resident, self);
    return dfsmr::Report(scene, args);
  });
  if (answer) {
    if (!answer->repeated && (*resident)->instance.plan) {
      AfterReport(**resident, args, *answer, children);
    }
    if (retry && !answer->repeated) machine.breaker.RetrySucceeded(claimed_at);
    return answer;
  }
  if (answer.error().reason == Reason::kStaleClaim) {
    /*mutant former-answer-forgotten*/ if (auto former = FormerAnswer(**resident, args))
      return *former; /*end*/
    LateReport((*resident)->instance, args.claim);
  }
  return answer;
}

Result<std::string> Engine::Relinquish(const std::string& ns, const std::string& id,
                                       const std::string& claim, const std::string& client) {
  auto resident = Touch(ns, id);
  if (!resident) return resident.error();
  const Tokens& tokens = (*resident)->instance.tokens;
  ClaimId self;
  if (auto ref = ParseClaim((*resident)->instance, claim)) {
    self = ref->id;
    const Token* token = tokens.Find(ref->visit);
    const dfsmr::Claim* one = token ? token->FindClaim(self) : nullptr;
    if (one && one->Live()) ForgetClaim(**resident, *one);
  } else if (claim.empty()) {
    for (const Token& token : tokens) {
      for (const dfsmr::Claim& one : token.claims) {
        if (one.Live()) ForgetClaim(**resident, one);
      }
    }
  }
  auto node = Change(**resident, self, [&](Scene& scene) {
    scene.born_after = BornAfter(**resident, self);
    return dfsmr::Relinquish(scene, claim, client);
  });
  if (node && claim.empty()) MarkDirty(**resident);  // it may have voided what nobody knows of
  return node;
}

// The last claim that was made before the instance was started. Only one that a crash may have lost
// can be of another instance that had its id.
ClaimId Engine::BornAfter(Resident& resident, ClaimId claim) {
  if (!claim || claim.epoch >= epoch_) return {};
  auto spec = SpecOf(resident);
  return spec ? (*spec)->born_after : ClaimId();
}

void Engine::ForgetClaim(Resident& resident, const dfsmr::Claim& claim) {
  MachineState& machine = *resident.version->machine;
  NoteBreaker(machine, machine.breaker.GivenBack(claim.retry, claim.claim_time, now_));
}

Engine::Extended Engine::Extend(const std::string& ns, const std::string& id,
                                const std::string& text, std::optional<Duration> by,
                                double progress) {
  Extended extended;
  auto resident = Touch(ns, id);
  if (!resident) {
    extended.error = resident.error();
    return extended;
  }
  Instance& instance = (*resident)->instance;
  Timestamp deadline = kNever;
  auto ref = ParseClaim(instance, text);
  const Token* token = ref ? std::as_const(instance.tokens).Find(ref->visit) : nullptr;
  if (by) {
    deadline = After(now_, *by);
  } else if (token && token->node < (*resident)->graph->states.size()) {
    const Node& node = (*resident)->machine().nodes[token->node];
    const NodeState& counts = (*resident)->StateOf(token->node);
    const Latency* latency = counts.latency;
    if (latency) {
      const bool retry = token->TimedOutBefore();
      const size_t claimed = counts.claimed;
      if (auto timeout = latency->Timeout(node.settings->timeout, retry, claimed)) {
        deadline = After(now_, *timeout);
      }
    }
  }
  auto outcome = Change(**resident, {}, [&](Scene& scene) {
    if (ref) scene.born_after = BornAfter(**resident, ref->id);
    return dfsmr::Extend(scene, text, deadline, progress);
  });
  if (outcome) {
    MarkLazy(**resident);
    extended.deadline = outcome->deadline;
    extended.cancel_requested = outcome->cancel_requested;
    return extended;
  }
  extended.error = outcome.error();
  extended.cancel_requested = instance.cancel_requested;
  extended.kill_requested = instance.killed;
  return extended;
}

template <typename Rule>
Result<Ok> Engine::Control(const std::string& ns, const std::string& id, Rule rule) {
  auto resident = Touch(ns, id);
  if (!resident) return resident.error();
  auto outcome = Change(**resident, {}, rule);
  if (outcome && !(*resident)->instance.Stopped()) MarkDirty(**resident);
  return outcome;
}

Result<Ok> Engine::Pause(const std::string& ns, const std::string& id) {
  return Control(ns, id, [](Scene& scene) { return dfsmr::Pause(scene); });
}

Result<Ok> Engine::Resume(const std::string& ns, const std::string& id, const std::string& node,
                          bool force) {
  auto resident = Touch(ns, id);
  if (!resident) return resident.error();
  auto free = KeyIsFree(**resident);
  if (!free) return free;
  return Control(ns, id, [&](Scene& scene) { return dfsmr::Resume(scene, node, force); });
}

Result<Ok> Engine::Skip(const std::string& ns, const std::string& id, const std::string& node) {
  return Control(ns, id, [&](Scene& scene) { return dfsmr::Skip(scene, node); });
}

Result<Ok> Engine::Cancel(const std::string& ns, const std::string& id, CancelMode mode) {
  return Control(ns, id, [&](Scene& scene) { return dfsmr::Cancel(scene, mode); });
}

Result<Ok> Engine::Settle(const std::string& ns, const std::string& id) {
  if (id.empty()) {
    while (!lazy_.empty()) Settle(*lazy_.front().second);
    return Ok{};
  }
  auto resident = Touch(ns, id);
  if (!resident) return resident.error();
  Settle(**resident);
  return Ok{};
}

// Definitions ------------------------------------------------------------------------------------

Engine::MachineState& Engine::StateOf(const std::string& ns, const std::string& id) {
  auto& machine = machines_[{ns, id}];
  if (!machine) {
    machine = std::make_unique<MachineState>();
    machine->ns = ns;
    machine->id = id;
  }
  return *machine;
}

Engine::VersionState* Engine::VersionOf(std::string_view ns, std::string_view id,
                                        uint32_t version) {
  auto machine = machines_.find({std::string(ns), std::string(id)});
  if (machine == machines_.end() || machine->second->versions.empty()) return nullptr;
  auto& versions = machine->second->versions;
  if (version == 0) {  // the latest; what nobody has defined is none
    return versions.rbegin()->first == 0 ? nullptr : &versions.rbegin()->second;
  }
  auto it = versions.find(version);
  return it == versions.end() ? nullptr : &it->second;
}

Engine::VersionState& Engine::AddVersion(MachineVersionPtr definition,
                                         std::shared_ptr<const Machine> shown) {
  MachineState& machine = StateOf(definition->ns, definition->machine.id);
  VersionState& state = machine.versions[definition->version];
  state.definition = definition;
  state.machine = &machine;
  const Machine& defined = definition->machine;
  state.plan = defined.plan;
  state.shown = std::move(shown);
  if (defined.action)
    state.plan = std::make_shared<const PlanSource>(PlanOfAction(*defined.action));
  if (state.plan) {
    Machine unplanned;
    unplanned.id = defined.id;
    state.graph = GraphOf(state, std::make_shared<const Machine>(std::move(unplanned)));
  } else {
    state.graph = GraphOf(state, std::shared_ptr<const Machine>(definition, &defined));
  }
  definitions_.erase(definition->ns);
  registry_.Add(std::move(definition));
  SetDestinations(machine, state);
  return state;
}

// What `latest`'s upgrade_strategy makes of the versions before it.
void Engine::SetDestinations(MachineState& machine, VersionState& latest) {
  const UpgradeStrategy strategy = latest.definition->machine.upgrade_strategy;
  if (strategy == UpgradeStrategy::kContinue) return;
  for (auto& [number, version] : machine.versions) {
    if (&version == &latest || version.aborted_by || number == 0) continue;
    if (strategy == UpgradeStrategy::kAbort) {
      version.aborted_by = &latest;
    } else {
      version.upgrades_to = &latest;
    }
  }
}

Result<std::vector<Defined>> Engine::Define(const std::string& ns, std::vector<Machine> machines,
                                            bool validate_only,
                                            std::vector<DefineProblem>* problems) {
  auto shown = CompileAll(ns, machines, {}, problems);
  if (HasErrors(*problems)) {
    return Error{Code::kInvalidArgument, Reason::kBadMachine, problems->front().problem.message};
  }
  auto full = validate_only ? std::nullopt : NeedsRoom(Room::kAmple);
  if (full) return *std::move(full);
  std::vector<Defined> defined;
  for (size_t i = 0; i < machines.size(); ++i) {
    Machine& machine = machines[i];
    Defined one{machine.id, 1, true, machine.upgrade_strategy, 0};
    const VersionState* latest = VersionOf(ns, machine.id, 0);
    if (latest) {
      one.version = latest->definition->version;
      one.changed = latest->definition->machine.fingerprint != machine.fingerprint;
      if (one.changed) {
        ++one.version;
        for (const auto& [number, version] : latest->machine->versions) {
          const bool moves = one.strategy != UpgradeStrategy::kContinue && number > 0;
          if (moves) one.affected += version.Alive();
        }
      }
    }
    defined.push_back(one);
    if (!one.changed || validate_only) continue;
    auto definition = std::make_shared<const MachineVersion>(
        MachineVersion{ns, one.version, std::move(machine), now_});
    rows::PutMachine(&turn_.batch, options_.partition,
                     {ns, one.id, one.version, definition->machine.source, now_});
    VersionState& added = AddVersion(definition, std::move(shown[i]));
    Event event;
    event.kind = ChangeKind::kDefined;
    event.time = now_;
    event.ns = ns;
    event.machine = one.id;
    event.version = one.version;
    Append(&event, nullptr);
    if (one.strategy != UpgradeStrategy::kContinue && one.version > 1) LeaveBehind(added);
  }
  return defined;
}

// From now on nothing of the versions before `latest` is handed out; the instances themselves are
// moved when they are touched, the rest in the background.
void Engine::LeaveBehind(VersionState& latest) {
  MachineState& machine = *latest.machine;
  std::erase_if(machine.held_back, [](const auto& one) {
    return Agenda::KeyOf(one.first).version > 0;
  });
  agenda_.DropVersions(machine.ns, machine.id, latest.definition->version);
  for (auto& [number, version] : machine.versions) {
    if (number >= latest.definition->version) break;
    for (auto& [name, node] : version.nodes) node.queue = nullptr;
  }
  machine.swept.clear();
  /*mutant upgrade-leaves-untouched*/ sweeping_.insert(&machine); /*end*/
  // A scan of the store does not see what no commit has covered yet.
  std::vector<Resident*> unseen;
  for (Resident* resident : by_use_) {
    if (resident->version->machine == &machine && !Durable(*resident)) unseen.push_back(resident);
  }
  for (Resident* resident : unseen) {
    if (!resident->instance.Stopped() && resident->version->LeftBehind()) Move(*resident);
  }
}

MachineView Engine::View(const VersionState& version) const {
  MachineView view;
  view.definition = version.definition;
  view.stats = {version.scheduled, version.running, version.paused, version.stopped,
                version.machine->breaker.RetryShare(), Name(version.machine->breaker.state())};
  view.machine = version.plan ? version.shown : version.graph->machine;
  if (!view.machine) view.machine = version.graph->machine;
  for (const Node& defined : view.machine->nodes) {
    NodeStats& node = view.nodes.emplace_back();
    auto it = version.nodes.find(StatsName(version, defined.id));
    if (it == version.nodes.end()) {  // nothing ever stood there
      if (defined.kind == NodeKind::kWork) {
        node.timeout_now = Latency().Timeout(defined.settings->timeout, /*retry=*/false, 0);
      }
      continue;
    }
    const NodeState& state = it->second;
    node.ready = state.ready;
    node.claimed = state.claimed;
    node.waiting = state.waiting;
    node.held = state.held;
    node.completed = state.completed;
    node.timed_out = state.timed_out;
    if (!state.latency) continue;
    node.p50 = state.latency->Quantile(50);
    node.p95 = state.latency->Quantile(95);
    node.timeout_now =
        state.latency->Timeout(defined.settings->timeout, /*retry=*/false, state.claimed);
  }
  return view;
}

Result<MachineView> Engine::GetMachine(const std::string& ns, const std::string& id,
                                       uint32_t version) {
  const VersionState* state = VersionOf(ns, id, version);
  if (!state) return NoSuchMachine(ns, id, version);
  return View(*state);
}

std::vector<MachineView> Engine::ListMachines(const std::string& ns, bool all_versions,
                                              const std::pair<std::string, uint32_t>& after,
                                              size_t limit) {
  std::vector<MachineView> views;
  for (auto it = machines_.lower_bound({ns, after.first});
       it != machines_.end() && it->first.first == ns && views.size() < limit; ++it) {
    const auto& versions = it->second->versions;
    auto version = all_versions ? versions.lower_bound(1) : std::prev(versions.end());
    if (version != versions.end() && version->first == 0) continue;
    for (; version != versions.end() && views.size() < limit; ++version) {
      const bool seen = it->first.second == after.first && version->first <= after.second;
      if (!seen) views.push_back(View(version->second));
    }
  }
  return views;
}

}  // namespace dfsmr
