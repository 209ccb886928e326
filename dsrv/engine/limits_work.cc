// What limits do in each pass because of changes: instances give way, tokens ask, and those whose
// turn it is come in.
#include <algorithm>

#include "dsrv/engine/limit_keys.h"
#include "dsrv/engine/changer.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/residents.h"
#include "fsm/rules/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kTurnsPerPass = 1'000;  // that are let in, turned away or registered
constexpr size_t kGatheredAtOnce = 1'000;  // that hold a key or wait for it
constexpr size_t kCostOfGathering = 20;    // of so many, in turns

}  // namespace

void Limits::BeginPass() {
  left_ = kTurnsPerPass;
  table_.FireDue(turn_.clock());
  counts_.FireDue();
  numbers_.DropAskers();
  if (numbers_.IsDue()) numbers_.Save();
  if (counts_.ReadMore()) turn_.WantMore();
  if (numbers_.RefreshMore()) turn_.WantMore();
  census_.TellKeys();
  StandAgain();
}

// Those that give way do so in the pass in which it was decided: what is left to a later one a
// crash would forget.
bool Limits::Work() {
  if (GiveWay()) {
    left_ = left_ > 0 ? left_ - 1 : 0;
    if (left_ == 0) turn_.WantMore();
    return true;
  }
  if (left_ > 0 &&
      (Displace() || Recheck() || HoldUnasked() || EnrolSome() || AskForOld() ||
       guests_.GiveUpOne() || Register() || TurnOneAway() || LetOneIn() || places_.Give() ||
       ancestors_.Chart() || ancestors_.StopForEver())) {
    if (--left_ == 0) turn_.WantMore();
    return true;
  }
  return false;
}

void Limits::Settle() {
  if (victims_.empty()) return;
  for (size_t left = kTurnsPerPass; left > 0 && GiveWay(); --left) {
  }
  LetSomeIn();
}

// Before a call is answered; Work goes on with the rest.
void Limits::LetSomeIn() {
  for (size_t left = kTurnsPerPass; left > 0 && LetOneIn(); --left) {
  }
}

Timestamp Limits::Due() const { return std::min(table_.Due(), counts_.Due()); }

// Cancels one in favour of another.
bool Limits::GiveWay() {
  if (victims_.empty()) return false;
  const LimitVictim victim = std::move(victims_.front());
  victims_.pop_front();
  if (!options_.Has(victim.ns, victim.id)) {
    const PartitionId there = PartitionOf(victim.ns, victim.id, options_.partitions);
    guests_.SetAside(victim.ns, victim.id);
    /*mutant message-limit-victim-not-told*/ messages_.Send(
        there, {rows::Message::Yield{victim.ns, victim.id, victim.mode, victim.why}}); /*end*/
    return true;
  }
  auto resident = changer_.Touch(victim.ns, victim.id);
  if (!resident || (*resident)->instance.Stopped()) return true;
  if ((*resident)->instance.cancel >= victim.mode) return true;
  changer_.Apply(**resident, [&](Scene& scene) { rules::GiveWay(scene, victim.mode, victim.why); });
  if (!(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
  return true;
}

// More are to be cancelled in favour of an instance than were at once. It is noted in its row, so
// that a crash does not end it.
bool Limits::Displace() {
  if (displacing_.empty()) return false;
  auto [full, gathering] = std::move(displacing_.front());
  displacing_.pop_front();
  const auto [ns, id] = SplitKey(full);
  auto resident = changer_.Touch(ns, id);
  if (!resident || (*resident)->instance.Stopped()) return true;
  const auto& limits = (*resident)->instance.limits;
  if (!limits || !limits->displaces) return true;
  if (!gathering) {
    const auto asks = askers_.OfInstance(**resident);
    gathering = judge_.GatheringFor(AskerOf(**resident), asks ? *asks : LimitAsks(), limits->since);
  }
  std::vector<LimitVictim> victims;
  const bool done = judge_.Gather(&*gathering, kGatheredAtOnce, &victims);
  std::ranges::move(victims, std::back_inserter(victims_));
  if (!done) {
    left_ = left_ > kCostOfGathering ? left_ - kCostOfGathering : 1;
    displacing_.emplace_front(std::move(full), std::move(gathering));
    return true;
  }
  changer_.Apply(**resident, [](Scene& scene) { rules::HasDisplaced(scene); });
  residents_.MarkDirty(**resident);
  return true;
}

// An instance holds other keys than before, or one of its tokens waits: the tokens stand in the
// line of those keys that their instance does not hold, and wait no more when it holds them all.
bool Limits::Recheck() {
  auto doubtful = lines_.NextDoubtful();
  if (!doubtful) return false;
  if (!doubtful->all && doubtful->visits.empty()) return true;
  auto resident = residents_.Load(doubtful->ns, doubtful->id);
  if (!resident || !Runs((*resident)->instance.state)) return true;
  const Tokens& tokens = (*resident)->instance.tokens;
  if (doubtful->all && tokens.Count(TokenState::kWaiting) > 0) {
    for (const Token& token : tokens) {
      if (token.WaitsForLimits()) doubtful->visits.insert(token.visit);
    }
  }
  for (uint64_t visit : doubtful->visits) RecheckOne(**resident, visit);
  return true;
}

bool Limits::RecheckOne(Resident& resident, uint64_t visit) {
  const Instance& instance = resident.instance;
  const Token* token = instance.tokens.Find(visit);
  if (!token || !token->WaitsForLimits()) return false;
  std::vector<LimitKey> lacks;
  for (const LimitKey& key : token->limits->keys) {
    if (!table_.Holds(instance.ns, key.key, instance.id)) lacks.push_back(key);
  }
  if (!lacks.empty()) {
    lines_.Shorten(instance, *token, std::move(lacks));
    return false;
  }
  changer_.Apply(resident, [&](Scene& scene) { rules::CallToken(scene, visit); });
  residents_.MarkDirty(resident);
  return true;
}

// What runs already goes on, and holds what it asks for, whether there is room or not.
bool Limits::HoldUnasked() {
  if (unasked_.empty()) return false;
  const TokenName name = std::move(unasked_.front());
  unasked_.pop_front();
  const auto [ns, id] = SplitKey(name.first);
  auto resident = changer_.Touch(ns, id);
  if (!resident || !Runs((*resident)->instance.state)) return true;
  const Instance& instance = (*resident)->instance;
  const Token* token = instance.tokens.Find(name.second);
  if (name.second == 0 ? static_cast<bool>(instance.plan) : !token) return true;
  auto asks = token ? askers_.OfToken(**resident, *token) : askers_.OfInstance(**resident);
  if (!asks || asks->empty()) return true;
  LimitRequest request = AskerOf(**resident);
  request.force = true;
  LimitAnswer answer;
  if (envoy_.Speaks()) {
    answer.order = request.turn.order;
    answer.keys = KeysAsked(*asks);
  } else {
    answer = judge_.Judge(request, *asks).answer;
  }
  changer_.Apply(**resident, [&](Scene& scene) {
    name.second == 0 ? rules::HoldPastLimits(scene, answer)
                     : rules::HoldPastLimits(scene, name.second, answer);
  });
  residents_.MarkDirty(**resident);
  return true;
}

// Elsewhere: what a schedule or trigger has started before it might not overlap any more holds its
// key from now on.
bool Limits::EnrolSome() {
  const auto unasked = census_.NextUnasked();
  if (!unasked) return false;
  for (const std::string& id : unasked->instances) {
    auto resident = changer_.Touch(unasked->ns, id);
    if (!resident || !Runs((*resident)->instance.state)) continue;
    const Instance& instance = (*resident)->instance;
    LimitAnswer answer;
    if (instance.limits && instance.limits->state == InstanceLimits::State::kHolds) {
      answer.keys = instance.limits->keys;
    }
    if (HasKey(answer.keys, unasked->key)) continue;
    answer.keys.push_back({unasked->key, {}});
    answer.order = AskerOf(**resident).turn.order;
    /*mutant message-overlap-not-enrolled*/ changer_.Apply(
        **resident, [&](Scene& scene) { rules::HoldPastLimits(scene, answer); }); /*end*/
    residents_.MarkDirty(**resident);
  }
  return true;
}

// One that waited before there were limits asks for the first time.
bool Limits::AskForOld() {
  if (old_.empty()) return false;
  const auto [ns, id] = SplitKey(old_.front());
  old_.pop_front();
  auto resident = changer_.Touch(ns, id);
  if (!resident || !(*resident)->instance.waits.ForTurn()) return true;
  changer_.Apply(**resident, [](Scene& scene) { rules::LetIn(scene); });
  residents_.MarkDirty(**resident);
  return true;
}

// A token has become ready: from now on it is known what it asks for.
bool Limits::Register() {
  if (to_ask_.empty()) return false;
  const TokenName name = std::move(to_ask_.front());
  to_ask_.pop_front();
  const auto [ns, id] = SplitKey(name.first);
  auto resident = changer_.Touch(ns, id);
  if (!resident || !Runs((*resident)->instance.state) || asking_.contains(name)) return true;
  const Token* token = std::as_const((*resident)->instance.tokens).Find(name.second);
  if (!token || token->state != TokenState::kReady || token->limits) return true;
  auto keys = Admit(**resident, *token, false);
  if (!keys || keys->empty()) return true;
  Asking asking;
  asking.turn = AskerOf(**resident).turn;
  asking.turn.visit = name.second;
  asking.keys = *std::move(keys);
  table_.Stand(ns, asking.keys, asking.turn, id, turn_.clock(), Stand::kAsks);
  asking_.emplace(name, std::move(asking));
  return true;
}

// Before it is told who waits: after a restart nothing that is ready has asked yet.
void Limits::LetAsk() {
  for (size_t left = kTurnsPerPass; left > 0 && Register(); --left) {
  }
}

// Another has taken the last place of a ready token.
bool Limits::TurnOneAway() {
  auto next = table_.NextTurnedAway(turn_.clock());
  if (!next) return false;
  const TokenName name{ResidentKey(next->ns, next->instance), next->turn.visit};
  auto resident = changer_.Touch(next->ns, next->instance);
  const Token* token =
      resident ? std::as_const((*resident)->instance.tokens).Find(name.second) : nullptr;
  const bool ready = token && token->state == TokenState::kReady && !token->limits;
  // With room after all, since its own instance holds the key, it need not be looked at again.
  if (ready) (void)Admit(**resident, *token);
  Forget(name);
  return true;
}

// They were looked at in vain, and stepped aside for the others.
void Limits::StandAgain() {
  for (const auto& [full, visit] : std::exchange(again_, {})) {
    const auto [ns, id] = SplitKey(full);
    auto resident = residents_.Load(ns, id);
    if (!resident) continue;
    const Instance& instance = (*resident)->instance;
    const Token* token = std::as_const(instance.tokens).Find(visit);
    const Stake part = visit == 0 ? StakeOf(instance.limits, instance.state, instance.waits)
                                  : (token ? StakeOf(*token, instance.state) : Stake());
    if (part.kind == Stake::Kind::kWaits) Move(instance, visit, part, part);
  }
}

bool Limits::LetOneIn() {
  auto next = table_.Next(turn_.clock());
  if (!next) return false;
  if (guests_.LetIn(*next)) return true;
  auto touched = changer_.Touch(next->ns, next->instance);
  if (touched && !(*touched)->instance.Stopped()) {
    Resident& resident = **touched;
    changer_.Apply(resident, [&](Scene& scene) {
      next->turn.visit == 0 ? rules::LetIn(scene) : rules::CallToken(scene, next->turn.visit);
    });
    residents_.MarkDirty(resident);
  }
  // Whatever became of it, it does not stand in front of the others for ever.
  auto again = table_.Next(turn_.clock());
  if (again && again->turn == next->turn && again->instance == next->instance &&
      again->ns == next->ns) {
    std::vector<LimitKey> keys;
    for (std::string& key : next->keys) keys.push_back({std::move(key), {}});
    table_.Leave(next->ns, keys, next->turn, next->group);
    again_.emplace_back(ResidentKey(next->ns, next->instance), next->turn.visit);
  }
  return true;
}

}  // namespace dfsmr
