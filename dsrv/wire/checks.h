// Checks fields of requests against limits.h before they are used. A refusal calls the field
// `what`.
#pragma once

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/map.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <string_view>

#include "fsm/base/limits.h"
#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr {

// As much as a page of a list may hold, so that the rest of the reply has room in a message, too.
constexpr size_t kReplyBytes = limits::kMessage - (64 << 10);

Error Bad(std::string message);  // INVALID_ARGUMENT BAD_REQUEST
Error TooLarge(std::string_view what, size_t is, size_t limit);

// A time before 1970 becomes 1970: it has passed, too.
Result<Timestamp> ToTimestamp(std::string_view what, const google::protobuf::Timestamp& t);
// At most `most`: a longer one is cut to it.
Result<Duration> ToDuration(std::string_view what, const google::protobuf::Duration& d,
                            Duration most);

Result<Ok> CheckJson(std::string_view what, const std::string& text);  // an object, or empty
// Any value, or an object only; not empty.
Result<Ok> CheckAnyJson(std::string_view what, const std::string& text, bool object = false);
Result<Ok> CheckName(std::string_view what, const std::string& name);
// A name, or nothing. Nothing with this name need exist.
Result<Ok> CheckFilter(std::string_view what, const std::string& name);
// A node: in compiled plans, names joined by '/'.
Result<Ok> CheckNode(std::string_view what, const std::string& name);
Result<Ok> Required(std::string_view what, const std::string& name);
Result<Ok> CheckWorker(std::string_view what, const std::string& name);
// A text for people.
Result<Ok> CheckText(std::string_view what, const std::string& text, size_t characters);
// What somebody labels something with: names, and texts of bounded length.
Result<Ok> CheckLabels(const google::protobuf::Map<std::string, std::string>& labels);
// The name of a worker's process, or nothing.
Result<Ok> CheckSession(const std::string& session);
// What a worker leaves for later attempts: a JSON object, or nothing.
Result<Ok> CheckCheckpoint(const std::string& checkpoint);
Result<Ok> CheckInstanceId(const std::string& id);
Result<Ok> CheckBatch(int items, std::string_view what);
// Empty is "default".
Result<std::string> ToNamespace(const std::string& given);

// The first failure of several checks.
template <typename... Checks>
Result<Ok> All(Checks&&... checks) {
  Result<Ok> outcome = Ok{};
  ((outcome.has_value() ? void(outcome = checks()) : void()), ...);
  return outcome;
}

}  // namespace dfsmr
