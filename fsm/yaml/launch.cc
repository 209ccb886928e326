#include "fsm/yaml/launch.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "fsm/yaml/template.h"

namespace dfsmr {
namespace {

constexpr size_t kNoteMax = 1'024;
constexpr int64_t kFailuresMax = 1'000'000;
constexpr std::array<std::string_view, 8> kStartKeys = {
    "machine", "version", "id", "params", "labels", "priority", "group", "before"};
constexpr std::array<std::string_view, 4> kSendKeys = {"instance", "transition", "node", "params"};

bool HasReferences(std::string_view text) { return text.find("${") != std::string_view::npos; }

// A text with references. `valid` says what is wrong with one that has none.
template <typename Valid>
bool ReadFilledText(const Field& field, std::string_view example, const ReferenceProblem& problem,
                    Valid valid, std::string* text) {
  if (!ReadTextTemplate(field, example, text)) return false;
  if (!CheckReferences(field, problem)) return false;
  if (HasReferences(*text)) return true;
  const std::optional<std::string> wrong = valid(*text);
  if (wrong) field.Fail(*wrong);
  return !wrong;
}

std::optional<std::string> IdProblem(const std::string& id, std::string_view what) {
  if (ValidInstanceId(id)) return std::nullopt;
  return Quoted(id) + " cannot be " + std::string(what) + ": that is 1 to " +
         std::to_string(limits::kInstanceId) + " printable characters without space";
}

std::optional<std::string> InstanceIdProblem(const std::string& id) {
  return IdProblem(id, "an instance's id");
}

bool ReadParams(const Field& field, const ReferenceProblem& problem, std::string* params) {
  return ReadMapTemplate(field, params) && CheckReferences(field, problem);
}

bool ReadLabels(const Field& field, const ReferenceProblem& problem, LaunchStart* start) {
  if (!ReadMap(field, "{branch: main}")) return false;
  if (field.value.entries.size() > limits::kLabels) {
    field.Fail("an instance has at most " + std::to_string(limits::kLabels) + " labels, not " +
               std::to_string(field.value.entries.size()));
    return false;
  }
  bool sound = true;
  for (const YamlEntry& entry : field.value.entries) {
    const Field value = field.Below(entry);
    std::string text;
    if (auto wrong = NameProblem("label", entry.key)) {
      value.reporter->Error(entry.at, value.path, *wrong);
      sound = false;
    } else if (!ReadText(value, &text)) {
      sound = false;
    } else if (HasReferences(text)) {
      sound = ReadTextTemplate(value, "main", &text) && CheckReferences(value, problem) && sound;
    } else if (Characters(text) > limits::kLabelValue) {
      value.Fail("a label's value is at most " + std::to_string(limits::kLabelValue) +
                 " characters long");
      sound = false;
    }
    start->labels.emplace_back(entry.key, std::move(text));
  }
  return sound;
}

bool ReadBefore(const Field& field, LaunchStart* start) {
  Duration before{};
  if (!ReadDurationAboveZero(field, &before)) return false;
  start->before = before;
  return true;
}

bool ReadStart(const Field& field, const ReferenceProblem& problem, LaunchSource* launch) {
  if (!field.value.IsMap()) {
    field.Fail("expected a map such as {machine: report}, not " + Describe(field.value));
    return false;
  }
  const size_t errors = field.reporter->errors();
  const Keys keys(field, kStartKeys,
                  "a start has machine, version, id, params, labels, priority, group and before");
  LaunchStart start;
  int64_t number = 0;
  if (auto machine = keys.Take("machine")) {
    ReadName(*machine, "machine", &start.machine);
  } else if (!keys.Has("machine")) {
    field.Fail("there is no 'machine': name the machine, plan or action to start");
  }
  if (auto version = keys.Take("version");
      version && ReadInteger(*version, 1, std::numeric_limits<uint32_t>::max(), &number)) {
    start.version = static_cast<uint32_t>(number);
  }
  if (auto priority = keys.Take("priority");
      priority && ReadInteger(*priority, std::numeric_limits<int32_t>::min(),
                              std::numeric_limits<int32_t>::max(), &number)) {
    start.priority = static_cast<int32_t>(number);
  }
  if (auto id = keys.Take("id")) {
    ReadFilledText(*id, "\"pay-${schedule.date}\"", problem, InstanceIdProblem, &start.id);
  }
  if (auto group = keys.Take("group")) {
    ReadFilledText(
        *group, "nightly", problem,
        [](const std::string& name) { return IdProblem(name, "a group's name"); }, &start.group);
  }
  if (auto params = keys.Take("params")) ReadParams(*params, problem, &start.params);
  if (auto labels = keys.Take("labels")) ReadLabels(*labels, problem, &start);
  if (auto before = keys.Take("before")) ReadBefore(*before, &start);
  launch->action = std::move(start);
  return field.reporter->errors() == errors;
}

bool ReadSend(const Field& field, const ReferenceProblem& problem, LaunchSource* launch) {
  if (!field.value.IsMap()) {
    field.Fail("expected a map such as {instance: main, transition: wake}, not " +
               Describe(field.value));
    return false;
  }
  const size_t errors = field.reporter->errors();
  const Keys keys(field, kSendKeys, "a send has instance, transition, node and params");
  LaunchSend send;
  for (std::string_view needed : {"instance", "transition"}) {
    if (!keys.Has(needed)) field.Fail("there is no " + Quoted(needed));
  }
  auto name = [](std::string_view what) {
    return [what](const std::string& text) {
      return ReservedName(text) ? std::optional<std::string>(
                                      Quoted(text) + " is the system's own: nobody may send it")
                                : NameProblem(what, text);
    };
  };
  if (auto instance = keys.Take("instance")) {
    ReadFilledText(*instance, "\"order-${schedule.date}\"", problem, InstanceIdProblem,
                   &send.instance);
  }
  if (auto transition = keys.Take("transition")) {
    ReadFilledText(*transition, "wake", problem, name("transition"), &send.transition);
  }
  if (auto node = keys.Take("node")) {
    // Of a plan it may be a path, which has more characters than a name.
    ReadFilledText(
        *node, "wait", problem, [](const std::string&) { return std::optional<std::string>(); },
        &send.node);
  }
  if (auto params = keys.Take("params")) ReadParams(*params, problem, &send.params);
  launch->action = std::move(send);
  return field.reporter->errors() == errors;
}

bool ReadStopOnFail(const Field& field, uint32_t* out) {
  const std::string& text = field.value.text;
  bool yes = false;
  if (field.value.IsScalar() && (text == "true" || text == "false")) {
    if (!ReadBoolean(field, &yes)) return false;
    *out = yes ? 1 : 0;
    return true;
  }
  int64_t number = 0;
  if (!field.value.IsScalar() || field.value.IsEmpty()) {
    field.Fail("expected true, or after how many failures in a row, not " + Describe(field.value));
    return false;
  }
  if (!ReadInteger(field, 1, kFailuresMax, &number)) return false;
  *out = static_cast<uint32_t>(number);
  return true;
}

bool ReadPaused(const Field& field, std::optional<std::string>* paused) {
  std::string note;
  if (!ReadText(field, &note)) return false;
  if (field.value.plain && note == "false") {
    field.Fail("'paused' is the note with which it is paused when it is first defined; leave it "
               "out for one that is not paused");
    return false;
  }
  if (Characters(note) > kNoteMax) {
    field.Fail("a note is at most " + std::to_string(kNoteMax) + " characters long");
    return false;
  }
  *paused = std::move(note);
  return true;
}

bool CheckScalar(const Field& field, const ReferenceProblem& problem) {
  if (!HasReferences(field.value.text)) return true;
  auto references = References(json::Quote(field.value.text));
  if (!references) return false;  // reported by whoever read the template
  bool sound = true;
  for (const Reference& one : *references) {
    auto wrong = problem(one);
    if (!wrong) continue;
    field.Fail("${" + one.text + "}: " + *wrong);
    sound = false;
  }
  return sound;
}

}  // namespace

bool CheckReferences(const Field& field, const ReferenceProblem& problem) {
  if (field.value.IsScalar()) return CheckScalar(field, problem);
  bool sound = true;
  for (const YamlEntry& entry : field.value.entries) {
    sound = CheckReferences(field.Below(entry), problem) && sound;
  }
  for (size_t i = 0; i < field.value.items.size(); ++i) {
    sound = CheckReferences(field.Item(i), problem) && sound;
  }
  return sound;
}

bool ReadLaunch(const Keys& keys, const Field& document, const ReferenceProblem& problem,
                LaunchSource* launch) {
  const size_t errors = document.reporter->errors();
  const auto start = keys.Take("start");
  const auto send = keys.Take("send");
  if (!start && !send) {
    document.reporter->Error(document.value.at, "start",
                             "there is no 'start' and no 'send': say what is to be done, such as "
                             "'start: {machine: report}'");
  }
  if (start && send) {
    send->reporter->Error(send->key_at, send->path,
                          "'start' and 'send' are both there; keep one of them");
  }
  if (start) ReadStart(*start, problem, launch);
  if (send && !start) {
    ReadSend(*send, problem, launch);
    launch->overlap = Overlap::kAllow;
  }
  if (start || send) launch->written = {(start ? start : send)->key_at, start ? "start" : "send"};
  if (auto overlap = keys.Take("overlap")) {
    size_t word = 0;
    if (send && !start) {
      overlap->reporter->Error(overlap->key_at, overlap->path,
                               "'overlap' is about instances that were started; it has no meaning "
                               "with 'send'");
    } else if (ReadWord(*overlap, kOverlapWords, &word)) {
      launch->overlap = static_cast<Overlap>(word);
    }
  }
  if (auto stop = keys.Take("stop_on_fail")) ReadStopOnFail(*stop, &launch->stop_on_fail);
  if (auto paused = keys.Take("paused")) ReadPaused(*paused, &launch->paused);
  return document.reporter->errors() == errors;
}

}  // namespace dfsmr
