// Schedules: ListSchedules, GetSchedule, PreviewSchedule and RunSchedule of ScheduleService.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/wire/schedules.h"
#include "fsm/when/launch.h"

namespace dfsmr {

struct ListSchedulesCommand {
  std::string ns;
  v1::Schedule::State state = v1::Schedule::STATE_UNSPECIFIED;
  std::string machine;
  size_t limit = 0;
  std::string filters;  // the filters that the page token is valid for
  std::string after;
  FindZone zones;
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
};
Result<ListSchedulesCommand> ParseListSchedules(const v1::ListSchedulesRequest& request,
                                                const Call& call);
Result<Ok> SettleListSchedules(Engine& engine, const Caller&, const ListSchedulesCommand& command);
Result<Ok> ReadListSchedules(const Reader& reader, const ListSchedulesCommand& command,
                             v1::ListSchedulesResponse* reply);

struct GetScheduleCommand {
  std::string ns;
  std::string name;
  uint32_t version = 0;
  FindZone zones;
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
};
Result<GetScheduleCommand> ParseGetSchedule(const v1::GetScheduleRequest& request,
                                            const Call& call);
Result<Ok> SettleGetSchedule(Engine& engine, const Caller&, const GetScheduleCommand& command);
Result<Ok> ReadGetSchedule(const Reader& reader, const GetScheduleCommand& command,
                           v1::Schedule* reply);

void ServePreviewSchedule(Call& call, const v1::PreviewScheduleRequest& request,
                          v1::PreviewScheduleResponse* reply);

struct RunScheduleCommand {
  std::string ns;
  std::string name;
  std::string params;
  std::optional<Overlap> overlap;
  std::optional<Timestamp> time;
  std::optional<TraceContext> trace;
  std::optional<std::pair<InstanceState, InstanceResult>> standing = {};  // of its instance
};
Result<RunScheduleCommand> ParseRunSchedule(const v1::RunScheduleRequest& request,
                                            const Call& call);
Result<Occurrence> RunRunSchedule(Engine& engine, const Caller&, RunScheduleCommand& command);
void ReplyRunSchedule(const Occurrence& occurrence, const RunScheduleCommand& command,
                      v1::Occurrence* reply);

}  // namespace dfsmr
