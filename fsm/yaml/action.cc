#include "fsm/yaml/action.h"

#include <algorithm>
#include <array>

#include "fsm/base/json.h"
#include "fsm/base/names.h"
#include "fsm/base/template.h"
#include "fsm/yaml/retry.h"
#include "fsm/yaml/dry_run.h"
#include "fsm/yaml/runs_on.h"
#include "fsm/yaml/schema.h"
#include "fsm/yaml/template.h"
#include "fsm/yaml/timeout.h"

namespace dfsmr {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 2> kPhases = {"run", "finalize"};
constexpr std::array<std::string_view, 3> kRescues = {"pause", "skip", "fail"};
constexpr std::array<std::string_view, 2> kConflicts = {"fail", "wait"};
constexpr std::array<std::string_view, 3> kPollKeys = {"intervals", "per_interval", "max_failures"};
constexpr std::array<std::string_view, 3> kUseKeys = {"name", "before", "after"};

constexpr std::array<std::string_view, 5> kTimeoutKeys = {
    "timeout_strategy", "timeout", "timeout_initial", "timeout_min", "timeout_max"};
// First the keys of the document, then those that a step may have, too.
constexpr std::array<std::string_view, 31> kActionKeys = {
    "action",  "description",     "extends",       "phases",
    "plan",    "input",           "output",        "subscribes_to",
    "with",    "queue",           "priority",      "timeout_strategy",
    "timeout", "timeout_initial", "timeout_min",   "timeout_max",
    "retry",   "run_timeout",     "ready_timeout", "abandon_after",
    "poll",    "rescue",          "weight",        "use",
    "replace", "without",         "singleton",     "on_conflict",
    "limit",   "runs_on",         "dry_run"};
constexpr size_t kOwnFrom = 9;
constexpr std::string_view kActionHas =
    "an action has action, description, extends, phases, plan, input, output, subscribes_to, with, "
    "queue, priority, the keys of a timeout, retry, run_timeout, ready_timeout, abandon_after, "
    "poll, rescue, weight, use, replace, without, limit, singleton, on_conflict, runs_on and "
    "dry_run";

constexpr std::string_view kSingletonExample = "\"infra-${params.site}\"";

bool ReadCount(const Field& field, uint32_t* out) {
  int64_t value = 0;
  if (!ReadInteger(field, 1, INT32_MAX, &value)) return false;
  *out = static_cast<uint32_t>(value);
  return true;
}

void ReadIntervals(const Field& field, std::vector<Duration>* to) {
  const bool list = field.value.IsList();
  if (field.value.IsMap() || (list && field.value.items.empty())) {
    return field.Fail("expected durations such as [500ms, 1s, 2s], or one of them, not " +
                      (list ? "an empty list" : Describe(field.value)));
  }
  std::vector<Duration> intervals(list ? field.value.items.size() : 1);
  if (!list) ReadDurationAboveZero(field, &intervals[0]);
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    ReadDurationAboveZero(field.Item(i), &intervals[i]);
  }
  *to = std::move(intervals);
}

void ReadPoll(const Field& field, std::optional<PollPolicy>* to) {
  if (!ReadMap(field, "{intervals: [500ms, 1s, 2s], per_interval: 5, max_failures: 3}")) return;
  PollPolicy poll;
  poll.intervals = {500ms, 1s, 2s, 4s, 8s, 16s};
  Keys keys(field, kPollKeys, "a poll has intervals, per_interval and max_failures");
  if (auto key = keys.Take("intervals")) ReadIntervals(*key, &poll.intervals);
  if (auto key = keys.Take("per_interval")) ReadCount(*key, &poll.per_interval);
  if (auto key = keys.Take("max_failures")) ReadCount(*key, &poll.max_failures);
  *to = std::move(poll);
}

bool ReadWeight(const Field& field, std::string_view what, double* to) {
  double weight = 0;
  if (!ReadNumber(field, what, &weight)) return false;
  if (weight < 0) {
    field.Fail("weight " + Quoted(field.value.text) + " is negative");
    return false;
  }
  *to = weight;
  return true;
}

void ReadWeights(const Field& field, std::optional<Weights>* to) {
  Weights weights;
  if (field.value.IsMap()) {
    Keys keys(field, kPhases, "a weight has run and finalize");
    if (auto key = keys.Take("run")) ReadWeight(*key, "a number, 0 or more", &weights.run);
    if (auto key = keys.Take("finalize")) {
      ReadWeight(*key, "a number, 0 or more", &weights.finalize);
    }
  } else {
    ReadWeight(field, "a number, 0 or more, or {run: 4, finalize: 1}", &weights.run);
    weights.finalize = weights.run;
  }
  *to = weights;
}

void ReadPriority(const Field& field, std::optional<int32_t>* to) {
  int64_t value = 0;
  if (ReadInteger(field, INT32_MIN, INT32_MAX, &value)) *to = static_cast<int32_t>(value);
}

void ReadPhases(const Field& field, std::optional<Phases>* to) {
  std::vector<size_t> choices;
  if (!ReadWords(field, kPhases, "[run, finalize]", &choices)) return;
  const bool run = std::ranges::find(choices, 0u) != choices.end();
  const bool finalize = std::ranges::find(choices, 1u) != choices.end();
  *to = Phases{.run = run, .finalize = finalize};
}

void ReadPlanned(const Field& field, std::optional<bool>* to) {
  if (!field.value.IsScalar() || field.value.text != "worker") {
    return field.Fail("expected worker, when a worker does the action's planning, not " +
                      Describe(field.value) + "; a plan is a document of its own");
  }
  *to = true;
}

bool ReadUse(const Field& field, Use* to) {
  if (field.value.IsScalar()) return ReadName(field, "middleware", &to->name);
  if (!ReadMap(field, "{name: trace, before: audit}")) return false;
  Keys keys(field, kUseKeys, "a use has name, before and after");
  if (auto key = keys.Take("name")) {
    ReadName(*key, "middleware", &to->name);
  } else {
    field.Fail("this use has no 'name'; add the name of a middleware");
  }
  if (auto key = keys.Take("before")) ReadNames(*key, "middleware", &to->before);
  if (auto key = keys.Take("after")) ReadNames(*key, "middleware", &to->after);
  return true;
}

void ReadUses(const Field& field, std::vector<Use>* to) {
  if (field.value.IsEmpty()) {
    return field.Fail("expected names of middleware, such as [audit, {name: trace, before: "
                      "audit}], not nothing");
  }
  if (!field.value.IsList()) {
    ReadUse(field, &to->emplace_back());
  }
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    ReadUse(field.Item(i), &to->emplace_back());
  }
}

void ReadReplace(const Field& field, std::vector<std::pair<std::string, std::string>>* to) {
  if (!ReadMap(field, "{audit: other}")) return;
  for (const YamlEntry& entry : field.value.entries) {
    Field below = field.Below(entry);
    if (auto problem = NameProblem("middleware", entry.key)) {
      field.reporter->Error(entry.at, below.path, *problem);
    }
    std::string other;
    if (ReadName(below, "middleware", &other)) to->emplace_back(entry.key, std::move(other));
  }
}

template <typename T, typename Read>
void TakeInto(const Keys& keys, std::string_view key, std::optional<T>* to, const Read& read) {
  T value{};
  if (auto field = keys.Take(key); field && read(*field, &value)) *to = std::move(value);
}

// A word, or the one of the plan's params that is a word.
void ReadRescue(const Field& field, ActionSource* to) {
  if (field.value.IsScalar() && field.value.text.starts_with("${")) {
    std::string text;
    if (!ReadTextTemplate(field, "\"${params.rescue}\"", &text)) return;
    const auto references = References(json::Quote(text));
    const bool one = references && references->size() == 1 &&
                     references->front().text.size() + 3 == text.size() &&
                     references->front().parts.front().key == "params";
    if (!one) {
      return field.Fail(
          "expected pause, skip or fail, or one of the plan's params, such as "
          "\"${params.rescue}\"; not " +
          Quoted(text));
    }
    to->rescue_from = json::Quote(text);
    to->rescue.reset();
    return;
  }
  size_t rescue = 0;
  if (!ReadWord(field, kRescues, &rescue)) return;
  to->rescue = static_cast<Rescue>(rescue);
  to->rescue_from.clear();
}

void ReadSubscription(const Keys& keys, ActionSource* to) {
  TakeInto(keys, "subscribes_to", &to->subscribes_to, [](const Field& field, auto* names) {
    return ReadNames(field, "action", names);
  });
  TakeInto(keys, "with", &to->with, ReadMapTemplate);
}

}  // namespace

Written WrittenAt(const Field& field) { return {field.key_at, field.path}; }

std::span<const std::string_view> ActionKeys() { return kActionKeys; }
std::span<const std::string_view> OwnKeys() {
  return std::span<const std::string_view>(kActionKeys).subspan(kOwnFrom);
}

std::optional<LimitAsks> ReadLimits(const Keys& keys, bool inherits, LimitAsker asker,
                                    std::optional<OnConflict>* on_conflict) {
  auto singleton = keys.Take("singleton");
  auto limit = keys.Take("limit");
  size_t choice = 0;
  auto word = keys.Take("on_conflict");
  if (word && limit) {
    word->reporter->Error(word->key_at, word->path,
                          "'on_conflict' stands beside 'singleton'; of a limit write it as limit: "
                          "{key: KEY, on_conflict: wait}");
  } else if (word && !singleton && !inherits) {
    word->reporter->Error(word->key_at, word->path,
                          "'on_conflict' stands beside 'singleton'; add one, such as singleton: " +
                              std::string(kSingletonExample) + ", or remove this");
  }
  if (word && ReadWord(*word, kConflicts, &choice)) {
    *on_conflict = static_cast<OnConflict>(choice);
  }
  if (limit && singleton) {
    limit->reporter->Error(limit->key_at, limit->path,
                           "there are both 'limit' and 'singleton', which is limit: {key: KEY, "
                           "max: 1, on_conflict: fail}; keep one of them");
  }
  if (singleton) {
    LimitAsk ask{.on_conflict = on_conflict->value_or(OnConflict::kFail), .singleton = true};
    if (!ReadTextTemplate(*singleton, kSingletonExample, &ask.key)) return std::nullopt;
    if (auto problem = BuiltInKeyProblem(*singleton, ask.key)) {
      singleton->Fail(*problem);
      return std::nullopt;
    }
    return LimitAsks{std::move(ask)};
  }
  if (!limit) return std::nullopt;
  LimitAsks asks;
  ReadLimitAsks(*limit, asker, &asks);
  return asks;
}

void ReadMiddleware(const Keys& keys, MiddlewareSource* to) {
  for (std::string_view key : {"without", "replace", "use"}) {
    if (auto field = keys.Take(key)) to->written = WrittenAt(*field);
  }
  if (auto field = keys.Take("use")) ReadUses(*field, &to->use);
  if (auto field = keys.Take("replace")) ReadReplace(*field, &to->replace);
  if (auto field = keys.Take("without")) ReadNames(*field, "middleware", &to->without);
}

void ReadOwnKeys(const Keys& keys, bool inherits, Reporter* reporter, ActionSource* to) {
  TakeInto(keys, "queue", &to->queue, [](const Field& field, std::string* name) {
    return ReadName(field, "queue", name);
  });
  if (auto field = keys.Take("priority")) ReadPriority(*field, &to->priority);
  TimeoutReading timeout;
  for (std::string_view key : kTimeoutKeys) {
    if (auto field = keys.Take(key)) timeout.Read(key, *field);
  }
  timeout.Judge(inherits, reporter);
  to->timeout = timeout.keys;
  TakeInto(keys, "retry", &to->retry, ReadRetry);
  TakeInto(keys, "run_timeout", &to->run_timeout, ReadDurationAboveZero);
  TakeInto(keys, "ready_timeout", &to->ready_timeout, ReadDurationAboveZero);
  TakeInto(keys, "abandon_after", &to->abandon_after, ReadAbandonAfter);
  if (auto field = keys.Take("poll")) ReadPoll(*field, &to->poll);
  if (auto field = keys.Take("rescue")) ReadRescue(*field, to);
  if (auto field = keys.Take("weight")) ReadWeights(*field, &to->weight);
  ReadMiddleware(keys, &to->middleware);
  to->limits = ReadLimits(keys, inherits, LimitAsker::kStep, &to->on_conflict);
  TakeInto(keys, "runs_on", &to->runs_on, ReadRunsOn);
  TakeInto(keys, "dry_run", &to->dry_run, ReadDryRunOfAction);
}

std::optional<ActionSource> ReadAction(const YamlNode& root, Reporter* reporter) {
  const size_t errors = reporter->errors();
  ActionSource action;
  Keys keys(Field(root, "", reporter), kActionKeys, kActionHas);
  if (auto field = keys.Take("action")) {
    action.written = WrittenAt(*field);
    ReadName(*field, "action", &action.id);
  } else {
    reporter->Error(root.at, "action", "the document has no 'action'; add 'action: NAME'");
  }
  if (auto field = keys.Take("description")) ReadText(*field, &action.description);
  if (auto field = keys.Take("extends")) {
    action.extends_written = WrittenAt(*field);
    ReadName(*field, "action", &action.extends);
  }
  if (auto field = keys.Take("phases")) ReadPhases(*field, &action.phases);
  if (auto field = keys.Take("plan")) ReadPlanned(*field, &action.planned_by_worker);
  for (auto [key, to] : {std::pair("input", &action.input), std::pair("output", &action.output)}) {
    TakeInto(keys, key, to, [name = key](const Field& field, Schema* schema) {
      return ReadSchema(field, name, schema);
    });
  }
  ReadSubscription(keys, &action);
  ReadOwnKeys(keys, keys.Has("extends"), reporter, &action);
  const bool plans = action.planned_by_worker || keys.Has("extends");
  if (!plans && action.dry_run && action.dry_run->transition == "planned") {
    keys.Take("dry_run")->Fail("'planned' is reported of what a worker plans: add 'plan: worker', "
                               "or report ok, error or suspend");
  }
  if (!action.id.empty() && action.extends == action.id) {
    keys.Take("extends")->Fail("action " + Quoted(action.id) + " extends itself");
  }
  if (reporter->errors() > errors) return std::nullopt;
  return action;
}

}  // namespace dfsmr
