// What stands on dcli's command line, and what commands of `dcli work` print. The first byte says
// which.
#include "dcli/commands/sources.h"
#include "dcli/text/json.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/work/task_json.h"
#include "dcli/work/verdict.h"
#include "fsm/base/names.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/quiet.h"

namespace dfsmr::cli {
namespace {

void Times(std::string_view text) {
  const Timestamp now = FromMicros(1'700'000'000'000'000);
  const auto duration = ParseDuration(text);
  if (duration) Check(*duration >= Duration::zero(), "no duration is negative");
  if (duration) Check(!DurationText(*duration).empty(), "a duration has a text");
  const auto time = ParseTime(text, now);
  if (!time) return;
  (void)FromProto(ToProto(*time));
  const auto again = ParseTime(TimeText(*time), now);
  Check(again && Micros(*again) / 1'000 == Micros(*time) / 1'000, "a time is read from its text");
}

void Params(Bytes bytes) {
  const std::string_view params = bytes.Line();
  std::vector<std::string> pairs;
  while (!bytes.empty() && pairs.size() < 20) pairs.emplace_back(bytes.Line());
  const auto object = ParseParams(params, pairs);
  if (object) Check(object->empty() || IsJsonObject(*object), "params are a JSON object");
  google::protobuf::Map<std::string, std::string> labels;
  (void)ParseLabels(pairs, &labels);
}

void Words(std::string_view text) {
  const std::string escaped = Escaped(text);
  Check(!InvalidUtf8(escaped), "escaped text is UTF-8");
  Check(std::none_of(escaped.begin(), escaped.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }),
        "escaped text has no control characters");
  for (const size_t columns : {size_t{1}, size_t{7}}) {
    Check(Columns(Shortened(escaped, columns)) <= columns, "shortened text fits");
  }
  (void)ParseMachineRef(text);
  (void)ParseEnum(v1::Instance::State_descriptor(), text, "state");
  (void)DidYouMean(text, {"start", "cancel"});
}

void Json(std::string_view text) {
  Check(IsJson(JsonString(text)), "quoted text is JSON");
  if (!InvalidUtf8(text)) Check(Unquoted(JsonString(text)) == text, "and says what the text says");
  if (!IsJson(text)) return;
  (void)YamlOf(text);
  if (!IsJsonObject(text)) return;
  auto members = Members(text);
  for (const Member& member : members) Check(IsJson(member.value), "a member's value is JSON");
  Check(IsJsonObject(ObjectOf(members)), "members make an object");
}

void Report(Bytes bytes) {
  const int status = bytes.Byte() << 8 | bytes.Byte();
  const std::string_view out = bytes.Line();
  const Verdict verdict = VerdictOf(status, out, bytes.Rest());
  Check(verdict.params.empty() || IsJsonObject(verdict.params), "reported params are an object");
  Check(verdict.output.empty() || IsJsonObject(verdict.output), "a reported output is an object");
}

void Task(std::string_view bytes) {
  v1::Task task;
  if (!task.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  // What the server sends is an object, or nothing.
  for (std::string* field : {task.mutable_instance_params(), task.mutable_node_params(),
                             task.mutable_event_data()}) {
    if (!IsJsonObject(*field)) field->clear();
  }
  Check(IsJsonObject(TaskJson(task)), "a task is given as a JSON object");
}

}  // namespace
}  // namespace dfsmr::cli

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr::cli;
  dfsmr::Bytes bytes(data, size);
  switch (bytes.Below(6)) {
    case 0: Times(bytes.Rest()); break;
    case 1: Params(bytes); break;
    case 2: Words(bytes.Rest()); break;
    case 3: Json(bytes.Rest()); break;
    case 4: Report(bytes); break;
    default: Task(bytes.Rest());
  }
  return 0;
}
