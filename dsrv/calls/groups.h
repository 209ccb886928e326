// ListGroups, GetGroup, SetGroup and ControlGroup of ScheduleService.
#pragma once

#include <vector>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/wire/groups.h"

namespace dfsmr {

Result<GroupQuery> ParseListGroups(const v1::ListGroupsRequest& request, const Call&);
Result<std::vector<GroupView>> RunListGroups(Engine& engine, const Caller&, GroupQuery& query);
void ReplyListGroups(const std::vector<GroupView>& views, const GroupQuery& query,
                     v1::ListGroupsResponse* reply);

Result<GroupId> ParseGetGroup(const v1::GetGroupRequest& request, const Call&);
Result<GroupView> RunGetGroup(Engine& engine, const Caller&, GroupId& id);
void ReplyGetGroup(const GroupView& view, const GroupId&, v1::Group* reply);

Result<SetGroupCommand> ParseSetGroup(const v1::SetGroupRequest& request, const Call& call);
Result<GroupView> RunSetGroup(Engine& engine, const Caller&, SetGroupCommand& command);
void ReplySetGroup(const GroupView& view, const SetGroupCommand&, v1::Group* reply);

Result<ControlGroupCommand> ParseControlGroup(const v1::ControlGroupRequest& request,
                                              const Call& call);
Result<GroupView> RunControlGroup(Engine& engine, const Caller&, ControlGroupCommand& command);
void ReplyControlGroup(const GroupView& view, const ControlGroupCommand&, v1::Group* reply);

}  // namespace dfsmr
