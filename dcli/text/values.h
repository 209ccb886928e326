// What stands on a command line, as values: durations, times, parameters, names of states.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/map.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"

namespace dfsmr::cli {

// "250ms", "1.5s", "1h30m", "7d". Never negative.
Result<Duration> ParseDuration(std::string_view text);
// RFC 3339, or "+DURATION" from `now`.
Result<Timestamp> ParseTime(std::string_view text, Timestamp now);

// "850ms", "1.50s", "12m30s", "3d4h": two units at most.
std::string DurationText(Duration duration);
// "2026-01-02T03:04:05.678Z".
std::string TimeText(Timestamp time);

// What is wrong with the words of a command.
Error BadUsage(std::string message);

// The number that `flag` was given: 0 or more.
Result<uint32_t> ParseCount(const std::string& flag, const std::string& text);

google::protobuf::Duration ToProto(Duration duration);
google::protobuf::Timestamp ToProto(Timestamp time);
Duration FromProto(const google::protobuf::Duration& duration);
Timestamp FromProto(const google::protobuf::Timestamp& time);

// One JSON object made of `--params` and of KEY=VALUE (a string) or KEY:=JSON arguments, which win.
// Empty when all are missing.
Result<std::string> ParseParams(std::string_view params, const std::vector<std::string>& pairs);
// `text`, if it is one JSON object or empty; else an error that names the flag `what`.
Result<std::string> ParseObject(std::string_view text, std::string_view what);
Result<Ok> ParseLabels(const std::vector<std::string>& pairs,
                       google::protobuf::Map<std::string, std::string>* labels);

// The number of the value of `type` with the name `text`, in upper or lower case. The first value,
// "unspecified", has no name here. `what` is the noun for messages, such as "state".
Result<int> ParseEnum(const google::protobuf::EnumDescriptor* type, std::string_view text,
                      std::string_view what);

struct MachineRef {
  std::string id;
  uint32_t version = 0;  // 0: the latest
  friend bool operator==(const MachineRef&, const MachineRef&) = default;
};
// "crawler" or "crawler@2".
Result<MachineRef> ParseMachineRef(std::string_view text);
// What is to be started: also "etl.load@1.4.0", which is the id then, for the server to understand.
Result<MachineRef> ParseStartRef(std::string_view text);

}  // namespace dfsmr::cli
