#include "dsrv/engine/limits.h"

#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/limits.h"

namespace dfsmr {
namespace {

using Kind = LimitAnswer::Kind;

constexpr std::string_view kWhatHelps =
    "; start it with on_conflict wait (dcli: --on-conflict wait), so that it waits its turn, or "
    "with "
    "force (--force) to begin past all limits";

bool Holds(InstanceState state) {
  return state == InstanceState::kPlanning || state == InstanceState::kRunning;
}

}  // namespace

Limits::Limits(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer,
               Values& values, Documents& documents, Agenda& agenda)
    : turn_(turn),
      residents_(residents),
      changer_(changer),
      numbers_(turn, documents, table_),
      askers_(values, numbers_),
      counts_(turn, catalog, residents, agenda, table_, numbers_),
      judge_(turn, residents, table_, numbers_, counts_) {
  documents.SetKeeper(DocumentKind::kLimit, this);
  changer.SetGate(this);
}

// Numbers ---------------------------------------------------------------------------------------

Result<Ok> Limits::Override(const std::string& ns, const std::string& key,
                            const LimitChange& change) {
  auto done = numbers_.Override(ns, key, change);
  if (!done) return done;
  counts_.Sync();
  LetSomeIn();
  return done;
}

void Limits::Defined(const DocumentVersion& version, bool first) {
  numbers_.Defined(version, first);
  counts_.Sync();
}

void Limits::Deleted(const std::string& ns, const std::string& name) {
  numbers_.Deleted(ns, name);
  counts_.Sync();
}

// What rules ask --------------------------------------------------------------------------------

LimitRequest Limits::AskerOf(Resident& resident) {
  const Instance& instance = resident.instance;
  LimitRequest asker{.ns = instance.ns, .id = instance.id};
  if (instance.parent_step) asker.parent = instance.parent;
  asker.turn.priority = instance.priority;
  if (instance.limits && instance.limits->order != 0) {
    asker.turn.order = instance.limits->order;
  } else if (auto spec = residents_.SpecOf(resident)) {
    asker.turn.order = (*spec)->first_seq;
  }
  asker.force = instance.limits && instance.limits->force && !instance.Begun();
  asker.in_line = instance.waits.ForTurn();
  return asker;
}

void Limits::Advise(Resident& resident, Scene* scene) {
  const Instance& instance = resident.instance;
  if (instance.dry_run) return;
  const VersionState& version = *resident.version;
  const bool plain = !instance.plan && version.definition->machine.limits.empty();
  const bool planned =
      instance.plan && instance.version != 0 && version.plan && version.plan->limits.empty();
  const bool nothing = (plain || planned) && !instance.limits && numbers_.tracked().empty() &&
                       !resident.machine().nodes_ask;
  if (nothing) return;
  asking_now_ = &resident;
  scene->gate = this;
}

LimitAnswer Limits::Ask(const Instance& instance) {
  LimitVerdict verdict = VerdictOn(instance);
  for (LimitVictim& victim : verdict.victims) victims_.push_back(std::move(victim));
  return std::move(verdict.answer);
}

LimitAnswer Limits::WouldAnswer(const Instance& instance) { return VerdictOn(instance).answer; }

LimitVerdict Limits::VerdictOn(const Instance& instance) {
  Resident& resident = *asking_now_;
  auto asks = askers_.OfInstance(resident);
  if (!asks) return {.answer = {.kind = Kind::kFails, .why = asks.error().message}};
  // One that was paused asks again for what its tokens had, too.
  const size_t own = asks->size();
  for (const Token& token : instance.tokens) {
    if (!token.limits || token.limits->state != TokenLimits::State::kHolds) continue;
    for (const LimitKey& key : token.limits->keys) {
      if (std::ranges::find(*asks, key.key, &LimitAsk::key) != asks->end()) continue;
      asks->push_back({.key = key.key, .numbers = key.numbers});
    }
  }
  LimitVerdict verdict = judge_.Judge(AskerOf(resident), *asks);
  if (verdict.answer.kind == Kind::kRoom) verdict.answer.keys.resize(own);
  return verdict;
}

Result<Ok> Limits::MayStart(const StartArgs& args, VersionState& version) {
  if (args.dry_run) return Ok{};
  auto asks = askers_.OfStart(args, version);
  if (!asks || asks->empty() || args.force) return Ok{};
  LetSomeIn();
  LimitRequest asker{.ns = args.ns, .id = args.id};
  if (args.parent_step) asker.parent = args.parent;
  asker.turn = {args.priority, turn_.last_seq() + 1, 0};
  const LimitAnswer answer = judge_.Judge(asker, *asks).answer;
  for (const LimitAsk& ask : *asks) table_.Tidy(args.ns, ask.key, turn_.clock());
  if (answer.kind != Kind::kLeftOut) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kLimitReached,
               answer.why + std::string(kWhatHelps)};
}

Result<Ok> Limits::MayResume(Resident& resident, const std::string& node) {
  const Instance& instance = resident.instance;
  const bool goes_on =
      instance.Stopped() ||
      (instance.Begun() && !instance.waits.Has(Wait::kLimit) &&
       (instance.waits.Has(Wait::kStuck) || (instance.waits.Has(Wait::kPause) && node.empty())));
  if (!goes_on) return Ok{};
  auto asks = askers_.OfInstance(resident);
  if (!asks || asks->empty()) return Ok{};
  const LimitAnswer answer = judge_.Judge(AskerOf(resident), *asks).answer;
  const bool refused = answer.kind == Kind::kLeftOut || answer.kind == Kind::kFails ||
                       (answer.kind == Kind::kWaits && answer.singleton);
  if (!refused) return Ok{};
  return Error{Code::kFailedPrecondition,
               answer.singleton ? Reason::kIllegalTransition : Reason::kLimitReached,
               answer.why + "; resume this one when there is room"};
}

bool Limits::MayPlan(Resident& resident) {
  const Instance& instance = resident.instance;
  if (!instance.plan->upgraded) return true;
  auto asks = askers_.OfInstance(resident);
  static const std::vector<LimitKey> kNone;
  const bool holds = instance.limits && instance.limits->state == InstanceLimits::State::kHolds;
  const bool asked = asks && std::ranges::equal(*asks, holds ? instance.limits->keys : kNone, {},
                                                &LimitAsk::key, &LimitKey::key);
  if (asked) return true;
  changer_.Apply(resident, [&](Scene& scene) {
    Advise(resident, &scene);
    rules::AskAgain(scene);
  });
  residents_.MarkDirty(resident);
  return instance.state == InstanceState::kPlanning;
}

// Hand-outs -------------------------------------------------------------------------------------

std::optional<std::vector<LimitKey>> Limits::Admit(Resident& resident, const Token& token) {
  if (!LimitAskers::AsksForAny(resident, token)) return std::vector<LimitKey>();
  if (token.limits && token.limits->state != TokenLimits::State::kWaits) return token.limits->keys;
  const uint64_t visit = token.visit;
  auto asks = askers_.OfToken(resident, token);
  LimitVerdict verdict;
  if (asks) {
    LimitRequest asker = AskerOf(resident);
    asker.turn.visit = visit;
    asker.force = asker.in_line = false;
    verdict = judge_.Judge(asker, *asks);
  } else {
    verdict.answer = {.kind = Kind::kFails, .why = asks.error().message};
  }
  if (verdict.answer.kind == Kind::kRoom) return std::move(verdict.answer.keys);
  TurnAway(resident, visit, verdict);
  return std::nullopt;
}

void Limits::TurnAway(Resident& resident, uint64_t visit, const LimitVerdict& verdict) {
  const Instance& instance = resident.instance;
  const LimitAnswer& answer = verdict.answer;
  Forget({ResidentKey(instance.ns, instance.id), visit});
  const bool step = resident.machine().graph != nullptr;
  changer_.Apply(resident, [&](Scene& scene) {
    if (answer.kind == Kind::kFails) {
      step && !verdict.for_ever ? rules::FailStep(scene, visit, answer.why)
                                : rules::PlanningFailed(scene, answer.why);
    } else if (answer.kind == Kind::kLeftOut && step) {
      rules::LeaveOutStep(scene, visit, answer.why);
    } else {
      TokenLimits limits;
      limits.keys = answer.keys;
      limits.order = answer.order;
      rules::AwaitTurn(scene, visit, std::move(limits));
    }
  });
  residents_.MarkDirty(resident);
}

void Limits::Claimed(Resident& resident, uint64_t visit) {
  const Instance& instance = resident.instance;
  const Token& token = *instance.tokens.Find(visit);
  counts_.Claimed(resident, token);
  if (!token.limits) return;
  Forget({ResidentKey(instance.ns, instance.id), visit});
  Move(instance, visit, {}, PartOf(token, instance.state));
}

// What follows from changes ---------------------------------------------------------------------

Limits::Stake Limits::PartOf(const Boxed<InstanceLimits>& limits, InstanceState state,
                             Waits waits) {
  using State = InstanceLimits::State;
  Stake part;
  if (!limits || limits->keys.empty() || state == InstanceState::kStopped) return part;
  part.keys = &limits->keys;
  part.order = limits->order;
  part.since = limits->since;
  part.forced = limits->force;
  if (limits->state == State::kHolds && Holds(state)) {
    part.kind = Stake::Kind::kHolds;
  } else if (limits->state == State::kWaits) {
    part.kind = waits.ForTurn() ? Stake::Kind::kWaits : Stake::Kind::kPaused;
  }
  return part;
}

Limits::Stake Limits::PartOf(const Token& token, InstanceState state) {
  using State = TokenLimits::State;
  Stake part;
  if (!token.limits || token.limits->keys.empty() || state == InstanceState::kStopped) return part;
  part.keys = &token.limits->keys;
  part.order = token.limits->order;
  part.since = token.limits->since;
  const bool runs = Holds(state);
  switch (token.limits->state) {
    case State::kWaits:
      part.kind = runs ? Stake::Kind::kWaits : Stake::Kind::kPaused;
      break;
    case State::kCalled:
      if (runs) part.kind = Stake::Kind::kReserved;
      break;
    case State::kHolds:
      if (runs) part.kind = Stake::Kind::kHolds;
      break;
  }
  return part;
}

// Brings the table from what an instance or a token had of it to what it has now.
void Limits::Move(const Instance& instance, uint64_t visit, const Stake& before,
                  const Stake& after) {
  using enum Stake::Kind;
  const auto stands = [](Stake::Kind kind) { return kind == kWaits || kind == kPaused; };
  const auto holds = [](Stake::Kind kind) { return kind == kReserved || kind == kHolds; };
  const Turn turn{instance.priority, after.order != 0 ? after.order : before.order, visit};
  const TokenName name{ResidentKey(instance.ns, instance.id), visit};
  if (stands(before.kind) &&
      (!stands(after.kind) || *before.keys != *after.keys || before.order != after.order)) {
    table_.Leave(instance.ns, LineOf(name, *before.keys), {instance.priority, before.order, visit});
    shortened_.erase(name);
  }
  bool other = false;  // the instance holds other keys than before
  if (holds(after.kind)) {
    for (const LimitKey& key : *after.keys) {
      const bool new_here = !table_.Holds(instance.ns, key.key, instance.id);
      numbers_.Asked(instance.ns, key);
      table_.Take(instance.ns, key.key, instance.id, {visit, after.since, after.forced});
      if (new_here && !loading_) numbers_.Spent(instance.ns, key.key);
      other = other || new_here;
    }
  }
  if (holds(before.kind)) {
    for (const LimitKey& key : *before.keys) {
      const bool still =
          holds(after.kind) &&
          std::ranges::find(*after.keys, key.key, &LimitKey::key) != after.keys->end();
      if (still) continue;
      table_.Release(instance.ns, key.key, instance.id, visit);
      if (table_.InLine(instance.ns, key.key) > 0) {
        given_back_.insert(ResidentKey(instance.ns, key.key));
      }
      other = other || !table_.Holds(instance.ns, key.key, instance.id);
    }
  }
  if (stands(after.kind)) {
    for (const LimitKey& key : *after.keys) {
      numbers_.Asked(instance.ns, key);
      counts_.Follow(instance.ns, key.key);
    }
    table_.Stand(instance.ns, LineOf(name, *after.keys), turn, instance.id, after.since,
                 after.kind == kWaits ? Stand::kWaits : Stand::kPaused);
    other = other || shortened_.contains(name);
    other = other || (visit != 0 && std::ranges::any_of(*after.keys, [&](const LimitKey& key) {
                        return table_.Holds(instance.ns, key.key, instance.id);
                      }));
  }
  if (other && !instance.Stopped()) to_recheck_.insert(name.first);
}

const std::vector<LimitKey>& Limits::LineOf(const TokenName& name,
                                            const std::vector<LimitKey>& keys) const {
  auto it = shortened_.find(name);
  return it == shortened_.end() ? keys : it->second;
}

void Limits::Absorb(const Change& change) {
  counts_.Absorb(change);
  const Instance& instance = change.instance();
  if (change.before.limits || instance.limits) {
    const Stake before = PartOf(change.before.limits, change.before.state, change.before.waits);
    Move(instance, 0, before, PartOf(instance.limits, instance.state, instance.waits));
  }
  const bool moved = change.Moved() && change.before.version && !instance.plan;
  if (moved && !change.resident.version->definition->machine.limits.empty()) {
    unasked_.emplace_back(ResidentKey(instance.ns, instance.id), 0);
  }
  const bool asked = change.before.graph && change.before.graph->machine->nodes_ask;
  if (asked || change.resident.machine().nodes_ask) AbsorbTokens(change);
}

void Limits::AbsorbTokens(const Change& change) {
  const Instance& instance = change.instance();
  // Those that are gone come last: what a step holds it holds on its next node, too.
  for (bool gone : {false, true}) {
    for (const Tokens::Touched& touched : change.touched()) {
      const Token* now = instance.tokens.Find(touched.visit);
      if ((now == nullptr) != gone) continue;
      AbsorbToken(change, touched.before ? &*touched.before : nullptr, now, touched.visit);
    }
  }
  if (Holds(change.before.state) == Holds(instance.state)) return;
  std::set<uint64_t> touched;
  for (const Tokens::Touched& one : change.touched()) touched.insert(one.visit);
  for (const Token& token : instance.tokens) {  // it was paused, or goes on
    if (!touched.contains(token.visit)) AbsorbToken(change, &token, &token, token.visit);
  }
}

void Limits::AbsorbToken(const Change& change, const Token* before, const Token* now,
                         uint64_t visit) {
  const Instance& instance = change.instance();
  if (instance.Stopped()) now = nullptr;
  const bool has_limits = (before && before->limits) || (now && now->limits);
  if (has_limits) {
    Move(instance, visit, before ? PartOf(*before, change.before.state) : Stake(),
         now ? PartOf(*now, instance.state) : Stake());
  }
  const bool asks = now && !now->limits && Holds(instance.state) &&
                    LimitAskers::AsksForAny(change.resident, *now);
  if (asks && now->state == TokenState::kReady) return Enlist(instance, visit);
  TokenName name{ResidentKey(instance.ns, instance.id), visit};
  Forget(name);
  if (asks && now->state == TokenState::kClaimed) unasked_.push_back(std::move(name));
}

void Limits::Enlist(const Instance& instance, uint64_t visit) {
  TokenName name{ResidentKey(instance.ns, instance.id), visit};
  if (!asking_.contains(name)) to_ask_.push_back(std::move(name));
}

void Limits::Forget(const TokenName& name) {
  auto asking = asking_.find(name);
  if (asking == asking_.end()) return;
  table_.Leave(SplitKey(name.first).first, asking->second.keys, asking->second.turn);
  asking_.erase(asking);
}

// Start-up --------------------------------------------------------------------------------------

void Limits::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  counts_.Load(instance);
  /*mutant recover-no-limits*/ if (instance.limits) {
    const Stake part = PartOf(instance.limits, instance.state, instance.waits);
    // Of a row from before there were limits the keys are not known: it asks for its turn.
    if (part.kind == Stake::Kind::kNothing && instance.waits.Has(Wait::kLimit)) {
      old_.push_back(ResidentKey(instance.ns, instance.id));
    }
    Move(instance, 0, {}, part);
  } /*end*/
  if (!resident.machine().nodes_ask) return;
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    if (token.limits) {
      Move(instance, token.visit, {}, PartOf(token, instance.state));
    } else if (token.state == TokenState::kReady && Holds(instance.state) &&
               LimitAskers::AsksForAny(resident, token)) {
      Enlist(instance, token.visit);
    }
  }
}

void Limits::LoadReady(std::string_view ns, std::string_view id, uint64_t visit) {
  to_ask_.emplace_back(ResidentKey(ns, id), visit);
}

void Limits::Loaded() {
  loading_ = false;
  counts_.Sync();
}

}  // namespace dfsmr
