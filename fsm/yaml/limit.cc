#include "fsm/yaml/limit.h"

#include <array>

#include "fsm/base/names.h"
#include "fsm/yaml/action.h"
#include "fsm/yaml/fields.h"
#include "fsm/yaml/limits.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 7> kLimitKeys = {"limit", "description", "on",  "max",
                                                   "rate",  "burst",       "keys"};
constexpr std::string_view kLimitHas =
    "a limit has limit, description, on, max, rate, burst and keys";
constexpr std::array<std::string_view, 3> kLimited = {"queue", "action", "machine"};
constexpr std::array<std::string_view, 3> kNumbers = {"max", "rate", "burst"};

// {queue: mail}.
void ReadLimited(const Field& field, LimitSource* to) {
  if (!field.value.IsMap() || field.value.entries.size() != 1) {
    return field.Fail("expected one of {queue: NAME}, {action: NAME} and {machine: NAME}, not " +
                      Describe(field.value));
  }
  Keys keys(field, kLimited, "it is on a queue, an action or a machine");
  for (std::string_view subject : kLimited) {
    std::string name;
    if (auto key = keys.Take(subject); key && ReadName(*key, subject, &name)) {
      to->root = std::string(subject) + ":" + name;
    }
  }
}

void ReadKeyNumbers(const Field& field, const std::string& key, LimitSource* to) {
  if (!ReadMap(field, "{max: 1}")) return;
  if (key != to->root && !key.starts_with(to->root + "/")) {
    return field.Fail("the limit governs the keys " + to->root + " and " + to->root + "/…, not " +
                      Quoted(key));
  }
  if (auto problem = LimitKeyProblem(key)) return field.Fail(*problem);
  Keys keys(field, kNumbers, "a key has max, rate and burst");
  LimitNumbers numbers;
  if (!ReadLimitNumbers(keys, &numbers)) {
    field.reporter->Error(field.key_at, field.path, "the key has no number; add max or rate");
  }
  to->keys[key] = numbers;
}

}  // namespace

std::span<const std::string_view> LimitKeys() { return kLimitKeys; }

std::shared_ptr<const LimitSource> ReadLimit(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  const Keys keys(Field(root, "", reporter), kLimitKeys, kLimitHas);
  auto source = std::make_shared<LimitSource>();
  source->written = {root.at, "limit"};
  if (auto name = keys.Take("limit"); name && name->value.IsScalar()) {
    source->root = name->value.text;
  }
  auto on = keys.Take("on");
  if (on) ReadLimited(*on, source.get());
  const bool numbers = ReadLimitNumbers(keys, &source->numbers);
  auto of_keys = keys.Take("keys");
  if (of_keys && on) {
    of_keys->reporter->Error(of_keys->key_at, of_keys->path,
                             "'keys' is for limits without 'on', which govern several keys");
  } else if (of_keys && ReadMap(*of_keys, "{env/prod: {max: 1}}")) {
    for (const YamlEntry& entry : of_keys->value.entries) {
      ReadKeyNumbers(of_keys->Below(entry), entry.key, source.get());
    }
  }
  if (!numbers && !of_keys) {
    reporter->Error(root.at, "limit",
                    "the limit has no number; add max: N, rate: N/DURATION or "
                    "keys");
  }
  return reporter->errors() == errors ? source : nullptr;
}

}  // namespace dfsmr
