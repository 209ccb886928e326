// Groups in the messages of dfsmr.v1.
#pragma once

#include <string>
#include <utility>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/engine/groups.h"

namespace dfsmr {

using GroupId = std::pair<std::string, std::string>;  // namespace, name

// A group has a name as an instance has an id.
Result<Ok> CheckGroup(const std::string& name);

Result<GroupId> ToGroupId(const v1::GetGroupRequest& request);

struct SetGroupCommand {
  GroupId id;
  GroupSettings settings;
};
Result<SetGroupCommand> ToSetGroup(const v1::SetGroupRequest& request);

struct ControlGroupCommand {
  GroupId id;
  GroupControl control;
};
Result<ControlGroupCommand> ToControlGroup(const v1::ControlGroupRequest& request);

struct GroupQuery {
  std::string ns;
  InstanceState state = InstanceState::kNone;
  std::string schedule;
  size_t limit = 0;
  std::string filters;  // that the page token is valid for
  std::string after;
};
Result<GroupQuery> ToGroupQuery(const v1::ListGroupsRequest& request);

void ToProto(const GroupView& view, v1::Group* out);

}  // namespace dfsmr
