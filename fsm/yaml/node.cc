#include "fsm/yaml/node.h"

#include <algorithm>
#include <array>

#include "fsm/base/duration.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/condition.h"
#include "fsm/yaml/dry_run.h"
#include "fsm/yaml/limits.h"
#include "fsm/yaml/retry.h"
#include "fsm/yaml/runs_on.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 3> kNodeResults = {"success", "warning", "error"};
constexpr std::array<std::string_view, 4> kDelayKeys = {"initial", "factor", "max", "jitter"};
constexpr size_t kSharedDescription = 1'024;  // it is copied to every node

void Start(const Field& field, NodeReading* to) {
  // 'yes' is refused, but its meaning is clear, so nothing else is reported because of it.
  if (!ReadBoolean(field, &to->draft.node.start)) to->draft.node.start = true;
}

void KindFlag(const Field& field, NodeReading*) {
  bool said = false;  // KindsOf has used its value
  ReadBoolean(field, &said);
}

void DelayKey(const Field& field, std::string_view key, DelayPolicy* delay) {
  if (key == "initial") {
    ReadDuration(field, &delay->initial);
  } else if (key == "max") {
    ReadDuration(field, &delay->max);
  } else if (key == "factor") {
    ReadFactor(field, &delay->factor);
  } else {
    ReadJitter(field, &delay->jitter);
  }
}

void Delay(const Field& field, NodeReading* to) {
  DelayPolicy delay;
  if (!field.value.IsMap()) {
    if (field.value.IsList()) {
      return field.Fail("expected a duration such as 30s, or {initial: 1s, factor: 2, max: 5m}, "
                        "not a list");
    }
    if (ReadDuration(field, &delay.initial)) to->draft.settings.delay = delay;
    return;
  }
  for (const YamlEntry& entry : field.value.entries) {
    Field below = field.Below(entry);
    if (std::ranges::find(kDelayKeys, entry.key) != kDelayKeys.end()) {
      DelayKey(below, entry.key, &delay);
    } else {
      field.reporter->Error(entry.at, below.path,
                            "unknown key " + Quoted(entry.key) + Hint(entry.key, kDelayKeys) +
                                "; a delay has initial, factor, max and jitter");
    }
  }
  if (!field.value.Find("initial")) return field.Fail("the delay has no 'initial'; add one: 1s");
  if (delay.max < delay.initial) {
    return field.Fail("max " + FormatDuration(delay.max) + " is less than initial " +
                      FormatDuration(delay.initial));
  }
  to->draft.settings.delay = delay;
}

void ReadResult(const Field& field, NodeReading* to) {
  size_t choice = 0;
  if (ReadWord(field, kNodeResults, &choice)) to->draft.node.result = static_cast<Outcome>(choice);
  to->draft.result_given = true;
}

void AddTransition(const std::string& name, std::string target, ConditionPtr condition,
                   NodeDraft* draft) {
  if (condition) draft->choices.resize(draft->transitions.size());
  const bool choices = condition || !draft->choices.empty();
  draft->transitions.emplace_back(name, std::move(target));
  if (choices) draft->choices.push_back(std::move(condition));
}

// One of several choices: {if: CONDITION, to: NODE}.
bool ReadChoice(const Field& field, const std::string& name, NodeDraft* draft) {
  static constexpr std::array<std::string_view, 2> kChoiceKeys = {"if", "to"};
  if (!field.value.IsMap()) {
    field.Fail(
        "expected a choice such as {if: {value: \"${given.sum}\", greater: 10}, to: NODE}, "
        "or {to: NODE} as the last, not " +
        Describe(field.value));
    return false;
  }
  Keys keys(field, kChoiceKeys, "a choice has if and to");
  ConditionPtr condition;
  bool sound = true;
  if (auto key = keys.Take("if")) {
    Condition read;
    sound = ReadIf(*key, {}, &read);
    condition = std::make_shared<const Condition>(std::move(read));
  }
  auto to = keys.Take("to");
  if (!to) {
    field.Fail("the choice leads nowhere; add 'to: NODE'");
    return false;
  }
  if (!to->value.IsScalar() || to->value.IsEmpty()) {
    to->Fail("a choice leads to one node, by its name; not to " + Describe(to->value));
    return false;
  }
  if (sound) AddTransition(name, to->value.text, std::move(condition), draft);
  return sound;
}

// A choice without `if` is always taken, so those behind it never are.
void WarnOfNeverTaken(const Field& edge) {
  const auto always = std::ranges::find_if(edge.value.items, [](const YamlNode* choice) {
    return choice->IsMap() && !choice->Find("if");
  });
  const auto index = static_cast<size_t>(always - edge.value.items.begin());
  if (index + 1 >= edge.value.items.size()) return;
  const bool refused = std::any_of(always, edge.value.items.end(), [](const YamlNode* choice) {
    return choice->IsMap() && choice->Find("if");
  });
  if (refused) return;
  const Field behind = edge.Item(index + 1);
  behind.reporter->Warning(behind.At(), behind.path,
                           "this choice is never taken: the one before it has no 'if'; add one "
                           "there, or remove this");
}

bool ReadChoices(const Field& edge, const std::string& name, NodeDraft* draft) {
  if (edge.value.items.empty()) {
    edge.Fail("transition " + Quoted(name) + " has no choices; the last is {to: NODE}");
    return false;
  }
  bool sound = true;
  for (size_t i = 0; i < edge.value.items.size(); ++i) {
    if (!ReadChoice(edge.Item(i), name, draft)) sound = false;
  }
  if (sound) WarnOfNeverTaken(edge);
  return sound;
}

bool ReadTransition(const Field& edge, const std::string& name, NodeDraft* draft) {
  if (name.size() > limits::kName) {
    edge.Fail(*NameProblem("transition", name));
    return false;
  }
  if (edge.value.IsList()) return ReadChoices(edge, name, draft);
  if (!edge.value.IsScalar() || edge.value.IsEmpty()) {
    edge.Fail("transition " + Quoted(name) + " leads to one node, by its name; not to " +
              Describe(edge.value) + " (or to one of several: [{if: CONDITION, to: NODE}, " +
              "{to: NODE}])");
    return false;
  }
  AddTransition(name, edge.value.text, nullptr, draft);
  return true;
}

void Transitions(const Field& field, NodeReading* to) {
  to->complete = ReadMap(field, "{ok: NODE}");
  for (const YamlEntry& entry : field.value.entries) {
    if (!ReadTransition(field.Below(entry), entry.key, &to->draft)) to->complete = false;
  }
}

void Queue(const Field& field, NodeReading* to) {
  ReadName(field, "queue", &to->draft.settings.queue);
}
void Action(const Field& field, NodeReading* to) {
  ReadName(field, "action", &to->draft.settings.action);
}

void Priority(const Field& field, NodeReading* to) {
  int64_t value = 0;
  if (!ReadInteger(field, INT32_MIN, INT32_MAX, &value)) return;
  to->draft.settings.priority = static_cast<int32_t>(value);
}

void MaxVisits(const Field& field, NodeReading* to) {
  int64_t value = 0;
  if (!ReadInteger(field, 1, INT32_MAX, &value)) {
    // A limit was meant, so that the transition 'dfsmr.exhausted' is not reported, too.
    value = 1;
  }
  to->draft.settings.max_visits = static_cast<uint32_t>(value);
}

void Limit(const Field& field, NodeReading* to) {
  ReadLimitAsks(field, LimitAsker::kNode, &to->draft.settings.limits);
}

void Where(const Field& field, NodeReading* to) { ReadRunsOn(field, &to->draft.settings.runs_on); }
void Retry(const Field& field, NodeReading* to) { ReadRetry(field, &to->draft.settings.retry); }
void RunTimeout(const Field& field, NodeReading* to) {
  ReadDurationAboveZero(field, &to->draft.settings.bounds.run_timeout);
}
void ReadyTimeout(const Field& field, NodeReading* to) {
  ReadDurationAboveZero(field, &to->draft.settings.bounds.ready_timeout);
}
void AbandonAfter(const Field& field, NodeReading* to) {
  ReadAbandonAfter(field, &to->draft.settings.bounds.abandon_after);
}

void DryRun(const Field& field, NodeReading* to) { ReadDryRun(field, &to->draft.settings.dry_run); }

void Description(const Field& field, NodeReading* to) {
  ReadText(field, &to->draft.settings.description);
}

constexpr unsigned Bit(NodeKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned kWork = Bit(NodeKind::kWork);
constexpr unsigned kDelay = Bit(NodeKind::kDelay);
constexpr unsigned kManual = Bit(NodeKind::kManual);
constexpr unsigned kFinal = Bit(NodeKind::kFinal);
constexpr unsigned kEvery = kWork | kDelay | kManual | kFinal;
constexpr std::array kKinds = {NodeKind::kWork, NodeKind::kDelay, NodeKind::kManual,
                               NodeKind::kFinal};

struct NodeKey {
  std::string_view name;
  unsigned kinds;  // of the nodes that may have it
  bool shared;     // whether 'defaults' may hold it
  void (*read)(const Field&, NodeReading*);  // null: a key of a timeout
};
constexpr std::array<NodeKey, 23> kNodeKeys = {{
    {"start", kEvery, false, Start},
    {"transitions", kEvery, false, Transitions},
    {"final", kEvery, false, KindFlag},
    {"manual", kEvery, false, KindFlag},
    {"delay", kEvery, false, Delay},
    {"result", kFinal, false, ReadResult},
    {"timeout_strategy", kWork, true, nullptr},
    {"timeout", kWork, true, nullptr},
    {"timeout_initial", kWork, true, nullptr},
    {"timeout_min", kWork, true, nullptr},
    {"timeout_max", kWork, true, nullptr},
    {"queue", kWork, true, Queue},
    {"priority", kWork, true, Priority},
    {"action", kWork, false, Action},
    {"limit", kWork, true, Limit},
    {"runs_on", kWork, true, Where},
    {"retry", kWork, true, Retry},
    {"run_timeout", kWork, true, RunTimeout},
    {"ready_timeout", kWork, true, ReadyTimeout},
    {"abandon_after", kWork, true, AbandonAfter},
    {"dry_run", kWork, true, DryRun},
    {"max_visits", kWork | kDelay | kManual, true, MaxVisits},
    {"description", kEvery, true, Description},
}};

void ReadKey(const NodeKey& key, const Field& field, NodeReading* to) {
  if (key.read) return key.read(field, to);
  to->timeout.Read(key.name, field);
  to->draft.timeout_given = to->timeout.timeout_given;
}

const NodeKey* FindKey(std::string_view name) {
  auto it = std::ranges::find(kNodeKeys, name, &NodeKey::name);
  return it == kNodeKeys.end() ? nullptr : &*it;
}

std::string List(unsigned kinds) {
  std::string list;
  for (NodeKind kind : kKinds) {
    if (!(kinds & Bit(kind))) continue;
    list += (list.empty() ? "" : ", ") + std::string(Name(kind));
  }
  return list;
}

// The key that an unknown one resembles; null: none.
const NodeKey* GuessKey(std::string_view name) {
  Nearest nearest(name);
  for (const NodeKey& key : kNodeKeys) nearest.Try(key.name);
  return nearest.Best().empty() ? nullptr : FindKey(nearest.Best());
}

bool Says(const YamlNode& node, std::string_view key) {
  const YamlEntry* entry = node.Find(key);
  if (!entry || !entry->value->IsScalar()) return false;
  const std::string& text = entry->value->text;
  return text == "true" || text == "True" || text == "TRUE";
}

// The one of several kinds that fits the rest of the node.
NodeKind Choose(unsigned kinds, bool leads_on) {
  if ((kinds & kFinal) && !leads_on) return NodeKind::kFinal;
  return *std::ranges::find_if(kKinds, [kinds](NodeKind kind) { return (kinds & Bit(kind)) != 0; });
}

}  // namespace

void NodeReader::ReadDefaults(const Field& field) {
  if (!ReadMap(field, "{timeout_strategy: fixed, timeout: 30.0}")) return;
  for (const YamlEntry& entry : field.value.entries) {
    Field below = field.Below(entry);
    const NodeKey* key = FindKey(entry.key);
    if (!key) {
      const NodeKey* meant = GuessKey(entry.key);
      reporter_->Error(entry.at, below.path, "unknown key " + Quoted(entry.key) +
                                                 (meant ? Hint(entry.key, {{meant->name}}) : ""));
    } else if (!key->shared) {
      reporter_->Error(entry.at, below.path,
                       "key " + Quoted(entry.key) + " cannot stand under 'defaults'; write it at "
                       "the nodes that it is meant for");
    } else if (key->read == Description && below.value.text.size() > kSharedDescription) {
      below.Fail("a description that nodes share has at most " +
                 std::to_string(kSharedDescription) + " bytes");
    } else {
      ReadKey(*key, below, &defaults_);
    }
  }
}

unsigned NodeReader::KindsOf(const Field& node, const std::string& id) {
  unsigned kinds = 0;
  std::string written;
  auto add = [&](NodeKind kind, std::string_view key) {
    kinds |= Bit(kind);
    written += (written.empty() ? "" : " and ") + Quoted(key);
  };
  if (node.value.Find("delay")) add(NodeKind::kDelay, "delay");
  if (Says(node.value, "manual")) add(NodeKind::kManual, "manual");
  if (Says(node.value, "final")) add(NodeKind::kFinal, "final");
  if (kinds == 0) return kWork;
  if ((kinds & (kinds - 1)) != 0) {
    reporter_->Error(node.key_at, node.path, "node " + Quoted(id) + " is of two kinds, by " +
                                                 written + "; keep one of them");
  }
  return kinds;
}

void NodeReader::ReadKeys(const Field& node, unsigned kinds, NodeReading* reading) {
  for (const YamlEntry& entry : node.value.entries) {
    Field below = node.Below(entry);
    const NodeKey* key = FindKey(entry.key);
    if (!key) {
      const NodeKey* meant = GuessKey(entry.key);
      std::string hint = meant ? Hint(entry.key, {{meant->name}}) : "";
      reporter_->Error(entry.at, below.path, "unknown key " + Quoted(entry.key) + hint);
      if (!meant || node.value.Find(meant->name)) continue;
      key = meant;  // read it as the key that was meant, so that this is not missing, too
    }
    if ((key->kinds & kinds) == 0) {
      reporter_->Error(entry.at, below.path,
                       "key " + Quoted(entry.key) + " is for " + List(key->kinds) +
                           " nodes, and this is a " + List(kinds) + " node");
      continue;
    }
    ReadKey(*key, below, reading);
  }
}

NodeDraft NodeReader::Read(const Field& field, const std::string& id) {
  NodeReading reading;
  if (id.size() > limits::kName) {
    reporter_->Error(field.key_at, field.path, *NameProblem("node", id));
    complete_ = false;
  } else if (!ReadMap(field, "{transitions: {ok: NODE}} or {final: true}")) {
    complete_ = false;
  } else {
    const unsigned kinds = KindsOf(field, id);
    if (kinds == kWork) reading = defaults_;
    reading.draft.node.id = id;
    reading.draft.node.kind = Choose(kinds, field.value.Find("transitions") != nullptr);
    ReadKeys(field, kinds, &reading);
    if (kinds == kWork) reading.draft.settings.timeout = reading.timeout.Judge(false, reporter_);
    if (!reading.complete) complete_ = false;
  }
  return std::move(reading.draft);
}

}  // namespace dfsmr
