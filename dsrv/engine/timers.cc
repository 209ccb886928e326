#include "dsrv/engine/timers.h"

#include <algorithm>
#include <cstring>

#include "dsrv/engine/turn.h"

namespace dfsmr {
namespace {

// Whether something comes by itself when the token has stood long enough: the end of its wait, or
// of the time that its plan gives others after it has failed.
bool HasEnd(const Token& token) {
  const bool stands = token.state == TokenState::kWaiting || token.state == TokenState::kHeld;
  return stands && token.available_at != kNever;
}

}  // namespace

Timers::Packed::Packed(ResidentName name, uint64_t visit)
    : bytes_(new char[sizeof visit + name.ns.size() + name.id.size() + 2]) {
  char* at = std::copy_n(reinterpret_cast<const char*>(&visit), sizeof visit, bytes_.get());
  for (std::string_view text : {name.ns, name.id}) {
    at = std::ranges::copy(text, at).out;
    *at++ = '\0';
  }
}

Alarm Timers::Packed::Unpack() const {
  Alarm alarm;
  std::memcpy(&alarm.visit, bytes_.get(), sizeof alarm.visit);
  alarm.ns = bytes_.get() + sizeof alarm.visit;
  alarm.id = bytes_.get() + sizeof alarm.visit + alarm.ns.size() + 1;
  return alarm;
}

Timers::Key Timers::Arm(Timestamp at, Timer timer) {
  const Key key{at, turn_.NextId()};
  timers_.emplace(key, timer);
  return key;
}

void Timers::Await(Timestamp at, ResidentName name, uint64_t visit) {
  alarms_.emplace(Key{at, turn_.NextId()}, Packed(name, visit));
}

std::optional<Happening> Timers::PopDue() {
  if (Due() > turn_.clock()) return std::nullopt;
  ++fired_;
  if (!AlarmIsNext()) {
    const Timer timer = timers_.begin()->second;
    timers_.erase(timers_.begin());
    if (const auto* deadline = std::get_if<ClaimDeadline>(&timer)) {
      std::erase_if(deadline->resident->claim_timers,
                    [&](const auto& one) { return one.first == deadline->claim; });
    }
    return std::visit([](const auto& one) { return Happening(one); }, timer);
  }
  Alarm alarm = alarms_.begin()->second.Unpack();
  alarms_.erase(alarms_.begin());
  return alarm;
}

bool Timers::AlarmIsNext() const {
  return !alarms_.empty() && (timers_.empty() || alarms_.begin()->first <= timers_.begin()->first);
}

std::optional<std::pair<Timestamp, Alarm>> Timers::NextAlarm() const {
  if (!AlarmIsNext()) return std::nullopt;
  return std::pair(alarms_.begin()->first.first, alarms_.begin()->second.Unpack());
}

Timestamp Timers::Due() const {
  Timestamp due = kNever;
  if (!timers_.empty()) due = std::min(due, timers_.begin()->first.first);
  if (!alarms_.empty()) due = std::min(due, alarms_.begin()->first.first);
  return due;
}

void Timers::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  for (const Token& token : std::as_const(instance.tokens)) {
    for (const Claim& claim : token.claims) {
      /*mutant recover-no-deadlines*/ if (claim.Live())
        ArmClaim(resident, token.visit, claim);
      /*end*/
    }
    if (/*mutant recover-no-delays*/ HasEnd(token) /*end*/) {
      Await(token.available_at, NameOf(resident), token.visit);
    }
  }
  /*mutant recover-no-starts*/ AwaitStart(instance); /*end*/
}

void Timers::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  for (const ClaimChange& claim : change.claims) {
    if (claim.Left(&Claim::Live)) DisarmClaim(change.resident, claim.before->id);
    if (claim.Has(&Claim::Live)) ArmClaim(change.resident, claim.visit, *claim.now);
  }
  if (instance.Stopped()) return;
  for (const Tokens::Touched& touched : change.touched()) {
    const Token* token = instance.tokens.Find(touched.visit);
    const bool waited = token && touched.before && touched.before->state == token->state;
    if (token && HasEnd(*token) && !waited) {
      /*mutant delay-never-ends*/ Await(token->available_at, NameOf(change.resident),
                                        token->visit); /*end*/
    }
  }
  AwaitStart(instance);
}

void Timers::AwaitStart(const Instance& instance) {
  const Timestamp next = rules::NextStart(instance);
  if (next != kNever) Await(next, {instance.ns, instance.id}, 0);
}

void Timers::ArmClaim(Resident& resident, uint64_t visit, const Claim& claim) {
  auto armed = std::ranges::find_if(resident.claim_timers,
                                    [&](const auto& one) { return one.first == claim.id; });
  if (armed != resident.claim_timers.end()) {
    if (armed->second.first == claim.deadline) return;
    DisarmClaim(resident, claim.id);
  }
  if (claim.deadline == kNever) return;
  resident.claim_timers.emplace_back(
      claim.id, Arm(claim.deadline, ClaimDeadline{&resident, visit, claim.id}));
}

void Timers::DisarmClaim(Resident& resident, ClaimId claim) {
  auto armed = std::ranges::find_if(resident.claim_timers,
                                    [&](const auto& one) { return one.first == claim; });
  if (armed == resident.claim_timers.end()) return;
  Disarm(armed->second);
  resident.claim_timers.erase(armed);
}

}  // namespace dfsmr
