#include "dsrv/engine/limits.h"

#include <algorithm>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/limit_keys.h"
#include "dsrv/engine/residents.h"
#include "fsm/base/names.h"
#include "fsm/plan/graph.h"
#include "fsm/rules/limits.h"

namespace dfsmr {
namespace {

using Kind = LimitAnswer::Kind;

// What would let in one that is left out. `cause`: the schedule or trigger that starts it.
std::string WhatHelps(std::string_view cause, const LimitAnswer& answer) {
  if (cause.empty() && answer.crowded) {
    return "; as many wait as may: start it when there are fewer, or with force (dcli: --force) to "
           "begin past all limits";
  }
  if (cause.empty()) {
    return "; start it with on_conflict wait (dcli: --on-conflict wait), so that it waits its "
           "turn, or with force (--force) to begin past all limits";
  }
  if (answer.key != cause) return "; it could begin when there is room";
  if (answer.crowded) return "; as many wait as may: with 'overlap: allow' it would begin at once";
  const std::string text =
      "; with 'overlap: wait' it would wait its turn, with 'overlap: allow' begin at once";
  return cause.starts_with("schedule:") ? text + " (dcli: schedules run --overlap wait)" : text;
}

Error LeftOut(std::string_view cause, const LimitAnswer& answer) {
  return {Code::kFailedPrecondition, Reason::kLimitReached, answer.why + WhatHelps(cause, answer)};
}

}  // namespace

Limits::Limits(OpenTurn& turn, Catalog& catalog, Residents& residents, Changer& changer,
               Values& values, Documents& documents, Agenda& agenda, Messages& messages,
               const EngineOptions& options)
    : turn_(turn),
      residents_(residents),
      changer_(changer),
      numbers_(turn, documents, table_),
      askers_(values, numbers_),
      counts_(turn, catalog, residents, agenda, table_, numbers_),
      judge_(turn, residents, table_, numbers_, counts_),
      options_(options),
      messages_(messages),
      guests_(turn, table_, numbers_, counts_, judge_, messages, options),
      envoy_(turn, messages),
      places_(turn, table_, numbers_, counts_, agenda, messages, options),
      census_(turn, table_, numbers_, counts_, messages, places_, options),
      reader_(turn, residents, table_, numbers_, counts_, judge_, envoy_),
      lines_(table_),
      ancestors_(residents, changer, table_, judge_) {
  if (options.partitions > 1) counts_.SetPlaces(&places_);
  if (envoy_.Speaks()) counts_.SetCensus(&census_);
  documents.SetKeeper(DocumentKind::kLimit, this);
  changer.SetGate(this);
}

// Numbers ---------------------------------------------------------------------------------------

Result<Ok> Limits::Override(const std::string& ns, const std::string& key,
                            const LimitChange& change) {
  auto done = numbers_.Override(ns, key, change);
  if (!done) return done;
  counts_.Sync();
  census_.TellKeys();
  LetSomeIn();
  return done;
}

void Limits::Import(const std::string& ns, const std::string& key,
                    const rows::LimitOverride& row) {
  numbers_.Import(ns, key, row);
  counts_.Sync();
  census_.TellKeys();
}

void Limits::ForgetNamespace(const std::string& ns) {
  numbers_.Forget(ns);
  census_.Forget(ns);
}

void Limits::Defined(const DocumentVersion& version, bool first) {
  numbers_.Defined(version, first);
  counts_.Sync();
  census_.TellKeys();
}

void Limits::Deleted(const std::string& ns, const std::string& name) {
  numbers_.Deleted(ns, name);
  counts_.Sync();
  census_.TellKeys();
}

void Limits::SetOverlap(const std::string& ns, const std::string& cause, Overlap overlap) {
  if (options_.partitions == 1 || !turn_.at_home()) return;
  /*mutant message-overlap-not-followed*/ numbers_.Follow(ns, cause,
                                                          overlap != Overlap::kAllow); /*end*/
  counts_.Sync();
  census_.TellKeys();
}

// What rules ask --------------------------------------------------------------------------------

LimitRequest Limits::AskerOf(Resident& resident) {
  const Instance& instance = resident.instance;
  LimitRequest asker{.ns = instance.ns, .id = instance.id};
  if (instance.parent_step) asker.parent = instance.parent;
  asker.turn.priority = instance.priority;
  if (instance.limits && instance.limits->order != 0) {
    asker.turn.order = instance.limits->order;
  } else if (options_.partitions > 1) {
    asker.turn.order = NextOrder();
  } else if (auto spec = residents_.SpecOf(resident)) {
    asker.turn.order = (*spec)->first_seq;
  }
  asker.force = instance.limits && instance.limits->force && !instance.Begun();
  asker.in_line = instance.waits.ForTurn();
  if (asker.in_line && instance.limits) asker.asked = &instance.limits->keys;
  return asker;
}

void Limits::Advise(Resident& resident, Scene* scene) {
  const Instance& instance = resident.instance;
  if (instance.dry_run) return;
  const VersionState& version = *resident.version;
  const bool plain = !instance.plan && version.definition->machine.limits.empty();
  const bool planned =
      instance.plan && instance.version != 0 && version.plan && version.plan->limits.empty();
  const bool nothing = (plain || planned) && !instance.limits && !numbers_.AnyNumber() &&
                       !resident.machine().nodes_ask;
  if (nothing) return;
  asking_now_ = &resident;
  scene->gate = this;
}

LimitAnswer Limits::Ask(const Instance& instance) {
  if (envoy_.Speaks()) return AskHome(instance);
  LimitVerdict verdict = VerdictOn(instance);
  for (LimitVictim& victim : verdict.victims) victims_.push_back(std::move(victim));
  return std::move(verdict.answer);
}

LimitAnswer Limits::WouldAnswer(const Instance& instance) {
  return envoy_.Speaks() ? LimitAnswer() : VerdictOn(instance).answer;
}

LimitVerdict Limits::VerdictOn(const Instance& instance) {
  Resident& resident = *asking_now_;
  auto asks = askers_.OfInstance(resident);
  if (!asks) return {.answer = {.kind = Kind::kFails, .why = asks.error().message}};
  // One that was paused asks again for what its tokens had, too.
  const size_t own = asks->size();
  if (instance.Begun()) askers_.AddHeld(resident, &*asks);
  LimitVerdict verdict = judge_.Judge(AskerOf(resident), *asks);
  if (verdict.answer.kind == Kind::kRoom) verdict.answer.keys.resize(own);
  return verdict;
}

Result<Ok> Limits::MayStart(const StartArgs& args, VersionState& version, Reserved* reserved) {
  if (args.dry_run) return Ok{};
  if (envoy_.Speaks()) return args.home_says.value_or(Ok{});
  auto asks = askers_.OfStart(args, version);
  if (!asks || asks->empty()) return Ok{};
  if (args.force) {  // it takes its places whether there is room or not
    for (const LimitAsk& ask : *asks) {
      if (reserved) ++(*reserved)[ResidentKey(args.ns, ask.key)];
    }
    return Ok{};
  }
  LetSomeIn();
  LimitRequest asker{.ns = args.ns, .id = args.id};
  if (args.parent_step) asker.parent = args.parent;
  asker.turn = {args.priority, NextOrder(), 0};
  asker.reserved = reserved;
  const LimitAnswer answer = judge_.Judge(asker, *asks).answer;
  for (const LimitAsk& ask : *asks) table_.Tidy(args.ns, ask.key, turn_.clock());
  if (answer.kind != Kind::kLeftOut) {
    for (const LimitAsk& ask : *asks) {
      const bool takes = answer.kind == Kind::kRoom ||
                         (answer.kind == Kind::kWaits && ask.on_conflict != OnConflict::kWait);
      if (reserved && takes) ++(*reserved)[ResidentKey(args.ns, ask.key)];
    }
    return Ok{};
  }
  return LeftOut(args.provenance ? args.provenance->cause : "", answer);
}

Result<Ok> Limits::Reserve(rows::Message::Stake question, std::string_view cause) {
  LetSomeIn();
  question.order = NextOrder();
  const LimitAnswer answer = guests_.Reserve(std::move(question));
  return answer.kind == Kind::kLeftOut ? Result<Ok>(LeftOut(cause, answer)) : Ok{};
}

Result<Ok> Limits::Reserve(std::string_view question) {
  auto message = rows::DecodeMessage(question);
  if (!message) return message.error();
  auto* const stake = std::get_if<rows::Message::Stake>(&message->of);
  if (!stake) return Error{Code::kInvalidArgument, Reason::kNone, "it is no question of limits"};
  return Reserve(std::move(*stake), "");
}

Result<Ok> Limits::MayResume(Resident& resident, const std::string& node) {
  if (envoy_.Speaks()) return Ok{};
  const Instance& instance = resident.instance;
  const bool goes_on =
      instance.Stopped() ||
      (instance.Begun() && !instance.waits.Has(Wait::kLimit) &&
       (instance.waits.Has(Wait::kStuck) || (instance.waits.Has(Wait::kPause) && node.empty())));
  if (!goes_on) return Ok{};
  auto asks = askers_.OfInstance(resident);
  if (asks) askers_.AddHeld(resident, &*asks);
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

std::optional<std::vector<LimitKey>> Limits::Admit(Resident& resident, const Token& token,
                                                   bool now) {
  if (!LimitAskers::AsksForAny(resident, token)) return std::vector<LimitKey>();
  if (token.limits && token.limits->state != TokenLimits::State::kWaits) return token.limits->keys;
  if (envoy_.Speaks()) return AdmitElsewhere(resident, token);
  const uint64_t visit = token.visit;
  auto asks = askers_.OfToken(resident, token);
  LimitVerdict verdict;
  if (asks) {
    LimitRequest asker = AskerOf(resident);
    asker.turn.visit = visit;
    asker.force = asker.in_line = false;
    asker.asked = nullptr;
    asker.looks = !now;
    verdict = judge_.Judge(asker, *asks);
    if (asker.looks && verdict.answer.kind != Kind::kRoom) {
      asker.looks = false;  // what becomes of it depends on its own numbers
      verdict = judge_.Judge(asker, *asks);
    }
  } else {
    verdict.answer = {.kind = Kind::kFails, .why = asks.error().message};
  }
  if (verdict.answer.kind == Kind::kRoom) return std::move(verdict.answer.keys);
  TurnAway(resident, visit, verdict);
  return std::nullopt;
}

bool Limits::KeepsBack(const Resident& resident, const Token& token) const {
  if (!counts_.TasksLimited()) return false;
  const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
  return !table_.HasRoom(resident.instance.ns, "queue:" + settings.queue, "", turn_.clock()) ||
         !table_.HasRoom(resident.instance.ns, "action:" + settings.action, "", turn_.clock());
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
  Move(instance, visit, {}, StakeOf(token, instance.state));
}

// What follows from changes ---------------------------------------------------------------------

void Limits::Take(const Instance& instance, uint64_t visit, const Stake& stake) {
  for (const LimitKey& key : *stake.keys) {
    const bool fresh = !table_.Holds(instance.ns, key.key, instance.id);
    numbers_.Stands(instance.ns, key);
    table_.Take(instance.ns, key.key, instance.id, {visit, stake.since, stake.forced});
    if (!fresh) continue;
    if (!loading_) numbers_.Spent(instance.ns, key.key);
    lines_.Holds(instance, key.key);
  }
}

void Limits::GiveBack(const Instance& instance, uint64_t visit, const Stake& before,
                      const Stake& after) {
  for (const LimitKey& key : *before.keys) {
    const bool still = after.Holds() && HasKey(*after.keys, key.key);
    if (still) continue;
    table_.Release(instance.ns, key.key, instance.id, visit);
    numbers_.Left(instance.ns, key.key);
    if (instance.Stopped() || table_.Holds(instance.ns, key.key, instance.id)) continue;
    lines_.HoldsNoMore(instance);
  }
}

// Brings the table from what an instance or a token had of it to what it has now.
void Limits::Move(const Instance& instance, uint64_t visit, const Stake& before,
                  const Stake& after) {
  if (envoy_.Speaks()) return TellHome(instance, visit, before, after);
  const TokenName name{ResidentKey(instance.ns, instance.id), visit};
  const std::string_view group = visit == 0 ? GroupOf(instance) : std::string_view();
  const bool leaves = before.Stands() && (!after.Stands() || *before.keys != *after.keys ||
                                          before.order != after.order);
  if (leaves) {
    table_.Leave(instance.ns, lines_.LineOf(name, *before.keys),
                 {instance.priority, before.order, visit}, group);
    for (const LimitKey& key : *before.keys) numbers_.Left(instance.ns, key.key);
    ancestors_.Note(instance, *before.keys, false);
    if (visit != 0) lines_.WaitsNoMore(instance, visit, *before.keys);
  }
  if (after.Holds()) Take(instance, visit, after);
  if (before.Holds()) GiveBack(instance, visit, before, after);
  if (!after.Stands()) return;
  for (const LimitKey& key : *after.keys) {
    numbers_.Stands(instance.ns, key);
    counts_.Follow(instance.ns, key.key);
  }
  const Turn turn{instance.priority, after.order != 0 ? after.order : before.order, visit};
  table_.Stand(instance.ns, lines_.LineOf(name, *after.keys), turn, instance.id, after.since,
               after.kind == Stake::Kind::kWaits ? Stand::kWaits : Stand::kPaused,
               instance.Begun() ? std::string_view() : group);
  if (leaves || !before.Stands()) {
    ancestors_.Note(instance, *after.keys, true);
    if (visit != 0) lines_.Waits(instance, visit, *after.keys);
  }
  if (visit != 0) lines_.Recheck(instance, visit, *after.keys);
}

void Limits::Absorb(const Change& change) {
  counts_.Absorb(change);
  const Instance& instance = change.instance();
  const bool asked = change.before.graph && change.before.graph->machine->nodes_ask;
  const bool tokens_ask = asked || change.resident.machine().nodes_ask;
  // What its tokens have, home hears before that the instance does not hold it any more.
  if (tokens_ask && envoy_.Speaks()) AbsorbTokens(change);
  if (change.before.limits || instance.limits) {
    const Stake before = StakeOf(change.before.limits, change.before.state, change.before.waits);
    Move(instance, 0, before, StakeOf(instance.limits, instance.state, instance.waits));
  }
  const bool displaces = instance.limits && instance.limits->displaces;
  if (displaces && !(change.before.limits && change.before.limits->displaces)) {
    displacing_.emplace_back(ResidentKey(instance.ns, instance.id), std::nullopt);
  }
  const bool moved = change.Moved() && change.before.version && !instance.plan;
  if (moved && !change.resident.version->definition->machine.limits.empty()) {
    unasked_.emplace_back(ResidentKey(instance.ns, instance.id), 0);
  }
  if (tokens_ask && !envoy_.Speaks()) AbsorbTokens(change);
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
  if (Runs(change.before.state) == Runs(instance.state)) return;
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
    Move(instance, visit, before ? StakeOf(*before, change.before.state) : Stake(),
         now ? StakeOf(*now, instance.state) : Stake());
  }
  const bool asks =
      now && !now->limits && Runs(instance.state) && LimitAskers::AsksForAny(change.resident, *now);
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
  if (instance.limits) NoteOrder(instance.limits->order);
  /*mutant recover-no-limits*/ if (instance.limits) {
    const Stake part = StakeOf(instance.limits, instance.state, instance.waits);
    // Of a row from before there were limits the keys are not known: it asks for its turn.
    if (part.kind == Stake::Kind::kNothing && instance.waits.Has(Wait::kLimit)) {
      old_.push_back(ResidentKey(instance.ns, instance.id));
    }
    Move(instance, 0, {}, part);
    if (instance.limits->displaces) {
      displacing_.emplace_back(ResidentKey(instance.ns, instance.id), std::nullopt);
    }
  } /*end*/
  // At the start all of them are counted in the end.
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    if (!loading_ && !instance.dry_run) counts_.CountTask(instance, *resident.graph, token, +1);
  }
  if (!resident.machine().nodes_ask) return;
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    if (token.limits) {
      NoteOrder(token.limits->order);
      Move(instance, token.visit, {}, StakeOf(token, instance.state));
    } else if (token.state == TokenState::kReady && Runs(instance.state) &&
               LimitAskers::AsksForAny(resident, token)) {
      Enlist(instance, token.visit);
    }
  }
}

Result<Ok> Limits::Recover() {
  auto done = numbers_.Recover();
  if (done) done = census_.Recover();
  counts_.BeginLoad();
  if (done) done = turn_.at_home() ? guests_.Recover() : envoy_.Recover();
  return done;
}

void Limits::LoadResting(std::string_view ns, std::string_view id, std::string_view machine,
                         Timestamp since) {
  if (numbers_.tracked().empty()) return;
  counts_.LoadResting(std::string(ns), std::string(id), std::string(machine), since);
}

void Limits::LoadReady(std::string_view ns, std::string_view id, uint64_t visit) {
  to_ask_.emplace_back(ResidentKey(ns, id), visit);
}

void Limits::Loaded() {
  loading_ = false;
  counts_.Sync();
  census_.Loaded();
  places_.Loaded();
}

}  // namespace dfsmr
