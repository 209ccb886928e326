#include "dsrv/wire/groups.h"

#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr uint32_t kMaxRunning = 1'000'000;
constexpr size_t kNote = 1'024;

using Action = rows::GroupOrder::Action;
static_assert(static_cast<int>(Action::kPause) == v1::ControlGroupRequest::PAUSE);
static_assert(static_cast<int>(Action::kKill) == v1::ControlGroupRequest::KILL);

template <typename Request>
Result<GroupId> IdOf(const Request& request) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckGroup(request.name());
  if (!checked) return checked.error();
  return GroupId{*std::move(ns), request.name()};
}

}  // namespace

Result<Ok> CheckGroup(const std::string& name) {
  if (ReservedName(name)) {
    return Bad("group " + Quoted(name) + " begins with " + std::string(kSystemPrefix) +
               ", which is reserved: choose another name");
  }
  if (ValidInstanceId(name)) return Ok{};
  return Bad("group " + Quoted(name) +
             " is not a name of a group: 1 to 256 printable ASCII characters without spaces");
}

Result<GroupId> ToGroupId(const v1::GetGroupRequest& request) { return IdOf(request); }

Result<SetGroupCommand> ToSetGroup(const v1::SetGroupRequest& request) {
  auto id = IdOf(request);
  if (!id) return id.error();
  SetGroupCommand command{*std::move(id), {}};
  GroupSettings& settings = command.settings;
  if (request.has_max_running()) {
    if (request.no_max_running()) {
      return Bad("max_running and no_max_running exclude each other: give one of them");
    }
    if (request.max_running() > kMaxRunning) {
      return Bad("max_running is " + std::to_string(request.max_running()) + "; at most " +
                 std::to_string(kMaxRunning) + " are allowed, and no_max_running is no limit");
    }
    settings.max_running = request.max_running();
  }
  settings.no_max_running = request.no_max_running();
  if (request.has_stop_on_fail()) settings.stop_on_fail = request.stop_on_fail();
  return command;
}

Result<ControlGroupCommand> ToControlGroup(const v1::ControlGroupRequest& request) {
  auto id = IdOf(request);
  if (!id) return id.error();
  if (request.action() == v1::ControlGroupRequest::ACTION_UNSPECIFIED ||
      !v1::ControlGroupRequest::Action_IsValid(request.action())) {
    return Bad("action " + std::to_string(request.action()) +
               " is not an action of ControlGroup: PAUSE, RESUME, CANCEL, FORCE or KILL");
  }
  if (Characters(request.note()) > kNote) {
    return TooLarge("the note", Characters(request.note()), kNote);
  }
  ControlGroupCommand command{*std::move(id), {}};
  command.control = {static_cast<Action>(request.action()), request.members(), request.note()};
  return command;
}

Result<GroupQuery> ToGroupQuery(const v1::ListGroupsRequest& request) {
  GroupQuery query;
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  if (!v1::Instance::State_IsValid(request.state())) {
    return Bad("state " + std::to_string(request.state()) + " is not a state of Instance");
  }
  auto checked = CheckFilter("schedule", request.schedule());
  if (!checked) return checked.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  query.ns = *std::move(ns);
  query.state = static_cast<InstanceState>(request.state());
  query.schedule = request.schedule();
  query.limit = *limit;
  query.filters =
      "groups\n" + query.ns + '\n' + std::to_string(request.state()) + '\n' + query.schedule;
  auto after = ParsePageToken(query.filters, request.page_token());
  if (!after) return after.error();
  query.after = *std::move(after);
  return query;
}

void ToProto(const GroupView& view, v1::Group* out) {
  using Kind = MemberShare::Kind;
  const rows::GroupRow& row = view.row;
  const GroupCounts& counts = row.counts;
  const InstanceState state = counts.State(view.to_come);
  out->set_namespace_(view.ns);
  out->set_name(view.name);
  out->set_state(static_cast<v1::Instance::State>(state));
  out->set_result(static_cast<v1::Instance::Result>(counts.Result(view.to_come)));
  if (view.max_running) out->set_max_running(*view.max_running);
  out->set_stop_on_fail(row.stop_on_fail);
  out->set_paused(row.paused);
  out->set_note(row.note);
  out->set_total(counts.Total() + view.to_come);
  out->set_to_come(view.to_come);
  out->set_scheduled(counts.Of(Kind::kScheduled));
  out->set_running(counts.Of(Kind::kRunning));
  out->set_paused_members(counts.Of(Kind::kPaused));
  out->set_success(counts.Of(Kind::kSuccess));
  out->set_warning(counts.Of(Kind::kWarning));
  out->set_error(counts.Of(Kind::kError));
  out->set_cancelled(counts.Of(Kind::kCancelled));
  out->set_aborted(counts.Of(Kind::kAborted));
  out->set_failed(counts.Failed());
  out->set_progress(counts.Progress(view.to_come));
  ToProto(row.create_time, out->mutable_create_time());
  const bool ended =
      state == InstanceState::kStopped ||
      (state == InstanceState::kNone && row.end_time != Timestamp());  // without a member
  if (ended) ToProto(row.end_time, out->mutable_end_time());
  out->set_schedule(row.schedule);
}

}  // namespace dfsmr
