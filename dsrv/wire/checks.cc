#include "dsrv/wire/checks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dsrv/wire/json_syntax.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// What a Timestamp may be: from the begin of the year 1 to the end of 9999.
constexpr int64_t kSecondsMin = -62'135'596'800;
constexpr int64_t kSecondsMax = 253'402'300'799;

// Follows the depth of a document without building it, so that hostile nesting costs nothing.
class JsonGuard : public nlohmann::json::json_sax_t {
 public:
  bool object() const { return object_; }
  bool too_deep() const { return too_deep_; }
  const std::string& problem() const { return problem_; }
  bool beyond_double() const { return beyond_double_; }

  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(int64_t) override { return Scalar(); }
  bool number_unsigned(uint64_t) override { return Scalar(); }
  bool number_float(double, const std::string&) override { return Scalar(); }
  bool string(std::string&) override { return Scalar(); }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(true); }
  bool key(std::string&) override { return true; }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    problem_ = error.what();
    constexpr int kNumberOverflow = 406;  // in the parser's list of errors
    beyond_double_ = error.id == kNumberOverflow;
    return false;
  }

 private:
  bool Scalar() { return true; }
  bool Open(bool object) {
    if (depth_ == 0) object_ = object;
    too_deep_ = ++depth_ > limits::kJsonDepth;
    return !too_deep_;
  }
  bool Close() {
    --depth_;
    return true;
  }
  size_t depth_ = 0;
  bool object_ = false;
  bool too_deep_ = false;
  bool beyond_double_ = false;
  std::string problem_;
};

// Whether it is JSON. A number that no double holds is as good as any other.
bool Follow(const std::string& text, JsonGuard* guard) {
  if (nlohmann::json::sax_parse(text, guard)) return true;
  if (!guard->beyond_double()) return false;
  *guard = JsonGuard();
  return nlohmann::json::sax_parse(json::Bounded(text), guard);
}

}  // namespace

Error Bad(std::string message) {
  return {Code::kInvalidArgument, Reason::kBadRequest, std::move(message)};
}

Error TooLarge(std::string_view what, size_t is, size_t limit) {
  return {Code::kInvalidArgument, Reason::kTooLarge,
          std::string(what) + " is " + std::to_string(is) + " long; the limit is " +
              std::to_string(limit)};
}

// Times before 1970 become 1970.
Result<Timestamp> ToTimestamp(std::string_view what, const google::protobuf::Timestamp& t) {
  if (t.seconds() < kSecondsMin || t.seconds() > kSecondsMax || t.nanos() < 0 ||
      t.nanos() > 999'999'999) {
    return Bad(std::string(what) + " is not between the years 1 and 9999");
  }
  if (t.seconds() < 0) return Timestamp();
  return FromMicros(t.seconds() * 1'000'000 + t.nanos() / 1'000);
}

Result<Duration> ToDuration(std::string_view what, const google::protobuf::Duration& d,
                            Duration most) {
  if (d.seconds() < 0 || d.nanos() < 0) return Bad(std::string(what) + " must not be negative");
  if (d.nanos() > 999'999'999) {
    return Bad(std::string(what) + " is no duration: its nanos are " + std::to_string(d.nanos()) +
               ", and 999999999 are the most; whole seconds go into its seconds");
  }
  if (d.seconds() > most.count() / 1'000'000) return most;
  return std::min(most, Duration(d.seconds() * 1'000'000 + d.nanos() / 1'000));
}

Result<Ok> CheckAnyJson(std::string_view what, const std::string& text, bool object) {
  if (text.size() > limits::kJson) return TooLarge(what, text.size(), limits::kJson);
  // Ten times as fast as the parser that says what is wrong.
  if (IsJson(text, limits::kJsonDepth) && (!object || json::KindOf(text) == json::Kind::kObject)) {
    return Ok{};
  }
  JsonGuard guard;
  const bool whole = Follow(text, &guard);
  if (guard.too_deep()) {
    return Error{
        Code::kInvalidArgument, Reason::kTooLarge,
        std::string(what) + " nests deeper than " + std::to_string(limits::kJsonDepth) + " levels"};
  }
  if (whole && (guard.object() || !object)) return Ok{};
  std::string problem = guard.problem();
  if (const size_t at = problem.find("] "); at != std::string::npos) problem.erase(0, at + 2);
  return Error{Code::kInvalidArgument, object ? Reason::kBadParams : Reason::kBadRequest,
               std::string(what) + (whole ? " must be a JSON object, {\"key\": value, ...}"
                                          : " is not JSON: " + OneLine(problem))};
}

Result<Ok> CheckJson(std::string_view what, const std::string& text) {
  return text.empty() ? Result<Ok>(Ok{}) : CheckAnyJson(what, text, /*object=*/true);
}

Result<Ok> CheckName(std::string_view what, const std::string& name) {
  if (name.size() > limits::kName) return TooLarge(what, name.size(), limits::kName);
  if (auto problem = NameProblem(what, name)) return Bad(*problem);
  return Ok{};
}

// A filter: a name, or nothing. One that nothing is called yet is fine.
Result<Ok> CheckFilter(std::string_view what, const std::string& name) {
  return name.empty() ? Result<Ok>(Ok{}) : CheckName(what, name);
}

// Nodes of compiled plans are names joined by '/'.
Result<Ok> CheckNode(std::string_view what, const std::string& name) {
  if (name == "/start" || name == "/end") return Ok{};  // of a plan itself
  if (name.size() > 8 * limits::kName) return TooLarge(what, name.size(), 8 * limits::kName);
  Result<Ok> checked = Ok{};
  for (size_t begin = 0; checked && !name.empty() && begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    if (!ValidName(part)) checked = CheckName(what, part.empty() ? name : part);
    begin = end + 1;
  }
  return checked;
}

Result<Ok> Required(std::string_view what, const std::string& name) {
  if (name.empty()) return Bad("'" + std::string(what) + "' is empty; it must be given");
  return CheckName(what, name);
}

Result<Ok> CheckWorker(std::string_view what, const std::string& name) {
  if (name.empty() || ValidWorkerName(name)) return Ok{};
  const size_t characters = Characters(name);
  if (characters > limits::kWorkerName) return TooLarge(what, characters, limits::kWorkerName);
  return Bad(std::string(what) + " has characters that cannot be printed");
}

Result<Ok> CheckText(std::string_view what, const std::string& text, size_t most) {
  const size_t characters = Characters(text);
  if (characters > most) return TooLarge(what, characters, most);
  return Ok{};
}

Result<Ok> CheckLabels(const google::protobuf::Map<std::string, std::string>& labels) {
  if (labels.size() > limits::kLabels) {
    return TooLarge("the list of labels", labels.size(), limits::kLabels);
  }
  for (const auto& label : labels) {
    auto checked = All([&] { return CheckName("label", label.first); },
                       [&] {
                         return CheckText("the value of label " + Quoted(label.first), label.second,
                                          limits::kLabelValue);
                       });
    if (!checked) return checked;
  }
  return Ok{};
}

Result<Ok> CheckSession(const std::string& session) {
  if (session.empty() || ValidWorkerName(session)) {
    return CheckText("session", session, limits::kSessionName);
  }
  return Bad("session: expected 1 to " + std::to_string(limits::kSessionName) +
             " printable characters");
}

Result<Ok> CheckCheckpoint(const std::string& checkpoint) {
  if (checkpoint.size() > limits::kCheckpoint) {
    return TooLarge("checkpoint", checkpoint.size(), limits::kCheckpoint);
  }
  return CheckJson("checkpoint", checkpoint);
}

Result<std::string> ToNamespace(const std::string& given) {
  if (given.empty()) return std::string("default");
  auto checked = CheckName("namespace", given);
  if (!checked) return checked.error();
  return given;
}

Result<Ok> CheckInstanceId(const std::string& id) {
  if (id.size() > limits::kInstanceId)
    return TooLarge("the instance id", id.size(), limits::kInstanceId);
  if (ValidInstanceId(id)) return Ok{};
  if (id.empty()) return Bad("which instance? 'instance' is empty");
  return Bad("instance id " + Quoted(id) + " must be printable ASCII without spaces");
}

Result<Ok> CheckBatch(int items, std::string_view what) {
  if (items <= static_cast<int>(limits::kBatchItems)) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kTooLarge,
               std::to_string(items) + " " + std::string(what) + " in one request; the limit is " +
                   std::to_string(limits::kBatchItems)};
}

}  // namespace dfsmr
