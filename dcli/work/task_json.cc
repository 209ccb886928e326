#include "dcli/work/task_json.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <string_view>

#include "dcli/text/json.h"

namespace dfsmr::cli {
namespace {

using google::protobuf::util::TimeUtil;

constexpr int32_t kSecond = 1'000'000'000;  // nanoseconds

void AppendQuoted(std::string_view text, std::string* to) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
  if (!plain) {
    *to += JsonString(text);
    return;
  }
  *to += '"';
  *to += text;
  *to += '"';
}

// Whether a calendar has it. Other times are as good as none.
bool Sound(const google::protobuf::Timestamp& time) {
  return time.seconds() >= TimeUtil::kTimestampMinSeconds &&
         time.seconds() <= TimeUtil::kTimestampMaxSeconds && time.nanos() >= 0 &&
         time.nanos() < kSecond;
}
bool Sound(const google::protobuf::Duration& time) {
  const bool one_sign = (time.seconds() >= 0 || time.nanos() <= 0) &&
                        (time.seconds() <= 0 || time.nanos() >= 0);
  return one_sign && time.seconds() >= TimeUtil::kDurationMinSeconds &&
         time.seconds() <= TimeUtil::kDurationMaxSeconds && time.nanos() > -kSecond &&
         time.nanos() < kSecond;
}

// Writes an object, member after member. What is empty is left out, as proto3 JSON does.
class TaskObject {
 public:
  void Text(std::string_view key, std::string_view value) {
    if (!value.empty()) AppendQuoted(value, Key(key));
  }
  void Number(std::string_view key, uint32_t value, bool always = false) {
    if (value != 0 || always) *Key(key) += std::to_string(value);
  }
  template <typename Moment>
  void Time(std::string_view key, bool has, const Moment& value) {
    if (has && Sound(value)) AppendQuoted(TimeUtil::ToString(value), Key(key));
  }
  // On one line: a line break in JSON can only stand between tokens.
  void Object(std::string_view key, const std::string& json) {
    std::string* to = Key(key);
    if (json.empty() || !IsJsonObject(json)) {
      *to += "{}";
      return;
    }
    for (const char c : json) *to += c == '\n' || c == '\r' ? ' ' : c;
  }
  // After which its value is appended.
  std::string* Key(std::string_view key) {
    text_ += text_.empty() ? "{\"" : ",\"";
    text_ += key;
    text_ += "\":";
    return &text_;
  }
  std::string Line() && {
    text_ += text_.empty() ? "{}\n" : "}\n";
    return std::move(text_);
  }

 private:
  std::string text_;
};

void AddMiddleware(const v1::Task& task, TaskObject* to) {
  if (task.middleware().empty()) return;
  std::string* list = to->Key("middleware");
  *list += '[';
  for (const std::string& name : task.middleware()) {
    if (list->back() != '[') *list += ',';
    AppendQuoted(name, list);
  }
  *list += ']';
}

void AddPackage(const v1::Task& task, TaskObject* to) {
  if (!task.has_package()) return;
  TaskObject package;
  package.Text("name", task.package().name());
  package.Text("version", task.package().version());
  package.Text("digest", task.package().digest());
  package.Text("worker", task.package().worker());
  std::string line = std::move(package).Line();
  line.pop_back();
  *to->Key("package") += line;
}

// In the order of the message.
void AddFields(const v1::Task& task, bool all, TaskObject* to) {
  to->Text("namespace", task.namespace_());
  to->Text("instance", task.instance());
  to->Text("machine", task.machine());
  to->Number("version", task.version());
  to->Text("node", task.node());
  if (task.visit() != 0) to->Text("visit", std::to_string(task.visit()));
  to->Number("attempt", task.attempt());
  to->Text("claim", task.claim());
  to->Time("deadline", task.has_deadline(), task.deadline());
  to->Text("action", task.action());
  to->Text("queue", task.queue());
  to->Text("event", task.event());
  to->Text("phase", task.phase());
  AddMiddleware(task, to);
  AddPackage(task, to);
  to->Time("runTimeout", task.has_run_timeout(), task.run_timeout());
  if (task.dry_run() || all) *to->Key("dryRun") += task.dry_run() ? "true" : "false";
  to->Time("beginBy", task.has_begin_by(), task.begin_by());
  to->Number("tries", task.tries(), all);
  to->Number("triesLimit", task.tries_limit(), all);
  to->Text("traceparent", task.traceparent());
  to->Object("instanceParams", task.instance_params());
  to->Object("nodeParams", task.node_params());
  to->Object("eventData", task.event_data());
  if (!task.checkpoint().empty()) to->Object("checkpoint", task.checkpoint());
}

std::string LineOf(const v1::Task& task, bool all) {
  TaskObject object;
  AddFields(task, all, &object);
  return std::move(object).Line();
}

}  // namespace

std::string TaskJson(const v1::Task& task) { return LineOf(task, false); }

std::string AgentTaskJson(const v1::Task& task) { return LineOf(task, true); }

}  // namespace dfsmr::cli
