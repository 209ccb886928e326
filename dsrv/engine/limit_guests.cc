#include "dsrv/engine/limit_guests.h"

#include <algorithm>

#include "dsrv/engine/limit_counts.h"
#include "dsrv/engine/limit_keys.h"
#include "dsrv/engine/limit_numbers.h"
#include "dsrv/engine/messages.h"
#include "dsrv/engine/turn.h"
#include "storage/place.h"
#include "storage/rows/guest.h"

namespace dfsmr {
namespace {

using StakeKind = rows::Message::Stake::Kind;

bool StakeNames(const LimitAsks& asks, const std::string& key) {
  return std::ranges::find(asks, key, &LimitAsk::key) != asks.end();
}

constexpr Duration kReserved = std::chrono::seconds(10);

bool InLine(StakeKind kind) { return kind == StakeKind::kWaits || kind == StakeKind::kPaused; }

}  // namespace

LimitGuests::Name LimitGuests::NameOf(const Stake& stake) {
  return {ResidentKey(stake.ns, stake.instance), stake.visit};
}

LimitTable::Turn LimitGuests::TurnOf(const Stake& stake) {
  return {stake.priority, stake.order, stake.visit};
}

Result<Ok> LimitGuests::Recover() {
  if (options_.partitions == 1) return Ok{};
  std::vector<Stake> waiting;
  auto scanned = rows::ScanGuests(turn_.reader(), [&](Stake stake) {
    if (InLine(stake.kind)) return waiting.push_back(std::move(stake));
    /*mutant message-limit-guest-forgotten*/ Hold(stake, false);
    guests_[NameOf(stake)].stake = std::move(stake); /*end*/
  });
  if (!scanned) return scanned;
  for (Stake& stake : waiting) {
    Guest& guest = guests_[NameOf(stake)];
    guest.stake = std::move(stake);
    Stand(guest);
  }
  return Ok{};
}

std::vector<LimitVictim> LimitGuests::Take(Stake stake) {
  if (stake.kind == StakeKind::kAsks) return Judge(std::move(stake));
  const bool has_all = stake.kind == StakeKind::kWaits &&
                       std::ranges::all_of(stake.asks, [&](const LimitAsk& ask) {
                         return table_.Holds(stake.ns, ask.key, stake.instance);
                       });
  if (has_all) {
    Answer(stake, {}, false);
    stake.kind = StakeKind::kHolds;
  }
  Move(std::move(stake));
  return {};
}

LimitAnswer LimitGuests::Reserve(Stake stake) {
  const Name name = NameOf(stake);
  if (guests_.contains(name)) return {};  // it asks, or has asked before: it goes by that
  const LimitRequest asker{.ns = stake.ns, .id = stake.instance, .turn = TurnOf(stake)};
  LimitAnswer answer = judge_.Judge(asker, stake.asks).answer;
  const bool waits = answer.kind == LimitAnswer::Kind::kWaits;
  const bool displaces = waits && std::ranges::any_of(stake.asks, [](const LimitAsk& ask) {
    return ask.on_conflict != OnConflict::kWait && ask.on_conflict != OnConflict::kSkip;
  });
  if ((answer.kind != LimitAnswer::Kind::kRoom && !waits) || displaces) {
    for (const LimitAsk& ask : stake.asks) table_.Tidy(stake.ns, ask.key, turn_.clock());
    return answer;
  }
  stake.kind = waits ? StakeKind::kWaits : StakeKind::kHolds;
  stake.since = turn_.clock();
  reserved_.emplace_back(turn_.real() + kReserved, name);
  /*mutant message-limit-place-not-reserved*/ Move(std::move(stake),
                                                   reserved_.back().first); /*end*/
  return answer;
}

bool LimitGuests::GiveUpOne() {
  if (Due() > turn_.real()) return false;
  const auto [until, name] = std::move(reserved_.front());
  reserved_.pop_front();
  const auto guest = guests_.find(name);
  if (guest == guests_.end() || guest->second.kept_until != until) return true;
  Stake none = guest->second.stake;
  none.kind = StakeKind::kNone;
  /*mutant message-limit-place-reserved-for-ever*/ Move(std::move(none)); /*end*/
  return true;
}

std::vector<LimitVictim> LimitGuests::Judge(Stake stake) {
  LimitRequest asker{.ns = stake.ns, .id = stake.instance, .turn = TurnOf(stake)};
  std::vector<LimitKey> asked;
  const auto known = guests_.find(NameOf(stake));
  const bool reserved = known != guests_.end() && known->second.kept_until;
  if (reserved && known->second.stake.kind == StakeKind::kHolds &&
      known->second.stake.asks == stake.asks) {
    Answer(stake, {}, false);
    stake.kind = StakeKind::kHolds;
    stake.since = known->second.stake.since;
    Move(std::move(stake));
    return {};
  }
  asker.in_line = (stake.in_line && known != guests_.end()) ||
                  (reserved && InLine(known->second.stake.kind));
  if (asker.in_line) {
    asked = KeysAsked(known->second.stake.asks);
    asker.asked = &asked;
  } else {  // what it had before, it has no more
    Stake none = stake;
    none.kind = StakeKind::kNone;
    Move(std::move(none));
  }
  if (!stake.above.empty()) {
    asker.parent = stake.above.front();
    asker.above = &stake.above;
  }
  LimitVerdict verdict = judge_.Judge(asker, stake.asks);
  if (verdict.answer.displaces) {  // there are many: all of them at once
    auto gathering = judge_.GatheringFor(asker, stake.asks, kNever);
    while (!judge_.Gather(&gathering, SIZE_MAX, &verdict.victims)) {
    }
  }
  switch (verdict.answer.kind) {
    case LimitAnswer::Kind::kRoom:
      Answer(stake, verdict.answer, false);
      stake.kind = StakeKind::kHolds;
      break;
    case LimitAnswer::Kind::kWaits:
      stake.kind = StakeKind::kWaits;
      break;
    default:
      Answer(stake, verdict.answer, verdict.for_ever);
      return std::move(verdict.victims);
  }
  stake.since = turn_.clock();
  Move(std::move(stake));
  return std::move(verdict.victims);
}

void LimitGuests::Move(Stake stake, std::optional<Timestamp> kept_until) {
  const Name name = NameOf(stake);
  const auto found = guests_.find(name);
  Guest* const before = found == guests_.end() ? nullptr : &found->second;
  if (before && InLine(before->stake.kind)) LeaveLine(*before);
  if (stake.kind == StakeKind::kHolds) Hold(stake, true);
  if (before && before->stake.kind == StakeKind::kHolds) {
    for (const LimitAsk& ask : before->stake.asks) {
      const bool still = stake.kind == StakeKind::kHolds && StakeNames(stake.asks, ask.key);
      if (!still) Release(before->stake, ask.key);
    }
  }
  if (stake.kind == StakeKind::kNone) {
    if (!before) return;
    if (!before->kept_until) rows::DropGuest(turn_.writer(), stake);
    guests_.erase(found);
    return;
  }
  if (!kept_until) {
    /*mutant message-limit-guest-not-kept*/ rows::PutGuest(turn_.writer(), stake); /*end*/
  }
  Guest& guest = guests_[name];
  guest.stake = std::move(stake);
  guest.kept_until = kept_until;
  if (InLine(guest.stake.kind)) Stand(guest);
}

void LimitGuests::LeaveLine(Guest& guest) {
  const Stake& stake = guest.stake;
  if (!guest.line.empty()) table_.Leave(stake.ns, guest.line, TurnOf(stake), stake.group);
  for (const LimitAsk& ask : stake.asks) numbers_.Left(stake.ns, ask.key);
  guest.line.clear();
}

void LimitGuests::Stand(Guest& guest) {
  const Stake& stake = guest.stake;
  guest.line.clear();
  for (const LimitKey& key : KeysAsked(stake.asks)) {
    numbers_.Stands(stake.ns, key);
    counts_.Follow(stake.ns, key.key);
    if (!table_.Holds(stake.ns, key.key, stake.instance)) guest.line.push_back(key);
  }
  // With all of them in its instance's hand it stands for them as any: it is its turn at once.
  if (guest.line.empty()) guest.line = KeysAsked(stake.asks);
  table_.Stand(stake.ns, guest.line, TurnOf(stake), stake.instance, stake.since,
               stake.kind == StakeKind::kWaits ? LimitTable::Standing::kWaits
                                          : LimitTable::Standing::kPaused,
               stake.group);
}

void LimitGuests::Hold(const Stake& stake, bool anew) {
  for (const LimitKey& key : KeysAsked(stake.asks)) {
    const bool fresh = !table_.Holds(stake.ns, key.key, stake.instance);
    numbers_.Stands(stake.ns, key);
    table_.Take(stake.ns, key.key, stake.instance, {stake.visit, stake.since, stake.forced});
    if (!fresh) continue;
    counts_.CountGuest(stake.ns, key.key, +1);
    if (anew) numbers_.Spent(stake.ns, key.key);
  }
}

void LimitGuests::Release(const Stake& stake, const std::string& key) {
  if (!table_.Holds(stake.ns, key, stake.instance)) return;
  table_.Release(stake.ns, key, stake.instance, stake.visit);
  numbers_.Left(stake.ns, key);
  if (!table_.Holds(stake.ns, key, stake.instance)) counts_.CountGuest(stake.ns, key, -1);
}

bool LimitGuests::LetIn(const LimitTable::Waiter& next) {
  const auto found = guests_.find({ResidentKey(next.ns, next.instance), next.turn.visit});
  if (found == guests_.end()) return false;
  Stake stake = found->second.stake;
  const auto kept_until = found->second.kept_until;
  const bool room = std::ranges::all_of(stake.asks, [&](const LimitAsk& ask) {
    return table_.HasRoom(stake.ns, ask.key, stake.instance, turn_.clock());
  });
  if (room) {
    if (!kept_until) Answer(stake, {.kind = LimitAnswer::Kind::kRoom}, false);
    stake.kind = StakeKind::kHolds;
    stake.since = turn_.clock();
  }
  // Without room its instance has lost what it held: it stands for that, too.
  Move(std::move(stake), kept_until);
  return true;
}

void LimitGuests::SetAside(const std::string& ns, const std::string& instance) {
  const std::string key = ResidentKey(ns, instance);
  std::vector<Stake> waiting;
  for (auto at = guests_.lower_bound({key, 0}); at != guests_.end() && at->first.first == key;
       ++at) {
    const bool gives_way = at->second.kept_until || at->second.stake.kind == StakeKind::kWaits;
    if (gives_way) waiting.push_back(at->second.stake);
  }
  for (Stake& stake : waiting) {
    /*mutant message-limit-victim-let-in*/ stake.kind = StakeKind::kPaused; /*end*/
    // One that has not asked yet asks as any.
    if (guests_[NameOf(stake)].kept_until) stake.kind = StakeKind::kNone;
    Move(std::move(stake));
  }
}

void LimitGuests::Answer(const Stake& stake, const LimitAnswer& answer, bool for_ever) {
  rows::Message::Verdict verdict{.ns = stake.ns,
                                 .instance = stake.instance,
                                 .visit = stake.visit,
                                 .ask = stake.ask,
                                 .kind = answer.kind,
                                 .key = answer.key,
                                 .why = answer.why,
                                 .singleton = answer.singleton,
                                 .for_ever = for_ever};
  const PartitionId there = PartitionOf(stake.ns, stake.instance, options_.partitions);
  /*mutant message-limit-answer-lost*/ messages_.Send(there, {std::move(verdict)}); /*end*/
}

}  // namespace dfsmr
