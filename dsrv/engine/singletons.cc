#include "dsrv/engine/singletons.h"

#include <algorithm>

#include "fsm/base/names.h"

namespace dfsmr {

std::string Singletons::HolderOf(const Instance& instance, const std::string& key) const {
  auto held = keys_.find(ResidentKey(instance.ns, key));
  if (key.empty() || held == keys_.end() || held->second.held == 0) return "";
  return held->second.holder == instance.id ? "" : held->second.holder;
}

Result<Ok> Singletons::MayResume(Resident& resident) {
  const Instance& instance = resident.instance;
  const bool goes_on = instance.plan && instance.Begun() && !instance.waits.Has(Wait::kKey);
  if (!goes_on || !instance.waits.Paused()) return Ok{};
  std::vector<Event> events;
  Scene scene = changer_.SceneOf(resident, &events);
  Advise(resident, &scene);
  if (scene.key_holder.empty()) return Ok{};
  return Error{Code::kFailedPrecondition, Reason::kIllegalTransition,
               "singleton " + Quoted(scene.key) + " is held by instance " +
                   Quoted(scene.key_holder) + "; resume this one when that has ended"};
}

void Singletons::Taken(Resident& resident, const std::string& key, uint64_t visit) {
  Note(resident, {}, {key, false}, visit);
}

void Singletons::Load(Resident& resident) {
  const Instance& instance = resident.instance;
  /*mutant recover-no-singletons*/ if (!instance.plan)
    return; /*end*/
  const bool waits = instance.waits.Has(Wait::kKey) ||
                     std::ranges::any_of(instance.tokens, [](const Token& token) {
                       return token.step && token.step->waits_for_key;
                     });
  if (waits && !instance.history.empty()) {
    first_seq_[ResidentKey(instance.ns, instance.id)] = instance.history.front();
  }
  Note(resident, {}, {instance.plan->key, instance.waits.Has(Wait::kKey)}, 0);
  for (const Token& token : std::as_const(instance.tokens)) {
    if (!token.step || token.step->key.empty()) continue;
    Note(resident, {}, {token.step->key, token.step->waits_for_key}, token.visit);
  }
}

void Singletons::Loaded() {
  for (auto& [key, singleton] : keys_) {
    const std::string ns = SplitKey(key).first;
    std::ranges::sort(singleton.waiting, {}, [&](const auto& one) {
      return std::pair(first_seq_[ResidentKey(ns, one.first)], one.second);
    });
    if (singleton.held == 0) freed_.push_back(key);
  }
  first_seq_.clear();
}

void Singletons::Advise(Resident& resident, Scene* scene) {
  const Instance& instance = resident.instance;
  if (!instance.plan) return;
  if (!instance.plan->key.empty()) {
    scene->key = instance.plan->key;
    return;
  }
  if (Runs(instance.state) || instance.Stopped()) return;
  auto source = values_.SourceOf(resident);
  if (!source || (*source)->singleton.empty()) return;
  auto key = values_.KeyOf(resident, **source);
  if (!key) return;  // planning says what is missing
  scene->key = *std::move(key);
  scene->on_conflict = (*source)->on_conflict;
  scene->key_holder = HolderOf(instance, scene->key);
}

void Singletons::Absorb(const Change& change) {
  const Instance& instance = change.instance();
  if (!instance.plan && !change.before.plan) return;
  Note(change.resident, {change.before.key, change.before.waits.Has(Wait::kKey)},
       {instance.plan ? instance.plan->key : "", instance.waits.Has(Wait::kKey)}, 0);
  for (const Tokens::Touched& touched : change.touched()) {
    const Token* now = instance.tokens.Find(touched.visit);
    auto hold_of = [](const Token* token) {
      return token && token->step ? Hold{token->step->key, token->step->waits_for_key} : Hold{};
    };
    const Hold before = hold_of(touched.before ? &*touched.before : nullptr);
    const Hold after = hold_of(now);
    if (before.key.empty() && after.key.empty()) continue;
    Note(change.resident, before, after, touched.visit);
  }
}

void Singletons::Note(Resident& resident, const Hold& was, const Hold& is, uint64_t visit) {
  const Instance& instance = resident.instance;
  if (visit == 0 && is.waits && !was.waits) {
    auto source = values_.SourceOf(resident);
    auto key = source ? values_.KeyOf(resident, **source) : Result<std::string>(source.error());
    if (key) keys_[ResidentKey(instance.ns, *key)].waiting.emplace_back(instance.id, 0);
    return;
  }
  if (visit != 0 && is.waits) {
    if (!was.waits) {
      keys_[ResidentKey(instance.ns, is.key)].waiting.emplace_back(instance.id, visit);
    }
    return;
  }
  const std::string held_before = was.waits ? "" : was.key;
  if (held_before == is.key) return;
  if (!is.key.empty()) {
    Singleton& key = keys_[ResidentKey(instance.ns, is.key)];
    key.holder = instance.id;
    ++key.held;
  }
  if (held_before.empty()) return;
  auto it = keys_.find(ResidentKey(instance.ns, held_before));
  if (it == keys_.end() || it->second.holder != instance.id || it->second.held == 0) return;
  /*mutant singleton-not-handed-on*/ if (--it->second.held == 0)
    freed_.push_back(it->first);
  /*end*/
}

bool Singletons::Work() {
  if (freed_.empty()) return false;
  const std::string key = std::move(freed_.front());
  freed_.pop_front();
  HandOn(key);
  return true;
}

void Singletons::HandOn(const std::string& key) {
  const std::string ns = SplitKey(key).first;
  auto waiting = std::move(keys_[key].waiting);
  keys_[key].waiting.clear();
  decltype(waiting) still;  // it is paused, and keeps its place
  while (!waiting.empty() && keys_[key].held == 0) {
    const auto [id, visit] = waiting.front();
    waiting.pop_front();
    auto resident = changer_.Touch(ns, id);
    /*mutant freed-singleton-sleeps*/ if (!resident || (*resident)->instance.Stopped())
      continue; /*end*/
    changer_.Apply(**resident, [at = visit](Scene& scene) {
      at == 0 ? rules::StartDue(scene) : rules::RetryKey(scene, at);
    });
    residents_.MarkDirty(**resident);
    const Instance& instance = (*resident)->instance;
    if (visit == 0 && instance.waits.Has(Wait::kKey)) still.emplace_back(id, visit);
  }
  auto it = keys_.find(key);
  auto& line = it->second.waiting;  // those that have come meanwhile
  line.insert(line.begin(), waiting.begin(), waiting.end());
  line.insert(line.begin(), still.begin(), still.end());
  if (it->second.held == 0 && line.empty()) keys_.erase(it);
}

}  // namespace dfsmr
