#include "fsm/yaml/limits.h"

#include <algorithm>
#include <array>

#include "fsm/base/duration.h"
#include "fsm/base/names.h"
#include "fsm/base/template.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 6> kAskKeys = {"key",   "max",         "rate",
                                                      "burst", "on_conflict", "waiting"};
constexpr std::string_view kAllOfAsk = "a limit has key, max, rate, burst, on_conflict and waiting";
constexpr std::string_view kKeyExample = "\"env/${params.env}\"";
constexpr std::string_view kLimitsExample =
    "\"env/${params.env}\", or {key: \"env/${params.env}\", max: 2, on_conflict: skip}";

// In their order, so that a position is the word.
std::vector<std::string_view> ConflictWords() {
  std::vector<std::string_view> words;
  for (size_t i = 0; i <= static_cast<size_t>(OnConflict::kReplace); ++i) {
    words.push_back(Name(static_cast<OnConflict>(i)));
  }
  return words;
}

// References of a step are looked at when its plan is compiled.
std::optional<std::string> LimitReferenceProblem(const Field& field) {
  YamlNode text;
  text.text = field.value.text;
  auto references = References(JsonText(text));
  for (const Reference& reference : references ? *references : std::vector<Reference>()) {
    const auto& parts = reference.parts;
    const bool id = parts.size() == 2 && parts[0].key == "instance" && parts[1].key == "id";
    if (id || (parts.size() > 1 && parts[0].key == "params")) continue;
    return "${" + reference.text +
           "}: a limit's key may refer to params and instance.id, such as " +
           std::string(kKeyExample);
  }
  return std::nullopt;
}

bool ReadKey(const Field& field, LimitAsker asker, std::string* out) {
  if (!ReadTextTemplate(field, kKeyExample, out)) return false;
  if (asker != LimitAsker::kStep) {
    if (auto problem = LimitReferenceProblem(field)) {
      field.Fail(*problem);
      return false;
    }
  }
  auto problem = LimitKeyProblem(*out);
  if (!problem) problem = BuiltInKeyProblem(field, *out);
  if (problem) field.Fail(*problem);
  return !problem;
}

// `100/1m`.
bool ReadRate(const Field& field, Rate* out) {
  const std::string& text = field.value.text;
  const size_t slash = text.find('/');
  uint64_t count = 0;
  const bool digits = field.value.IsScalar() && slash > 0 && slash <= 7 &&
                      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(slash),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (digits) count = std::stoull(text.substr(0, slash));
  if (!digits || count == 0 || count > static_cast<uint64_t>(kLimitMax)) {
    field.Fail("expected how many may begin in a time, such as 100/1m, not " +
               Describe(field.value));
    return false;
  }
  auto per = ParseDuration(text.substr(slash + 1));
  if (!per || *per == Duration::zero()) {
    field.Fail(per ? "the time of a rate is above zero, such as 100/1m" : per.error().message);
    return false;
  }
  out->count = static_cast<uint32_t>(count);
  out->per = *per;
  return true;
}

bool MayUse(LimitAsker asker, OnConflict word) {
  switch (asker) {
    case LimitAsker::kInstance:
      return true;
    case LimitAsker::kStep:
      return word == OnConflict::kWait || word == OnConflict::kSkip || word == OnConflict::kFail;
    case LimitAsker::kNode:
      return word == OnConflict::kWait;
  }
  return false;
}

void ReadWordFor(const Field& field, LimitAsker asker, LimitAsk* to) {
  size_t choice = 0;
  if (!ReadWord(field, ConflictWords(), &choice)) return;
  const auto word = static_cast<OnConflict>(choice);
  if (MayUse(asker, word)) {
    to->on_conflict = word;
  } else if (asker == LimitAsker::kStep) {
    field.Fail(Quoted(Name(word)) +
               " is for machines and plans; of actions and steps on_conflict "
               "is wait, skip or fail");
  } else {
    field.Fail(Quoted(Name(word)) +
               " is for machines, plans and steps; of nodes on_conflict is "
               "wait");
  }
}

void ReadAsk(const Field& field, LimitAsker asker, LimitAsk* to) {
  if (!field.value.IsMap()) {
    if (!field.value.IsScalar() || field.value.IsEmpty()) {
      return field.Fail("expected a limit such as " + std::string(kLimitsExample) + ", not " +
                        Describe(field.value));
    }
    ReadKey(field, asker, &to->key);
    return;
  }
  Keys keys(field, kAskKeys, kAllOfAsk);
  if (auto key = keys.Take("key")) {
    ReadKey(*key, asker, &to->key);
  } else {
    field.Fail("the limit has no 'key'; write it as " + std::string(kLimitsExample));
  }
  LimitNumbers numbers;
  if (ReadLimitNumbers(keys, &numbers)) to->numbers = numbers;
  if (auto word = keys.Take("on_conflict")) ReadWordFor(*word, asker, to);
  int64_t waiting = 0;
  if (auto key = keys.Take("waiting"); key && ReadInteger(*key, 0, kLimitMax, &waiting)) {
    to->waiting = static_cast<uint32_t>(waiting);
    const bool waits =
        to->on_conflict == OnConflict::kWait || to->on_conflict == OnConflict::kLatest;
    if (!waits) key->Fail("'waiting' is for on_conflict wait and latest");
  }
}

}  // namespace

std::optional<std::string> BuiltInKeyProblem(const Field& field, std::string_view key) {
  const bool accepted = field.reporter->origin() == TextOrigin::kStored;
  if (accepted || (BuiltInOf(key) == BuiltIn::kNone && !ReservedName(key))) return std::nullopt;
  return WrittenKeyProblem(key);
}

bool ReadLimitNumbers(const Keys& keys, LimitNumbers* out) {
  int64_t number = 0;
  if (auto field = keys.Take("max"); field && ReadInteger(*field, 0, kLimitMax, &number)) {
    out->max = static_cast<uint32_t>(number);
  }
  if (auto field = keys.Take("rate")) {
    Rate rate;
    if (ReadRate(*field, &rate)) out->rate = rate;
  }
  if (auto field = keys.Take("burst")) {
    if (!keys.Has("rate")) {
      field->reporter->Error(field->key_at, field->path,
                             "'burst' stands beside 'rate'; add one, such as rate: 100/1m, or "
                             "remove this");
    } else if (ReadInteger(*field, 1, kLimitMax, &number) && out->rate) {
      out->rate->burst = static_cast<uint32_t>(number);
    }
  }
  return keys.Has("max") || keys.Has("rate");
}

void ReadLimitAsks(const Field& field, LimitAsker asker, LimitAsks* out) {
  LimitAsks asks;
  if (!field.value.IsList()) {
    ReadAsk(field, asker, &asks.emplace_back());
  } else if (field.value.items.empty() || field.value.items.size() > kLimitAsks) {
    return field.Fail("expected up to " + std::to_string(kLimitAsks) + " limits, not " +
                      std::to_string(field.value.items.size()));
  }
  for (size_t i = 0; field.value.IsList() && i < field.value.items.size(); ++i) {
    ReadAsk(field.Item(i), asker, &asks.emplace_back());
    const auto same = [&](const LimitAsk& one) { return one.key == asks.back().key; };
    if (!asks.back().key.empty() && std::any_of(asks.begin(), asks.end() - 1, same)) {
      field.Item(i).Fail("key " + Quoted(asks.back().key) + " is there twice; keep one of them");
    }
  }
  *out = std::move(asks);
}

}  // namespace dfsmr
