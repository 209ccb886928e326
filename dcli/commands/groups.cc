#include <algorithm>

#include "dcli/call/pages.h"
#include "dcli/commands/commands.h"
#include "dcli/commands/follow.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

std::string NumberOf(uint64_t n) { return std::to_string(n); }

Table GroupTable(const Context& context) {
  std::vector<std::string> header = {"GROUP",   "STATE", "RESULT", "TOTAL", "WAITING",
                                     "RUNNING", "DONE",  "FAILED", "MAX",   "PROGRESS"};
  if (context.wide()) {
    header.insert(header.end(),
                  {"PAUSED", "CANCELLED", "STOP ON FAIL", "SCHEDULE", "MADE", "NOTE"});
  }
  return Table(header);
}

void AddGroup(Table* table, const Context& context, const v1::Group& group) {
  const uint64_t done =
      group.success() + group.warning() + group.error() + group.cancelled() + group.aborted();
  const bool empty = group.state() == v1::Instance::STATE_UNSPECIFIED;
  std::vector<std::string> row = {group.name(),
                                  empty ? "EMPTY" : NameOf(group.state()),
                                  NameOf(group.result()),
                                  NumberOf(group.total()),
                                  NumberOf(group.scheduled() + group.to_come()),
                                  NumberOf(group.running()),
                                  NumberOf(done),
                                  NumberOf(group.failed()),
                                  group.has_max_running() ? NumberOf(group.max_running()) : "none",
                                  PercentText(group.progress())};
  if (context.wide()) {
    row.insert(row.end(),
               {NumberOf(group.paused_members()), NumberOf(group.cancelled()),
                group.stop_on_fail() > 0 ? NumberOf(group.stop_on_fail()) : "", group.schedule(),
                When(group.create_time(), context.look), group.note()});
  }
  table->Add(std::move(row));
}

void PrintGroup(Context& context, const v1::Group& group) {
  if (context.Print(group)) return;
  if (context.names()) {
    context.out << group.name() << '\n';
    return;
  }
  Table table = GroupTable(context);
  AddGroup(&table, context, group);
  table.Print(context.out, context.look);
  const std::string why = group.note().empty() ? "" : ": " + group.note();
  if (group.paused()) context.Note("group " + group.name() + " is paused" + why);
}

int AnswerGroup(Context& context, const Result<v1::Group>& group) {
  if (!group) return context.Fail(group.error());
  PrintGroup(context, *group);
  return kSucceeded;
}

v1::GetGroupRequest GetRequestOf(const Context& context, const std::string& name) {
  v1::GetGroupRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(name);
  return request;
}

int ListGroups(Context& context) {
  v1::ListGroupsRequest request;
  request.set_namespace_(context.name_space);
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->schedules().ListGroups(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Group& group : all->groups()) context.out << group.name() << '\n';
  } else if (all->groups_size() == 0) {
    context.Note("there is no group here; dcli start --group NAME makes one");
  } else {
    Table table = GroupTable(context);
    for (const v1::Group& group : all->groups()) AddGroup(&table, context, group);
    table.Print(context.out, context.look);
  }
  return kSucceeded;
}

Result<v1::SetGroupRequest> SetRequestOf(const Context& context, const GroupsOptions& options) {
  v1::SetGroupRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  if (options.max_running == "none") {
    request.set_no_max_running(true);
  } else if (!options.max_running.empty()) {
    const auto max = ParseCount("--max-running", options.max_running);
    if (!max) return BadUsage(max.error().message + "; or none");
    request.set_max_running(*max);
  }
  if (!options.stop_on_fail.empty()) {
    const auto failures = ParseCount("--stop-on-fail", options.stop_on_fail);
    if (!failures) return failures.error();
    request.set_stop_on_fail(*failures);
  }
  return request;
}

int SetOne(Context& context, const GroupsOptions& options) {
  const auto request = SetRequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  return AnswerGroup(context, context.client->schedules().SetGroup(*request));
}

int OrderOne(Context& context, const GroupsOptions& options,
             v1::ControlGroupRequest::Action action) {
  v1::ControlGroupRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.name);
  request.set_action(action);
  request.set_members(options.members);
  request.set_note(options.note);
  return AnswerGroup(context, context.client->schedules().ControlGroup(request));
}

int EndedAs(Context& context, const v1::Group& group, const std::string& result) {
  PrintGroup(context, group);
  return result == v1::Instance::Result_Name(v1::Instance::SUCCESS) ? kSucceeded : kRefused;
}

// The feed says when the group has finished. It may have done so before the wait began.
int WaitForOne(Context& context, const std::string& name) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  v1::ChangesRequest request;
  request.set_namespace_(context.name_space);
  const auto stands = context.client->Changes(request, nullptr, [&](const auto& response) {
    request.set_after(response.cursor());
    return true;
  });
  if (!stands) return context.Fail(stands.error());
  auto group = context.client->schedules().GetGroup(GetRequestOf(context, name));
  if (!group) return context.Fail(group.error());
  if (group->state() == v1::Instance::STOPPED) {
    return EndedAs(context, *group, v1::Instance::Result_Name(group->result()));
  }
  const bool empty = group->total() == 0 && group->has_end_time();  // it has ended all the same
  if (empty) return EndedAs(context, *group, v1::Instance::Result_Name(v1::Instance::SUCCESS));
  request.set_follow(true);
  request.add_kinds(v1::Change::GROUP_FINISHED);
  std::string cursor;
  std::string result;
  const auto followed = Follow(context, request, &canceller, &cursor, [&](const auto& response) {
    for (const v1::Change& change : response.changes()) {
      if (change.cause() == "group:" + name) result = change.note();
    }
    return result.empty();
  });
  if (!followed && followed.error().code == Code::kCancelled) {
    context.Note("its members go on: dcli groups " + name);
    return kInterrupted;
  }
  if (!followed) return context.Fail(followed.error());
  group = context.client->schedules().GetGroup(GetRequestOf(context, name));
  return group ? EndedAs(context, *group, result) : context.Fail(group.error());
}

int DoOne(Context& context, const GroupsOptions& options) {
  using Request = v1::ControlGroupRequest;
  const std::string& action = options.action;
  if (action == "show") {
    return AnswerGroup(context,
                       context.client->schedules().GetGroup(GetRequestOf(context, options.name)));
  }
  if (action == "set") return SetOne(context, options);
  if (action == "pause") return OrderOne(context, options, Request::PAUSE);
  if (action == "resume") return OrderOne(context, options, Request::RESUME);
  if (action == "wait") return WaitForOne(context, options.name);
  return OrderOne(context, options,
                  options.kill    ? Request::KILL
                  : options.force ? Request::FORCE
                                  : Request::CANCEL);
}

// Flags that belong to one action only.
Result<Ok> CheckGroupsUsage(const GroupsOptions& options) {
  const std::string& action = options.action;
  const auto only = [&](bool given, const char* flag, bool may) -> Result<Ok> {
    if (!given || may) return Ok{};
    return BadUsage(std::string(flag) + " does not go with groups" +
                    (action.empty() ? "" : " " + action));
  };
  for (const auto& checked :
       {only(!options.max_running.empty(), "--max-running", action == "set"),
        only(!options.stop_on_fail.empty(), "--stop-on-fail", action == "set"),
        only(options.members, "--members", action == "pause" || action == "resume"),
        only(options.force, "--force", action == "cancel"),
        only(options.kill, "--kill", action == "cancel"),
        only(!options.note.empty(), "--note",
             action == "pause" || action == "resume" || action == "cancel")}) {
    if (!checked) return checked;
  }
  return Ok{};
}

}  // namespace

int Groups(Context& context, const GroupsOptions& given) {
  static const std::vector<std::string> kActions = {"set",    "pause", "resume",
                                                    "cancel", "wait",  "show"};
  GroupsOptions options = given;
  const bool acts = std::ranges::find(kActions, options.action) != kActions.end();
  if (!acts && !options.name.empty()) {
    return context.Fail(kBadUsage, "groups does not know \"" + options.action + "\"" +
                                       DidYouMean(options.action, kActions));
  }
  if (acts && options.name.empty()) {
    return context.Fail(kBadUsage, "groups " + options.action +
                                       " needs the NAME of the group; a "
                                       "group of that name is shown by groups show " +
                                       options.action);
  }
  if (!acts && !options.action.empty()) {
    options.name = options.action;
    options.action = "show";
  }
  if (const auto usable = CheckGroupsUsage(options); !usable)
    return context.FailUsage(usable.error());
  return options.action.empty() ? ListGroups(context) : DoOne(context, options);
}

}  // namespace dfsmr::cli
