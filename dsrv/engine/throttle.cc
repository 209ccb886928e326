#include "dsrv/engine/throttle.h"

#include <algorithm>

#include "dsrv/engine/catalog.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/statistics.h"
#include "dsrv/engine/timers.h"
#include "dsrv/engine/turn.h"

namespace dfsmr {

bool Throttle::HoldsBack(MachineState& machine, Agenda::Popped& popped) {
  if (machine.breaker.state() == Breaker::State::kClosed) return false;
  Agenda::Keep(popped.queue);
  auto& held_back = machine.held_back[popped.queue];
  const bool released =
      held_back.released == popped.entry.instance && held_back.released_visit == popped.entry.visit;
  if (released) held_back.released.clear();
  if (released && machine.breaker.MayRetry(turn_.now())) return false;
  if (released) {
    held_back.waiting.push_front(std::move(popped.entry));
  } else {
    held_back.waiting.push_back(std::move(popped.entry));
  }
  brakes_.HeldBack(machine);
  Release(machine);
  return true;
}

void Throttle::NotNeeded(MachineState& machine, const Agenda::Popped& popped) {
  auto held_back = machine.held_back.find(popped.queue);
  if (held_back == machine.held_back.end()) return;
  if (held_back->second.released != popped.entry.instance) return;
  held_back->second.released.clear();
  /*mutant held-back-starves*/ Release(machine); /*end*/
}

void Throttle::Claimed(MachineState& machine, bool retry) {
  Note(machine, machine.breaker.Claimed(retry, turn_.now()));
  brakes_.HandedOut(machine, retry);
  if (!machine.held_back.empty()) Release(machine);
}

void Throttle::GivenBack(MachineState& machine, const Claim& claim) {
  Note(machine, machine.breaker.GivenBack(claim.retry, claim.claim_time, turn_.now()));
  brakes_.HandedOut(machine, claim.retry);
}

void Throttle::Tick(MachineState& machine) {
  machine.breaker_timer.reset();
  Note(machine, machine.breaker.Tick(turn_.now()));
  Release(machine);
}

void Throttle::Forget(MachineState& machine) {
  std::erase_if(machine.held_back,
                [](const auto& one) { return Agenda::KeyOf(one.first).version > 0; });
}

void Throttle::Leave(MachineState& machine) {
  brakes_.Forget(machine);
  machine.held_back.clear();
  if (machine.breaker_timer) timers_.Disarm(*machine.breaker_timer);
  machine.breaker_timer.reset();
}

// Over several partitions -------------------------------------------------------------------------

void Throttle::Take(PartitionId from, const rows::Message::Braked& braked) {
  MachineState* const machine = catalog_.Find(braked.ns, braked.machine);
  if (!machine) return;
  brakes_.Take(from, *machine, braked);
  Note(*machine, machine->breaker.Tick(turn_.now()));
}

void Throttle::Take(const rows::Message::Brake& brake) {
  MachineState* const machine = catalog_.Find(brake.ns, brake.machine);
  if (!machine) return;
  brakes_.Take(*machine, brake);
  Release(*machine);
}

void Throttle::Tell() {
  for (MachineState* machine : brakes_.Tell()) {
    Note(*machine, machine->breaker.Tick(turn_.now()));
    Release(*machine);
  }
}

// Opening and closing are changes in the feed.
void Throttle::Note(MachineState& machine, Breaker::Effect effect) {
  if (effect == Breaker::Effect::kNone) return;
  Event event;
  event.kind =
      effect == Breaker::Effect::kOpened ? ChangeKind::kBreakerOpened : ChangeKind::kBreakerClosed;
  event.time = turn_.now();
  event.ns = machine.ns;
  event.machine = machine.id;
  event.version = machine.versions.rbegin()->first;
  if (effect == Breaker::Effect::kOpened) measures_.BreakerOpened(machine);
  statistics_.Record(&event, nullptr);
  Release(machine);
}

// Lets the next held-back retry of each queue out when a retry may be handed out again, or all of
// them when the breaker has closed.
void Throttle::Release(MachineState& machine) {
  if (machine.breaker.state() == Breaker::State::kClosed) {
    for (auto& [queue, held_back] : machine.held_back) {
      for (ReadyEntry& entry : held_back.waiting) agenda_.Push(queue, std::move(entry));
    }
    machine.held_back.clear();
    return;
  }
  if (machine.breaker.MayRetry(turn_.now())) {
    for (auto& [queue, held_back] : machine.held_back) {
      if (held_back.waiting.empty() || !held_back.released.empty()) continue;
      ReadyEntry entry = std::move(held_back.waiting.front());
      held_back.waiting.pop_front();
      held_back.released = entry.instance;
      held_back.released_visit = entry.visit;
      agenda_.Push(queue, std::move(entry));
    }
  }
  Arm(machine);
}

// What is armed for an earlier time stays: a tick that is due, but has not come in this turn yet,
// must not be put off by those who ask meanwhile.
void Throttle::Arm(MachineState& machine) {
  Timestamp next = machine.breaker.NextTick();
  const bool waiting = std::ranges::any_of(machine.held_back, [](const auto& item) {
    return !item.second.waiting.empty() && item.second.released.empty();
  });
  if (waiting) next = std::min(next, machine.breaker.NextRetry(turn_.now()));
  const Timestamp at = std::max(next, turn_.now() + std::chrono::milliseconds(1));
  auto& armed = machine.breaker_timer;
  if (armed && next != kNever && armed->first <= at) return;
  if (armed) timers_.Disarm(*armed);
  armed.reset();
  if (next != kNever) armed = timers_.Arm(at, BreakerTick{&machine});
}

}  // namespace dfsmr
