// Limits over several partitions: home decides for all of them. Elsewhere the engine tells home what
// its instances hold and wait for, and goes by its answers.
#include <algorithm>

#include "dsrv/engine/limit_keys.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/residents.h"
#include "fsm/base/names.h"
#include "fsm/rules/limits.h"
#include "storage/place.h"

namespace dfsmr {
namespace {

using ToldKind = rows::Message::Stake::Kind;

}  // namespace

// Instances of several partitions stand in one line, in the order of their starts: one number for
// each partition and moment.
uint64_t Limits::NextOrder() {
  if (options_.partitions == 1) return turn_.last_seq() + 1;
  const auto moment = static_cast<uint64_t>(Micros(turn_.now()));
  last_moment_ = std::max(moment, last_moment_ + 1);
  return (last_moment_ << 10) | options_.partition;
}

void Limits::NoteOrder(uint64_t order) {
  if (options_.partitions > 1) last_moment_ = std::max(last_moment_, order >> 10);
}

std::optional<rows::Message::Stake> Limits::QuestionOf(const StartArgs& args,
                                                       VersionState& version) {
  if (args.dry_run || args.force) return std::nullopt;
  auto asks = askers_.OfStart(args, version);
  const auto leaves_out = [](const LimitAsk& ask) {
    return ask.on_conflict == OnConflict::kSkip || ask.waiting;
  };
  if (!asks || std::ranges::none_of(*asks, leaves_out)) return std::nullopt;
  rows::Message::Stake question{.ns = args.ns, .instance = args.id};
  question.kind = ToldKind::kAsks;
  question.asks = *std::move(asks);
  question.priority = args.priority;
  if (args.provenance) question.group = args.provenance->group;
  return question;
}

// At home ---------------------------------------------------------------------------------------

void Limits::TakeStake(const rows::Message::Stake& stake) {
  for (LimitVictim& victim : guests_.Take(stake)) victims_.push_back(std::move(victim));
}

// Elsewhere -------------------------------------------------------------------------------------

void Limits::Tell() {
  if (!envoy_.Speaks()) return census_.TellHeard();
  census_.TellHome();
  places_.TellHome();
  census_.AnswerHome();
}

void Limits::CountAsked(const Instance& instance, const Stake& before, const Stake& after) {
  for (const auto& [stake, by] : {std::pair(&before, -1), std::pair(&after, +1)}) {
    if (stake->kind != Stake::Kind::kHolds) continue;
    for (const LimitKey& key : *stake->keys) census_.CountAsked(instance.ns, key.key, by);
  }
}

// It waits until home has answered. Home has answered for the keys that were asked for then: of a
// key that got its number later it is asked once more.
LimitAnswer Limits::AskHome(const Instance& instance) {
  Resident& resident = *asking_now_;
  auto asks = askers_.OfInstance(resident);
  if (!asks) return {.kind = LimitAnswer::Kind::kFails, .why = asks.error().message};
  const size_t own = asks->size();
  // One that was paused asks again for what its tokens had, too.
  if (instance.Begun()) askers_.AddHeld(resident, &*asks);
  const LimitRequest asker = AskerOf(resident);
  LimitAnswer answer;
  answer.order = asker.turn.order;
  answer.keys = KeysAsked(*asks);
  const bool lets_in = told_ && told_->kind == LimitAnswer::Kind::kRoom;
  const bool asked = !lets_in || /*mutant message-limit-late-key-not-asked*/ std::ranges::all_of(
      answer.keys,
      [&](const LimitKey& key) { return HasKey(instance.limits->keys, key.key); }) /*end*/;
  if (told_ && asked) {
    answer.kind = told_->kind;
    answer.key = told_->key;
    answer.why = told_->why;
  } else if (!asks->empty() && !asker.force) {
    answer.kind = LimitAnswer::Kind::kWaits;
    answer.key = asks->front().key;
    answer.why = "it asks for limit " + Quoted(answer.key);
    envoy_.Say(instance.ns, instance.id, 0, *std::move(asks));
  }
  if (answer.kind == LimitAnswer::Kind::kRoom) answer.keys.resize(own);
  return answer;
}

std::optional<std::vector<LimitKey>> Limits::AdmitElsewhere(Resident& resident,
                                                            const Token& token) {
  auto asks = askers_.OfToken(resident, token);
  if (asks && asks->empty()) return std::vector<LimitKey>();
  LimitVerdict verdict;
  verdict.answer.order = AskerOf(resident).turn.order;
  if (asks) {
    verdict.answer.kind = LimitAnswer::Kind::kWaits;
    verdict.answer.keys = KeysAsked(*asks);
    envoy_.Say(resident.instance.ns, resident.instance.id, token.visit, *std::move(asks));
  } else {
    verdict.answer.kind = LimitAnswer::Kind::kFails;
    verdict.answer.why = asks.error().message;
  }
  TurnAway(resident, token.visit, verdict);
  return std::nullopt;
}

void Limits::TellHome(const Instance& instance, uint64_t visit, const Stake& before,
                      const Stake& after) {
  using enum Stake::Kind;
  if (visit == 0) CountAsked(instance, before, after);
  if (loading_) return;
  const bool same_keys = before.keys && after.keys && *before.keys == *after.keys;
  const bool had = before.Stands() && same_keys && before.order == after.order;
  if (before.Holds() && after.Holds() && same_keys) return;
  if (before.kind == kWaits && after.Holds() && same_keys) return;  // as home has let it
  if (before.kind == after.kind && (after.kind == kNothing || had)) return;
  rows::Message::Stake stake{.ns = instance.ns, .instance = instance.id, .visit = visit};
  stake.priority = instance.priority;
  stake.order = after.order;
  stake.since = after.since;
  stake.forced = after.forced;
  if (visit == 0 && !instance.Begun()) stake.group = GroupOf(instance);
  if (after.keys) {
    for (const LimitKey& key : *after.keys) stake.asks.push_back({key.key, key.numbers});
  }
  if (after.kind == kWaits) {
    stake.kind = ToldKind::kWaits;
    if (auto said = envoy_.TakeSaid(instance.ns, instance.id, visit); said && !had) {
      stake.kind = ToldKind::kAsks;
      stake.in_line = before.kind == kWaits;
      stake.asks = *std::move(said);
      if (instance.parent_step) stake.above = ChainAbove(instance);
    }
  } else if (after.kind == kPaused) {
    stake.kind = ToldKind::kPaused;
  } else if (after.Holds()) {
    stake.kind = ToldKind::kHolds;
  }
  envoy_.Tell(std::move(stake));
}

// The parent, its parent, and so on.
std::vector<std::string> Limits::ChainAbove(const Instance& instance) {
  std::vector<std::string> chain{instance.parent};
  const LimitRequest child{.ns = instance.ns, .parent = instance.parent};
  for (const std::string& one : judge_.AncestorsOf(child)) {
    if (one != instance.parent) chain.push_back(one);
  }
  return chain;
}

void Limits::HearVerdict(const rows::Message::Verdict& verdict) {
  if (!envoy_.Expects(verdict)) return;
  auto touched = changer_.Touch(verdict.ns, verdict.instance);
  if (!touched) return;
  Resident& resident = **touched;
  told_ = LimitAnswer{.kind = verdict.kind,
                      .key = verdict.key,
                      .why = verdict.why,
                      .singleton = verdict.singleton};
  if (verdict.visit == 0) {
    changer_.Apply(resident, [&](Scene& scene) {
      verdict.kind == LimitAnswer::Kind::kRoom ? rules::LetIn(scene)
                                               : rules::RefuseTurn(scene, *told_);
    });
  } else {
    HearOfToken(resident, verdict);
  }
  told_.reset();
  residents_.MarkDirty(resident);
}

void Limits::HearOfToken(Resident& resident, const rows::Message::Verdict& verdict) {
  const Instance& instance = resident.instance;
  const uint64_t visit = verdict.visit;
  if (verdict.kind == LimitAnswer::Kind::kLeftOut && !resident.machine().graph) {
    // A node cannot be left out: it waits, however many do.
    const Token* token = instance.tokens.Find(visit);
    if (token) TellHome(instance, visit, {}, StakeOf(*token, instance.state));
    return;
  }
  changer_.Apply(resident, [&](Scene& scene) { rules::CallToken(scene, visit); });
  if (verdict.kind == LimitAnswer::Kind::kRoom) return;
  TurnAway(resident, visit, {.answer = *told_, .for_ever = verdict.for_ever, .victims = {}});
}

void Limits::MakeWay(const rows::Message::Yield& yield) {
  victims_.push_back({yield.ns, yield.instance, yield.mode, yield.why});
}

}  // namespace dfsmr
