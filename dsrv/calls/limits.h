// ListLimits, GetLimit and SetLimit of ScheduleService.
#pragma once

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/limit_views.h"

namespace dfsmr {

struct ListLimitsCommand {
  LimitQuery query;
  std::string filters;
};
Result<ListLimitsCommand> ParseListLimits(const v1::ListLimitsRequest& request, const Call&);
Result<std::vector<LimitView>> RunListLimits(Engine& engine, const Caller&,
                                             ListLimitsCommand& command);
void ReplyListLimits(const std::vector<LimitView>& views, const ListLimitsCommand& command,
                     v1::ListLimitsResponse* reply);

struct GetLimitCommand {
  std::string ns;
  std::string key;
  std::string after;
  std::string filters;
  size_t limit = 0;
};
Result<GetLimitCommand> ParseGetLimit(const v1::GetLimitRequest& request, const Call&);
Result<LimitView> RunGetLimit(Engine& engine, const Caller&, GetLimitCommand& command);
void ReplyGetLimit(const LimitView& view, const GetLimitCommand& command, v1::Limit* reply);

struct SetLimitCommand {
  std::string ns;
  std::string key;
  LimitChange change;
};
Result<SetLimitCommand> ParseSetLimit(const v1::SetLimitRequest& request, const Call& call);
Result<LimitView> RunSetLimit(Engine& engine, const Caller&, SetLimitCommand& command);
void ReplySetLimit(const LimitView& view, const SetLimitCommand&, v1::Limit* reply);

}  // namespace dfsmr
