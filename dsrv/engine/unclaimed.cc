#include "dsrv/engine/unclaimed.h"

#include <set>

#include "dsrv/engine/changer.h"
#include "dsrv/engine/handouts.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/duration.h"
#include "fsm/base/names.h"

namespace dfsmr {

void Unclaimed::Arm(ReadyToken name, const Machine& machine, const Token& token) {
  const Duration timeout = machine.nodes[token.node].settings->bounds.ready_timeout;
  if (timeout == Duration::zero() || token.state != TokenState::kReady) return;
  const auto [at, is_new] = armed_.try_emplace(std::move(name));
  if (!is_new) return;
  /*mutant ready-never-ends*/ at->second =
      timers_.Arm(After(turn_.clock(), timeout), ReadyEnd{&at->first}); /*end*/
}

void Unclaimed::Disarm(const ReadyToken& name) {
  auto at = armed_.find(name);
  if (at == armed_.end()) return;
  timers_.Disarm(at->second);
  armed_.erase(at);
}

void Unclaimed::Load(Resident& resident) {
  const Machine& machine = resident.machine();
  if (!machine.ready_ends || !Runs(resident.instance.state)) return;
  for (const Token& token : std::as_const(resident.instance.tokens)) {
    Arm({KeyOf(NameOf(resident)), token.visit}, machine, token);
  }
}

void Unclaimed::LoadReady(ResidentName name, const Machine& machine, const Token& token) {
  if (machine.ready_ends) Arm({KeyOf(name), token.visit}, machine, token);
}

void Unclaimed::Absorb(const Change& change) {
  const Machine& machine = change.resident.machine();
  const bool was = change.before.graph && change.before.graph->machine->ready_ends;
  if (!machine.ready_ends && !was) return;
  const Instance& instance = change.instance();
  const bool runs = Runs(instance.state);
  const std::string name = KeyOf(NameOf(change.resident));
  std::set<uint64_t> touched;
  const bool turns = runs != Runs(change.before.state);
  for (const Tokens::Touched& one : change.touched()) {
    const Token* token = instance.tokens.Find(one.visit);
    if (runs && token && token->state == TokenState::kReady) {
      Arm({name, one.visit}, machine, *token);
    } else {
      Disarm({name, one.visit});
    }
    if (turns) touched.insert(one.visit);
  }
  if (!turns) return;
  for (const Token& token : instance.tokens) {
    if (touched.contains(token.visit)) continue;
    if (runs) {
      Arm({name, token.visit}, machine, token);
    } else {
      Disarm({name, token.visit});
    }
  }
}

bool Unclaimed::LacksMore(Resident& resident, const Token& token) {
  const Breaker& breaker = resident.version->machine->breaker;
  return (token.TimedOutBefore() && breaker.state() != Breaker::State::kClosed) ||
         limits_.KeepsBack(resident, token) || spaces_.Frozen(resident.instance.ns) ||
         IsHeld(resident, token);
}

bool Unclaimed::IsHeld(const Resident& resident, const Token& token) const {
  if (!agenda_.HoldsAny()) return false;
  const auto queue = HandOuts::KeyOf(packages_, *resident.version, *resident.graph, token,
                                     static_cast<bool>(resident.instance.dry_run));
  return queue && agenda_.Holds(*queue);
}

std::string Unclaimed::WhyOf(const Resident& resident, const Token& token) const {
  const NodeSettings& settings = *resident.machine().nodes[token.node].settings;
  std::string text = "no worker has taken it for " + FormatDuration(settings.bounds.ready_timeout);
  const auto queue = HandOuts::KeyOf(packages_, *resident.version, *resident.graph, token,
                                     static_cast<bool>(resident.instance.dry_run));
  if (!queue) return text;  // it is not decided yet where it runs
  const std::string why = why_nobody_(*queue);
  const std::string of = "action " + queue->action + " in queue " + queue->queue;
  return text + ": " + (why.empty() ? "all that take " + of + " are busy" : why);
}

void Unclaimed::End(const ReadyEnd& end) {
  const ReadyToken name = *end.token;
  armed_.erase(name);
  const auto [ns, id] = SplitKey(name.first);
  auto touched = changer_.Touch(ns, id);
  if (!touched) return;
  Resident& resident = **touched;
  const auto ready = [&]() -> const Token* {
    const Token* token = std::as_const(resident.instance.tokens).Find(name.second);
    const bool waits = token && token->state == TokenState::kReady;
    return waits && Runs(resident.instance.state) ? token : nullptr;
  };
  const Token* token = ready();
  if (!token) return;
  if (LacksMore(resident, *token)) return Arm(name, resident.machine(), *token);
  if (resident.machine().nodes_ask && !limits_.Admit(resident, *token)) return;  // it waits
  token = ready();
  if (!token) return;
  const std::string why = WhyOf(resident, *token);
  changer_.Apply(resident, [&](Scene& scene) { rules::Unclaimed(scene, name.second, why); });
}

}  // namespace dfsmr
