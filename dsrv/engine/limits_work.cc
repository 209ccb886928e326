// What limits do in each pass because of changes: instances give way, tokens ask, and those whose
// turn it is come in.
#include <algorithm>

#include "dsrv/engine/limits.h"
#include "fsm/rules/limits.h"

namespace dfsmr {
namespace {

constexpr size_t kTurnsPerPass = 1'000;  // that are let in, turned away or registered
constexpr size_t kAncestorsHold = 64;    // more than that are not one's ancestors

}  // namespace

void Limits::BeginPass() {
  left_ = kTurnsPerPass;
  table_.FireDue(turn_.clock());
  counts_.FireDue();
  if (numbers_.IsDue()) numbers_.Save();
  if (counts_.ReadMore()) turn_.WantMore();
}

bool Limits::Work() {
  if (left_ > 0 && (GiveWay() || Recheck() || HoldUnasked() || AskForOld() || Register() ||
                    TurnOneAway() || LetOneIn() || StopForEver())) {
    if (--left_ == 0) turn_.WantMore();
    return true;
  }
  return false;
}

void Limits::Settle() {
  if (victims_.empty()) return;
  while (GiveWay()) {
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
  auto resident = changer_.Touch(victim.ns, victim.id);
  if (!resident || (*resident)->instance.Stopped()) return true;
  if ((*resident)->instance.cancel >= victim.mode) return true;
  changer_.Apply(**resident, [&](Scene& scene) { rules::GiveWay(scene, victim.mode, victim.why); });
  if (!(*resident)->instance.Stopped()) residents_.MarkDirty(**resident);
  return true;
}

// An instance holds other keys than before, or one of its tokens waits: the tokens stand in the
// line of those keys that their instance does not hold, and wait no more when it holds them all.
bool Limits::Recheck() {
  if (to_recheck_.empty()) return false;
  const auto [ns, id] = SplitKey(*to_recheck_.begin());
  to_recheck_.erase(to_recheck_.begin());
  auto resident = residents_.Load(ns, id);
  if (!resident || !Runs((*resident)->instance.state)) return true;
  const Instance& instance = (*resident)->instance;
  std::vector<uint64_t> called;
  for (const Token& token : instance.tokens) {
    if (!token.WaitsForLimits()) continue;
    std::vector<LimitKey> lacks;
    for (const LimitKey& key : token.limits->keys) {
      if (!table_.Holds(ns, key.key, id)) lacks.push_back(key);
    }
    if (lacks.empty()) {
      called.push_back(token.visit);
    } else {
      Shorten(instance, token, std::move(lacks));
    }
  }
  for (uint64_t visit : called) {
    changer_.Apply(**resident, [&](Scene& scene) { rules::CallToken(scene, visit); });
    residents_.MarkDirty(**resident);
  }
  return true;
}

void Limits::Shorten(const Instance& instance, const Token& token, std::vector<LimitKey> lacks) {
  const TokenName name{ResidentKey(instance.ns, instance.id), token.visit};
  const std::vector<LimitKey>& line = LineOf(name, token.limits->keys);
  if (line == lacks) return;
  const Turn turn{instance.priority, token.limits->order, token.visit};
  // In this order: a key that nobody stood for would be forgotten with its number.
  table_.Stand(instance.ns, lacks, turn, instance.id, token.limits->since, Stand::kWaits);
  table_.Leave(instance.ns, line, turn);
  if (lacks.size() == token.limits->keys.size()) {
    shortened_.erase(name);
  } else {
    shortened_[name] = std::move(lacks);
  }
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
  const LimitAnswer answer = judge_.Judge(request, *asks).answer;
  changer_.Apply(**resident, [&](Scene& scene) {
    name.second == 0 ? rules::HoldPastLimits(scene, answer)
                     : rules::HoldPastLimits(scene, name.second, answer);
  });
  residents_.MarkDirty(**resident);
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
  auto keys = Admit(**resident, *token);
  if (!keys || keys->empty()) return true;
  Asking asking;
  asking.turn = AskerOf(**resident).turn;
  asking.turn.visit = name.second;
  asking.keys = *std::move(keys);
  table_.Stand(ns, asking.keys, asking.turn, id, turn_.clock(), Stand::kAsks);
  asking_.emplace(name, std::move(asking));
  return true;
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

// A place was given back: those that still find none may wait for their ancestors alone by now.
bool Limits::StopForEver() {
  if (given_back_.empty()) return false;
  const auto [ns, key] = SplitKey(*given_back_.begin());
  given_back_.erase(given_back_.begin());
  if (table_.HasPlace(ns, key, "") || table_.Used(ns, key) > kAncestorsHold) return true;
  std::vector<LimitTable::Waiter> waiters;
  table_.ForEachWaiter(ns, key, {}, [&](const LimitTable::Waiter& waiter) {
    waiters.push_back(waiter);
    return waiters.size() < kTurnsPerPass;
  });
  for (const LimitTable::Waiter& waiter : waiters) {
    auto resident = residents_.Load(ns, waiter.instance);
    if (!resident || (*resident)->instance.Stopped()) continue;
    if (!(*resident)->instance.parent_step) continue;
    const auto why = judge_.WhyForEver(AskerOf(**resident), {key, table_.AskerOf(ns, key)});
    if (!why) continue;
    changer_.Apply(**resident, [&](Scene& scene) { rules::PlanningFailed(scene, *why); });
    residents_.MarkDirty(**resident);
  }
  return true;
}

bool Limits::LetOneIn() {
  auto next = table_.Next(turn_.clock());
  if (!next) return false;
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
    table_.Leave(next->ns, keys, next->turn);
  }
  return true;
}

}  // namespace dfsmr
