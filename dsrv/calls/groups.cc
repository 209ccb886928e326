#include "dsrv/calls/groups.h"

#include "dsrv/engine/groups.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {

// Lists and single groups ------------------------------------------------------------------------

Result<GroupQuery> ParseListGroups(const v1::ListGroupsRequest& request, const Call&) {
  return ToGroupQuery(request);
}

// One more than a page holds shows whether there is a next page.
Result<std::vector<GroupView>> RunListGroups(Engine& engine, const Caller&, GroupQuery& query) {
  return engine.groups().List(query.ns, query.state, query.schedule, query.after, query.limit + 1);
}

void ReplyListGroups(const std::vector<GroupView>& views, const GroupQuery& query,
                     v1::ListGroupsResponse* reply) {
  for (const GroupView& view : views) {
    if (reply->groups_size() == static_cast<int>(query.limit)) {
      reply->set_next_page_token(PageToken(query.filters, reply->groups().rbegin()->name()));
      return;
    }
    ToProto(view, reply->add_groups());
  }
}

Result<GroupId> ParseGetGroup(const v1::GetGroupRequest& request, const Call&) {
  return ToGroupId(request);
}

Result<GroupView> RunGetGroup(Engine& engine, const Caller&, GroupId& id) {
  return engine.groups().Get(id.first, id.second);
}

void ReplyGetGroup(const GroupView& view, const GroupId&, v1::Group* reply) {
  ToProto(view, reply);
}

// Changes ----------------------------------------------------------------------------------------

Result<SetGroupCommand> ParseSetGroup(const v1::SetGroupRequest& request, const Call& call) {
  std::string detail;
  if (request.has_max_running()) detail += " max_running " + std::to_string(request.max_running());
  if (request.no_max_running()) detail += " no max_running";
  if (request.has_stop_on_fail()) {
    detail += " stop_on_fail " + std::to_string(request.stop_on_fail());
  }
  call.caller().On(request.name(), detail.empty() ? "" : detail.substr(1));
  auto command = ToSetGroup(request);
  if (command) command->settings.client = call.Peer();
  return command;
}

Result<GroupView> RunSetGroup(Engine& engine, const Caller& caller, SetGroupCommand& command) {
  if (caller.principal()) command.settings.client = caller.principal()->row.id;
  const auto& [ns, name] = command.id;
  if (auto may = engine.namespaces().MayUse(ns); !may) return may.error();
  auto set = engine.groups().Set(ns, name, command.settings);
  if (set) (void)engine.namespaces().Use(ns);
  return set;
}

void ReplySetGroup(const GroupView& view, const SetGroupCommand&, v1::Group* reply) {
  ToProto(view, reply);
}

Result<ControlGroupCommand> ParseControlGroup(const v1::ControlGroupRequest& request,
                                              const Call& call) {
  std::string detail = v1::ControlGroupRequest::Action_IsValid(request.action())
                           ? v1::ControlGroupRequest::Action_Name(request.action())
                           : "";
  if (request.members()) detail += " members";
  call.caller().On(request.name(), detail);
  return ToControlGroup(request);
}

Result<GroupView> RunControlGroup(Engine& engine, const Caller&, ControlGroupCommand& command) {
  return engine.groups().Control(command.id.first, command.id.second, command.control);
}

void ReplyControlGroup(const GroupView& view, const ControlGroupCommand&, v1::Group* reply) {
  ToProto(view, reply);
}

}  // namespace dfsmr
