#include "dsrv/engine/limit_gathering.h"

#include <algorithm>
#include <vector>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_judge.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

using Phase = LimitGathering::Phase;

constexpr size_t kVictimsAtOnce = 250;

void Enter(LimitGathering* all, Phase phase) {
  all->phase = phase;
  all->last = {};
}

void NextAsk(LimitGathering* all) {
  ++all->at;
  Enter(all, Phase::kWaiters);
  all->turn.reset();
  all->found.clear();
  all->stays.reset();
}

}  // namespace

LimitGathering LimitJudge::GatheringFor(const LimitRequest& asker, const LimitAsks& asks,
                                        Timestamp since) const {
  LimitGathering all;
  all.ns = asker.ns;
  all.id = asker.id;
  all.order = asker.turn.order;
  all.since = since;
  for (const LimitAsk& ask : asks) {
    if (ask.on_conflict >= OnConflict::kLatest) all.asks.push_back(ask);
  }
  if (!all.asks.empty()) all.spared = AncestorsOf(asker);
  all.spared.insert(asker.id);
  return all;
}

bool LimitJudge::Gather(LimitGathering* all, size_t most, std::vector<LimitVictim>* to) const {
  size_t left = most;
  size_t victims = kVictimsAtOnce;
  while (left > 0 && victims > 0 && all->at < all->asks.size()) {
    switch (all->phase) {
      case Phase::kWaiters:
        LookAtWaiters(all, &left);
        break;
      case Phase::kHolders:
      case Phase::kCounted:
        LookAtHolders(all, &left);
        break;
      case Phase::kChoose:
        Choose(all);
        break;
      case Phase::kWaitersGo:
      case Phase::kHoldersGo:
        LetGo(all, &left, &victims, to);
        break;
    }
  }
  return all->at == all->asks.size();
}

// Newer ones are none of its concern, unless they have only begun since it asked.
void LimitJudge::Note(LimitGathering* all, const std::string& instance, Timestamp since,
                      bool holds) const {
  if (all->spared.contains(instance)) return;
  const auto known = all->found.find(instance);
  if (known != all->found.end()) {
    known->second.since = std::min(known->second.since, since);
    known->second.holds = known->second.holds || holds;
    return;
  }
  if (since > all->since) {
    auto resident = residents_.Load(all->ns, instance);
    const bool older = resident && (*resident)->instance.limits &&
                       (*resident)->instance.limits->order < all->order;
    if (!older) return;
  }
  all->found.try_emplace(instance, LimitGathering::Found{since, holds});
}

void LimitJudge::LookAtWaiters(LimitGathering* all, size_t* left) const {
  const LimitAsk& ask = all->asks[all->at];
  bool more = false;
  table_.ForEachWaiter(all->ns, ask.key, all->turn, [&](const LimitTable::Waiter& waiter) {
    if (*left == 0) return !(more = true);
    --*left;
    all->turn = waiter.turn;
    if (waiter.standing == LimitTable::Standing::kWaits) {
      Note(all, waiter.instance, waiter.since, false);
    }
    return true;
  });
  if (more) return;
  Enter(all, ask.on_conflict == OnConflict::kLatest ? Phase::kChoose : Phase::kHolders);
}

// First those that have asked for the key, then those that are only counted.
void LimitJudge::LookAtHolders(LimitGathering* all, size_t* left) const {
  const std::string& key = all->asks[all->at].key;
  bool more = false;
  const auto look = [&](std::string_view instance, uint64_t visit, Timestamp since) {
    if (*left == 0) return !(more = true);
    --*left;
    all->last = {std::string(instance), visit};
    Note(all, all->last.first, since, true);
    return true;
  };
  if (all->phase == Phase::kHolders) {
    const std::string after = all->last.first;
    table_.ForEachHolder(all->ns, key, after, [&](const LimitTable::Holder& holder) {
      Timestamp since = kNever;
      for (const auto& one : holder.holdings) since = std::min(since, one.since);
      return look(holder.instance, 0, since);
    });
    if (!more) Enter(all, BuiltInOf(key) == BuiltIn::kNone ? Phase::kChoose : Phase::kCounted);
    return;
  }
  const auto after = all->last;
  counts_.ForEachHolder(all->ns, key, after, [&](const LimitHolders::Holder& one) {
    return look(one.instance, one.visit, one.since);
  });
  if (!more) Enter(all, Phase::kChoose);
}

// With the one that asks the newest stay; a limit that lets nobody in cancels nobody.
void LimitJudge::Choose(LimitGathering* all) const {
  const LimitAsk& ask = all->asks[all->at];
  const uint64_t max = ask.on_conflict == OnConflict::kLatest
                           ? ask.waiting.value_or(1)
                           : table_.NumbersOf(all->ns, ask.key).max.value_or(UINT32_MAX);
  if (max == 0) return NextAsk(all);
  const uint64_t stay = /*mutant oldest-of-all-stays*/ max - 1 /*end*/;
  if (all->found.size() <= stay) return NextAsk(all);
  if (stay > 0) {
    std::vector<std::pair<Timestamp, const std::string*>> dates;
    dates.reserve(all->found.size());
    for (const auto& [instance, found] : all->found) dates.emplace_back(found.since, &instance);
    const auto first = dates.end() - static_cast<std::ptrdiff_t>(stay);
    std::ranges::nth_element(dates, first, [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    });
    all->stays.emplace(first->first, *first->second);
  }
  Enter(all, Phase::kWaitersGo);
}

void LimitJudge::LetGo(LimitGathering* all, size_t* left, size_t* victims,
                       std::vector<LimitVictim>* to) const {
  const LimitAsk& ask = all->asks[all->at];
  const bool holders = all->phase == Phase::kHoldersGo;
  const CancelMode mode =
      ask.on_conflict == OnConflict::kReplace ? CancelMode::kForce : CancelMode::kCancel;
  const std::string why =
      "limit " + Quoted(ask.key) + ": cancelled in favour of instance " + Quoted(all->id);
  for (auto it = all->found.upper_bound(all->last.first); it != all->found.end(); ++it) {
    if (*left == 0 || *victims == 0) return;
    --*left;
    const auto& [instance, found] = *it;
    all->last.first = instance;
    const bool stays = all->stays && !(DatedInstance(found.since, instance) < *all->stays);
    if (stays || found.holds != holders) continue;
    --*victims;
    to->push_back({all->ns, instance, mode, why});
  }
  holders ? NextAsk(all) : Enter(all, Phase::kHoldersGo);
}

}  // namespace dfsmr
