#include "dcli/work/verdict.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <vector>

#include "dcli/system/process.h"
#include "dcli/text/json.h"

namespace dfsmr::cli {
namespace {

constexpr size_t kErrorBytes = 2'000;  // of standard error, sent with the report
constexpr size_t kToldBytes = 32'000;  // of an error text by the command itself
constexpr int kErrorLines = 5;

std::string_view Trimmed(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  return end == text.npos ? std::string_view() : text.substr(0, end + 1);
}

// A piece of a text may begin or end inside a character; a report must be UTF-8.
std::string ValidUtf8(std::string_view text) { return Unquoted(JsonString(text)); }

std::string_view LastLines(std::string_view text) {
  text = Trimmed(text);
  if (text.size() > kErrorBytes) text.remove_prefix(text.size() - kErrorBytes);
  size_t begin = text.size();
  for (int lines = 0; lines < kErrorLines && begin != text.npos && begin > 0; ++lines) {
    begin = text.rfind('\n', begin - 1);
  }
  return begin == text.npos || begin == 0 ? text : text.substr(begin + 1);
}

// "wake_after" as "wakeAfter".
std::string CamelCase(std::string_view key) {
  std::string camel;
  bool up = false;
  for (const char c : key) {
    if (c != '_') camel += up ? static_cast<char>(c - 'a' + 'A') : c;
    up = c == '_';
  }
  return camel;
}

// The members of the object on a command's last line. Each method leaves `to` alone where the
// member is missing, and returns false when the member has another type.
class Said {
 public:
  explicit Said(std::string_view object) : members_(Members(object)) {}

  bool String(std::string_view key, std::string* to) const {
    const std::string* value = ValueOf(key);
    if (value == nullptr) return true;
    if (!value->starts_with('"')) return false;
    *to = Unquoted(*value);
    return true;
  }
  bool Object(std::string_view key, std::string* to) const { return Text(key, '{', to); }
  bool Array(std::string_view key, std::string* to) const { return Text(key, '[', to); }
  bool Boolean(std::string_view key, bool* to) const {
    const std::string* value = ValueOf(key);
    if (value == nullptr) return true;
    *to = *value == "true";
    return *to || *value == "false";
  }
  bool Number(std::string_view key, uint32_t* to) const {
    const std::string* value = ValueOf(key);
    if (value == nullptr) return true;
    const char* end = value->data() + value->size();
    const auto read = std::from_chars(value->data(), end, *to);
    return read.ec == std::errc() && read.ptr == end;
  }
  // A key that is not among `known`; "" when all are.
  std::string Other(std::initializer_list<std::string_view> known) const {
    for (const Member& member : members_) {
      if (std::find(known.begin(), known.end(), member.key) == known.end()) return member.key;
    }
    return "";
  }

 private:
  const std::string* ValueOf(std::string_view key) const {
    const Member* member = Find(members_, key);
    if (member == nullptr) member = Find(members_, CamelCase(key));  // as the task has it
    return member == nullptr || member->value == "null" ? nullptr : &member->value;
  }
  bool Text(std::string_view key, char first, std::string* to) const {
    const std::string* value = ValueOf(key);
    if (value == nullptr) return true;
    if (!value->starts_with(first)) return false;
    *to = *value;
    return true;
  }

  std::vector<Member> members_;
};

std::string TakeChild(const std::string& item, Child* child) {
  if (!item.starts_with('{')) return "not an object";
  const Said said(item);
  std::string machine;
  if (!said.String("machine", &machine) || machine.empty()) return "without a \"machine\"";
  const auto ref = ParseStartRef(machine);
  if (!ref) return ref.error().message;
  child->machine = *ref;
  if (!said.String("id", &child->id)) return "\"id\" is not a string";
  if (!said.Object("params", &child->params)) return "\"params\" is not an object";
  const std::string other = said.Other({"machine", "id", "params"});
  return other.empty() ? "" : "it takes machine, id and params, and no \"" + other + "\"";
}

// What the item says as text in JSON, and the request as text of its own.
std::string TakeTexts(std::vector<Member>* members, v1::StartRequest* request) {
  const auto take = [members](std::string_view key) {
    const Member* member = Find(*members, key);
    const std::string value = member == nullptr ? "" : member->value;
    std::erase_if(*members, [key](const Member& one) { return one.key == key; });
    return value == "null" ? "" : value;
  };
  const std::string machine = take("machine");
  const std::string params = take("params");
  const std::string flow = take("flow");
  if (!machine.empty() && !machine.starts_with('"')) return "\"machine\" is not a string";
  if (machine.empty() && flow.empty()) return "without a \"machine\"";
  if (!machine.empty()) {
    const auto ref = ParseStartRef(Unquoted(machine));
    if (!ref) return ref.error().message;
    request->set_machine(ref->id);
    request->set_version(ref->version);
  }
  if (!params.empty() && !params.starts_with('{')) return "\"params\" is not an object";
  request->set_params(params);
  if (flow.starts_with('"')) {
    request->set_flow(Unquoted(flow));
  } else if (flow.starts_with('[') || flow.starts_with('{')) {
    request->set_flow(flow);
  } else if (!flow.empty()) {
    return "\"flow\" is no list, object or text";
  }
  return "";
}

std::string TakeStart(const std::string& item, v1::StartRequest* request) {
  if (!item.starts_with('{')) return "not an object";
  std::vector<Member> members = Members(item);
  v1::StartRequest texts;
  const std::string wrong = TakeTexts(&members, &texts);
  if (!wrong.empty()) return wrong;
  const auto rest = google::protobuf::util::JsonStringToMessage(ObjectOf(members), request);
  if (!rest.ok()) return std::string(rest.message());
  request->MergeFrom(texts);
  return "";
}

std::string TakeStarts(const Said& said, Verdict* verdict) {
  std::string starts;
  if (!said.Array("start", &starts)) return "\"start\" is not an array";
  if (starts.empty()) return "";
  for (const std::string& item : Items(starts)) {
    const std::string which = "\"start\"[" + std::to_string(verdict->starts.size()) + "]";
    const std::string wrong = TakeStart(item, &verdict->starts.emplace_back().request);
    if (!wrong.empty()) return which + ": " + wrong;
  }
  return "";
}

std::string TakeDuration(const Said& said, const std::string& key, std::optional<Duration>* to) {
  std::string text;
  if (!said.String(key, &text)) return "\"" + key + "\" is not a string such as \"30s\"";
  if (text.empty()) return "";
  const auto duration = ParseDuration(text);
  if (!duration) return "\"" + key + "\": " + duration.error().message;
  *to = *duration;
  return "";
}

// The members that go with suspending.
std::string TakeWaiting(const Said& said, Verdict* verdict) {
  std::string wrong = TakeDuration(said, "wake_after", &verdict->wake_after);
  if (!wrong.empty()) return wrong;
  std::string children;
  if (!said.Array("children", &children)) return "\"children\" is not an array";
  if (!said.Number("children_concurrency", &verdict->children_concurrency)) {
    return "\"children_concurrency\" is not a number from 0 on";
  }
  if (children.empty()) return "";
  for (const std::string& item : Items(children)) {
    const std::string which = "\"children\"[" + std::to_string(verdict->children.size()) + "]";
    wrong = TakeChild(item, &verdict->children.emplace_back());
    if (!wrong.empty()) return which + ": " + wrong;
  }
  return "";
}

// The members that go with `error`, and the checkpoint, which goes with any transition.
std::string TakeFailing(const Said& said, Verdict* verdict) {
  std::string wrong = TakeDuration(said, "retry_after", &verdict->retry_after);
  if (!wrong.empty()) return wrong;
  if (!said.Boolean("fatal", &verdict->fatal)) return "\"fatal\" is neither true nor false";
  if (!said.String("error_kind", &verdict->error_kind)) return "\"error_kind\" is not a string";
  if (!said.Object("checkpoint", &verdict->checkpoint)) return "\"checkpoint\" is not an object";
  return "";
}

// Puts the members into the verdict; returns what is wrong with them, or "".
std::string Take(const Said& said, Verdict* verdict) {
  std::string transition;
  if (!said.String("transition", &transition)) return "\"transition\" is not a string";
  if (!said.String("error", &verdict->error)) return "\"error\" is not a string";
  if (!said.Object("params", &verdict->params)) return "\"params\" is not an object";
  if (!said.Object("output", &verdict->output)) return "\"output\" is not an object";
  std::string wrong = TakeFailing(said, verdict);
  if (wrong.empty()) wrong = TakeWaiting(said, verdict);
  if (wrong.empty()) wrong = TakeStarts(said, verdict);
  if (!wrong.empty()) return wrong;
  const bool waiting = verdict->wake_after || !verdict->children.empty();
  if (waiting && transition.empty()) {
    return "\"wake_after\" and \"children\" want \"transition\": \"suspend\" beside them";
  }
  if (!transition.empty()) {
    verdict->transition = transition;
    verdict->named = true;
  }
  Verdict failing;  // of these members alone: the exit status may have given a kind of its own
  TakeFailing(said, &failing);
  const bool failure = !failing.error_kind.empty() || failing.fatal || failing.retry_after;
  if (failure && verdict->transition != "error") {
    return "\"error_kind\", \"fatal\" and \"retry_after\" want \"transition\": \"error\" beside "
           "them";
  }
  return "";
}

// What went wrong before is not the report's, unless it reports an error.
void ForgetOther(const Verdict& base, Verdict* told) {
  if (told->transition == "error") return;
  if (told->error == base.error) told->error.clear();
  if (told->error_kind == base.error_kind) told->error_kind.clear();
}

}  // namespace

bool operator==(const StartCall& a, const StartCall& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a.request, b.request);
}

std::string_view LastLine(std::string_view text) {
  text = Trimmed(text);
  const size_t line_break = text.find_last_of("\r\n");
  return line_break == text.npos ? text : text.substr(line_break + 1);
}

Verdict VerdictOf(int status, std::string_view out, std::string_view err,
                  std::string_view success) {
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  Verdict verdict;
  verdict.transition = well ? std::string(success) : "error";
  if (!well) {
    const std::string lines = ValidUtf8(LastLines(err));
    verdict.error = StatusText(status) + (lines.empty() ? "" : ": " + lines);
  }
  const std::string_view last = LastLine(out);
  if (!IsJsonObject(last)) return verdict;
  Verdict told = VerdictTold(last, verdict, "the last line of the command's output");
  ForgetOther(verdict, &told);
  return told;
}

Verdict VerdictTold(std::string_view object, Verdict base, std::string_view what) {
  const std::string wrong = Take(Said(object), &base);
  if (base.error.size() > kToldBytes) {
    base.error = ValidUtf8(std::string_view(base.error).substr(0, kToldBytes)) + "…";
  }
  if (wrong.empty()) return base;
  return Failure(std::string(what) + " is no report: " + wrong);
}

Verdict Failure(std::string error, std::string kind) {
  Verdict verdict;
  verdict.transition = "error";
  verdict.error = std::move(error);
  verdict.error_kind = std::move(kind);
  return verdict;
}

Verdict VerdictOf(const Ending& ending) {
  const bool exited = WIFEXITED(ending.status);
  Verdict base = VerdictOf(ending.status, "", ending.err, ending.success);
  if (base.transition == "error" && !base.error.empty())
    base.error_kind = exited ? "exit" : "signal";
  if (exited && ending.exits != nullptr) {
    const auto meant = ending.exits->find(WEXITSTATUS(ending.status));
    if (meant != ending.exits->end()) {
      base = Verdict{.transition = meant->second, .named = true};
      if (meant->second == "error") {
        base = VerdictOf(ending.status, "", ending.err, ending.success);
        base.error_kind = "exit";
        base.named = true;
      }
    }
  }
  const std::string_view report = Trimmed(ending.report);
  const bool filed = report.find_first_not_of(" \t\r\n") != report.npos;
  std::string_view object = filed ? report : LastLine(ending.out);
  if (!filed && !IsJsonObject(object)) return base;
  const std::string_view what =
      filed ? "what DFSMR_OUTPUT holds" : "the last line of the command's output";
  if (!IsJsonObject(object)) return Failure(std::string(what) + " is no JSON object", "output");
  Verdict told = VerdictTold(object, base, what);
  if (told.error.starts_with(std::string(what) + " is no report: ")) {
    told.error_kind = "output";
  }
  ForgetOther(base, &told);
  return told;
}

v1::TransitionRequest ReportOf(const v1::Task& task, const Verdict& verdict) {
  v1::TransitionRequest request;
  request.set_namespace_(task.namespace_());
  request.set_instance(task.instance());
  request.set_claim(task.claim());
  request.set_transition(verdict.transition);
  request.set_node_params(verdict.params);
  request.set_output(verdict.output);
  request.set_error(verdict.error);
  request.set_error_kind(verdict.error_kind);
  request.set_fatal(verdict.fatal);
  request.set_checkpoint(verdict.checkpoint);
  if (verdict.retry_after) *request.mutable_retry_after() = ToProto(*verdict.retry_after);
  if (verdict.wake_after) *request.mutable_wake_after() = ToProto(*verdict.wake_after);
  request.set_children_concurrency(verdict.children_concurrency);
  for (const Child& child : verdict.children) {
    v1::StartRequest* start = request.add_children();
    start->set_machine(child.machine.id);
    start->set_version(child.machine.version);
    start->set_id(child.id);
    start->set_params(child.params);
  }
  for (const StartCall& start : verdict.starts) *request.add_starts() = start.request;
  return request;
}

std::vector<std::string> TaskVariables(const v1::Task& task, const std::string& server) {
  std::vector<std::string> variables = {"DFSMR_INSTANCE=" + task.instance(),
                                        "DFSMR_MACHINE=" + task.machine(),
                                        "DFSMR_NODE=" + task.node(),
                                        "DFSMR_ATTEMPT=" + std::to_string(task.attempt()),
                                        "DFSMR_CLAIM=" + task.claim(),
                                        "DFSMR_SERVER=" + server,
                                        "DFSMR_NAMESPACE=" + task.namespace_(),
                                        "DFSMR_ACTION=" + task.action(),
                                        "DFSMR_PHASE=" + task.phase(),
                                        "DFSMR_EVENT=" + task.event(),
                                        // Empty without a trace: the worker's own is not the task's.
                                        "TRACEPARENT=" + task.traceparent()};
  return variables;
}

}  // namespace dfsmr::cli
