// What limits leave in the rows of instances, tokens and graphs.
#include "storage/rows/encoding.h"

namespace dfsmr::rows {
namespace {

void Encode(const LimitKey& key, record::LimitKey* out) {
  out->set_key(key.key);
  if (key.numbers.max) out->set_max(*key.numbers.max);
  if (!key.numbers.rate) return;
  out->set_rate(key.numbers.rate->count);
  out->set_per(key.numbers.rate->per.count());
  out->set_burst(key.numbers.rate->burst);
}

LimitKey Decode(const record::LimitKey& in) {
  LimitKey key{.key = in.key(), .numbers = {}};
  if (in.has_max()) key.numbers.max = in.max();
  if (in.rate() > 0) key.numbers.rate = Rate{in.rate(), Duration(in.per()), in.burst()};
  return key;
}

std::optional<OnConflict> WordOf(uint32_t number) {
  if (number > static_cast<uint32_t>(OnConflict::kReplace)) return std::nullopt;
  return static_cast<OnConflict>(number);
}

}  // namespace

LimitKey SingletonKey(std::string key) { return {std::move(key), {.max = 1, .rate = {}}}; }

void Encode(const LimitAsk& ask, record::LimitAsk* out) {
  Encode(LimitKey{ask.key, ask.numbers}, out->mutable_key());
  out->set_on_conflict(static_cast<uint32_t>(ask.on_conflict));
  if (ask.waiting) out->set_waiting(*ask.waiting);
  out->set_singleton(ask.singleton);
}

LimitAsk Decode(const record::LimitAsk& in) {
  LimitKey key = Decode(in.key());
  LimitAsk ask{.key = std::move(key.key), .numbers = key.numbers};
  ask.on_conflict = WordOf(in.on_conflict()).value_or(OnConflict::kWait);
  if (in.has_waiting()) ask.waiting = in.waiting();
  ask.singleton = in.singleton();
  return ask;
}

void Encode(const InstanceLimits& limits, record::InstanceLimits* out) {
  for (const LimitAsk& ask : limits.asks) Encode(ask, out->add_asks());
  if (limits.on_conflict) out->set_on_conflict(static_cast<uint32_t>(*limits.on_conflict) + 1);
  out->set_force(limits.force);
  out->set_state(static_cast<uint32_t>(limits.state));
  for (const LimitKey& key : limits.keys) Encode(key, out->add_keys());
  out->set_order(limits.order);
  out->set_since(Micros(limits.since));
  out->set_displaces(limits.displaces);
}

InstanceLimits Decode(const record::InstanceLimits& in) {
  InstanceLimits limits;
  for (const auto& ask : in.asks()) limits.asks.push_back(Decode(ask));
  if (in.on_conflict() > 0) limits.on_conflict = WordOf(in.on_conflict() - 1);
  limits.force = in.force();
  limits.state = static_cast<InstanceLimits::State>(in.state());
  for (const auto& key : in.keys()) limits.keys.push_back(Decode(key));
  limits.order = in.order();
  limits.since = FromMicros(in.since());
  limits.displaces = in.displaces();
  return limits;
}

void Encode(const TokenLimits& limits, record::TokenLimits* out) {
  out->set_state(static_cast<uint32_t>(limits.state));
  for (const LimitKey& key : limits.keys) Encode(key, out->add_keys());
  out->set_order(limits.order);
  out->set_since(Micros(limits.since));
  out->set_ready_since(Micros(limits.ready_since));
}

TokenLimits Decode(const record::TokenLimits& in) {
  TokenLimits limits;
  limits.state = static_cast<TokenLimits::State>(in.state());
  for (const auto& key : in.keys()) limits.keys.push_back(Decode(key));
  limits.order = in.order();
  limits.since = FromMicros(in.since());
  limits.ready_since = FromMicros(in.ready_since());
  return limits;
}

}  // namespace dfsmr::rows
