#include "dcli/commands/schedules.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "dcli/call/pages.h"
#include "dcli/commands/clock.h"
#include "dcli/commands/commands.h"
#include "dcli/commands/occurrences.h"
#include "dcli/commands/sources.h"
#include "dcli/commands/wait.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

using PlannedTimes = google::protobuf::RepeatedPtrField<v1::PlannedTime>;

constexpr int kLastShown = 5;
constexpr int kNextShown = 10;

std::vector<std::string> ScheduleRow(const v1::Schedule& schedule, const Look& look) {
  const bool occurred = schedule.has_last();
  return {schedule.name(),
          std::to_string(schedule.version()),
          v1::Schedule::State_Name(schedule.state()),
          When(schedule.next_time(), look),
          occurred ? When(schedule.last().time(), look) : "",
          occurred ? OutcomeText(schedule.last()) : "",
          std::to_string(schedule.running()),
          schedule.summary()};
}

template <typename Rows>
void PrintSchedules(Context& context, const Rows& schedules) {
  Table table({"SCHEDULE", "VERSION", "STATE", "NEXT", "LAST", "OUTCOME", "RUNNING", "TIMES"});
  for (const v1::Schedule& one : schedules) table.Add(ScheduleRow(one, context.look));
  table.Print(context.out, context.look);
}

int PrintScheduleLine(Context& context, const v1::Schedule& schedule) {
  if (context.Print(schedule)) return kSucceeded;
  if (context.names()) {
    context.out << schedule.name() << '\n';
  } else {
    PrintSchedules(context, std::vector<v1::Schedule>{schedule});
  }
  return kSucceeded;
}

void PrintPlanned(Context& context, const PlannedTimes& times) {
  Table table({"TIME", "LOCAL", "BEGINS", "NOTE"});
  for (const v1::PlannedTime& one : times) {
    table.Add({TimeText(one.time()), one.local(), TimeText(one.begin()), one.note()});
  }
  table.Print(context.out, context.look);
}

v1::GetScheduleRequest GetScheduleOf(const Context& context, const std::string& name) {
  v1::GetScheduleRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(name);
  return request;
}

// Lists and descriptions --------------------------------------------------------------------------

int ListSchedules(Context& context) {
  v1::ListSchedulesRequest request;
  request.set_namespace_(context.name_space);
  request.set_page_size(1'000);
  const auto all = AllPages(request, [&context](const auto& one) {
    return context.client->schedules().ListSchedules(one);
  });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Schedule& one : all->schedules()) context.out << one.name() << '\n';
  } else if (all->schedules_size() > 0) {
    PrintSchedules(context, all->schedules());
  } else {
    context.Note("there is no schedule");
  }
  return kSucceeded;
}

void DescribeSchedule(Context& context, const v1::Schedule& one) {
  Description lines;
  lines.Add("Schedule", one.name() + " v" + std::to_string(one.version()));
  lines.Add("Description", one.description());
  lines.Add("State", v1::Schedule::State_Name(one.state()));
  lines.Add("Note", one.note());
  lines.Add("Paused by", one.paused_by());
  lines.Add("Paused", TimeText(one.pause_time()));
  lines.Add("Times", one.summary());
  lines.Add("Timezone", one.timezone());
  lines.Add("Starts", one.machine());
  lines.Add("Overlap", one.overlap());
  lines.Add("Next", TimeText(one.next_time()));
  lines.Add("Begins", TimeText(one.next_begin()));
  lines.Add("Occurrences", std::to_string(one.occurrences()));
  lines.Add("Failures", std::to_string(one.failures_in_a_row()) + " in a row");
  lines.Add("Running", std::to_string(one.running()));
  lines.Add("Waiting", std::to_string(one.waiting()));
  lines.Add("Defined", TimeText(one.define_time()));
  lines.Print(context.out, context.look);
}

int ShowSchedule(Context& context, const std::string& name) {
  const auto schedule = context.client->schedules().GetSchedule(GetScheduleOf(context, name));
  if (!schedule) return context.Fail(schedule.error());
  if (context.Print(*schedule)) return kSucceeded;
  if (context.names()) return PrintScheduleLine(context, *schedule);
  DescribeSchedule(context, *schedule);
  context.out << '\n';
  PrintPlanned(context, schedule->upcoming());
  const auto last = ListOccurrences(context, {.name = name}, {}, kLastShown);
  if (!last) return context.Fail(last.error());
  if (last->occurrences_size() == 0) return kSucceeded;
  context.out << '\n';
  PrintOccurrences(context, last->occurrences());
  return kSucceeded;
}

// NAME or a file with one schedule.
int PreviewNext(Context& context, const SchedulesOptions& options) {
  const std::string& subject = options.words[0];
  v1::PreviewScheduleRequest request;
  request.set_namespace_(context.name_space);
  request.set_count(options.count == 0 ? kNextShown : options.count);
  std::error_code ignored;
  const bool file = subject == "-" || std::filesystem::exists(subject, ignored);
  if (file) {
    const auto sources = ReadSources({subject});
    if (!sources) return context.FailUsage(sources.error());
    if (sources->size() != 1)
      return context.FailUsage(BadUsage("next takes one file, or a schedule"));
    if (const auto wrong = Unsendable(sources->front()); !wrong.empty()) {
      return context.FailUsage(BadUsage(Format(wrong.front())));
    }
    request.set_source(sources->front().text);
  } else {
    request.set_name(subject);
  }
  if (!options.after.empty()) {
    const auto after = ParseServerTime(context, options.after);
    if (!after) return context.FailUsage(after.error());
    *request.mutable_after() = ToProto(*after);
  }
  const auto preview = context.client->schedules().PreviewSchedule(request);
  if (!preview) return context.Fail(preview.error());
  if (context.Print(*preview)) return kSucceeded;
  if (context.names()) {
    for (const auto& one : preview->times()) context.out << TimeText(one.time()) << '\n';
  } else {
    PrintPlanned(context, preview->times());
  }
  if (preview->times_size() == 0) context.Note("there are no more times");
  return kSucceeded;
}

// By hand -----------------------------------------------------------------------------------------

// What a run has come to: its instance, as `start` prints it.
int PrintScheduleRun(Context& context, const v1::Occurrence& occurrence) {
  if (context.Print(occurrence)) return kSucceeded;
  if (context.names()) {
    context.out << occurrence.instance() << '\n';
    return kSucceeded;
  }
  v1::GetInstanceRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(occurrence.instance());
  const auto instance = context.client->GetInstance(request);
  if (!instance) return context.Fail(instance.error());
  PrintInstance(context.out, *instance, context.look,
                occurrence.outcome() == v1::Occurrence::EXISTS ? "it was there already" : "");
  return kSucceeded;
}

int AwaitRun(Context& context, EndOfInstances& end, const v1::Occurrence& occurrence,
             Canceller* canceller) {
  v1::StartResponse started;
  started.mutable_instance()->set_namespace_(context.name_space);
  started.mutable_instance()->set_id(occurrence.instance());
  const auto ended = end.Await({started}, canceller);
  if (!ended) {
    if (ended.error().code != Code::kCancelled) return context.Fail(ended.error());
    context.Note("what was started goes on: dcli show " + occurrence.instance());
    return kInterrupted;
  }
  if (!context.names() && !context.Print(ended->front())) {
    PrintInstance(context.out, ended->front(), context.look);
  }
  return ended->front().result() == v1::Instance::SUCCESS ? kSucceeded : kRefused;
}

int RunSchedule(Context& context, const SchedulesOptions& options) {
  v1::RunScheduleRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.words[0]);
  const auto params = ParseParams(options.params, {options.words.begin() + 1, options.words.end()});
  if (!params) return context.FailUsage(params.error());
  request.set_params(*params);
  request.set_overlap(options.overlap);
  Canceller canceller;
  std::optional<Interrupts> interrupts;
  EndOfInstances end(context);
  if (options.wait) {
    interrupts.emplace([&canceller](int) { canceller.Cancel(); });
    const auto schedule =
        context.client->schedules().GetSchedule(GetScheduleOf(context, request.name()));
    if (!schedule) return context.Fail(schedule.error());
    const auto begun = end.Begin(schedule->machine());
    if (!begun && Unreached(begun.error())) return context.Fail(begun.error());
  }
  const auto occurrence = context.client->schedules().RunSchedule(request);
  if (!occurrence) return context.Fail(occurrence.error());
  if (occurrence->outcome() == v1::Occurrence::FAILED) {
    context.Print(*occurrence);
    return context.Fail(kRefused, occurrence->error());
  }
  if (!options.wait) return PrintScheduleRun(context, *occurrence);
  if (context.names()) context.out << occurrence->instance() << '\n';
  return AwaitRun(context, end, *occurrence, &canceller);
}

Result<v1::BackfillScheduleRequest> BackfillRequest(const Context& context,
                                                    const SchedulesOptions& options) {
  v1::BackfillScheduleRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.words[0]);
  if (options.from.empty() || options.to.empty()) return BadUsage("backfill needs --from and --to");
  request.set_from_time(options.from);
  request.set_to_time(options.to);
  const auto number = [](const std::string& text, std::string_view flag) -> Result<long> {
    char* end = nullptr;
    const long value = std::strtol(text.c_str(), &end, 10);
    if (!text.empty() && *end == '\0') return value;
    return BadUsage(std::string(flag) + " takes a number, not \"" + text + "\"");
  };
  if (!options.max_running.empty()) {
    const auto max = number(options.max_running, "--max-running");
    if (!max) return max.error();
    if (*max < 0) return BadUsage("--max-running must not be negative");
    request.set_max_running(static_cast<uint32_t>(*max));
  }
  if (!options.priority.empty()) {
    const auto priority = number(options.priority, "--priority");
    if (!priority) return priority.error();
    request.set_priority(static_cast<int32_t>(*priority));
  }
  request.set_again(options.again);
  request.set_reverse(options.reverse);
  request.set_dry_run(options.dry_run);
  return request;
}

int BackfillSchedule(Context& context, const SchedulesOptions& options) {
  const auto request = BackfillRequest(context, options);
  if (!request) return context.FailUsage(request.error());
  if (options.dry_run && options.wait) {
    return context.FailUsage(BadUsage("--wait has nothing to wait for in a dry run"));
  }
  const auto reply = context.client->schedules().BackfillSchedule(*request);
  if (!reply) return context.Fail(reply.error());
  if (options.dry_run) {
    if (context.Print(*reply)) return kSucceeded;
    if (context.names()) {
      for (const auto& one : reply->times()) context.out << TimeText(one.time()) << '\n';
    } else {
      PrintPlanned(context, reply->times());
    }
    context.Note(std::to_string(reply->total()) + " would run; " +
                 std::to_string(reply->existing()) + " are there already");
    return kSucceeded;
  }
  const std::string group = reply->group().name();
  if (!options.wait) {
    if (context.Print(*reply)) return kSucceeded;
    context.Note(std::to_string(reply->total()) + " will run; " +
                 std::to_string(reply->existing()) + " are there already");
    return Groups(context, {.action = "show", .name = group});
  }
  context.Note("group " + group + ": " + std::to_string(reply->total()) + " will run");
  if (reply->total() == 0) return Groups(context, {.action = "show", .name = group});
  return Groups(context, {.action = "wait", .name = group});
}

int PauseSchedule(Context& context, const SchedulesOptions& options, bool paused) {
  const auto reply = SetPaused(context, {.name = options.words[0]}, paused, options.note);
  return reply ? PrintScheduleLine(context, reply->schedule()) : context.Fail(reply.error());
}

int DeleteSchedule(Context& context, const std::string& name) {
  const auto schedule = context.client->schedules().GetSchedule(GetScheduleOf(context, name));
  if (!schedule) return context.Fail(schedule.error());
  v1::DeleteDefinitionRequest request;
  request.set_namespace_(context.name_space);
  request.set_schedule(name);
  const auto reply = context.client->schedules().DeleteDefinition(request);
  if (!reply) return context.Fail(reply.error());
  context.Note("schedule " + name + " is deleted; what it started goes on");
  return PrintScheduleLine(context, *schedule);
}

int ActOnSchedule(Context& context, const SchedulesOptions& options) {
  const std::string& action = options.action;
  const OccurrencesOf of{.name = options.words[0]};
  const std::vector<std::string> ids(options.words.begin() + 1, options.words.end());
  if (action == "next") return PreviewNext(context, options);
  if (action == "run") return RunSchedule(context, options);
  if (action == "backfill") return BackfillSchedule(context, options);
  if (action == "show") return ShowSchedule(context, of.name);
  if (action == "history") return PrintHistory(context, of, options.outcomes, options.limit);
  if (action == "retry" || action == "drop") {
    if (ids.empty() != options.all) {
      return context.FailUsage(BadUsage("say which: ID..., or --all"));
    }
    return RetryOccurrences(context, of, ids, options.all, action == "drop");
  }
  if (action == "pause" || action == "resume") return PauseSchedule(context, options, action == "pause");
  return DeleteSchedule(context, of.name);
}

}  // namespace

int Schedules(Context& context, const SchedulesOptions& options) {
  static constexpr std::array<std::string_view, 10> kActions = {
      "next", "run", "backfill", "show", "history", "retry", "drop", "pause", "resume", "delete"};
  if (options.action.empty()) return ListSchedules(context);
  const bool acts = std::ranges::find(kActions, options.action) != kActions.end();
  if (!acts && options.words.empty()) return ShowSchedule(context, options.action);
  if (!acts) {
    return context.FailUsage(
        BadUsage("schedules does not know \"" + options.action + "\"" +
                 DidYouMean(options.action, {kActions.begin(), kActions.end()})));
  }
  if (options.words.empty()) {
    return context.FailUsage(
        BadUsage("schedules " + options.action +
                 " needs the NAME of a schedule; one that is called so itself is "
                 "shown by: schedules show " +
                 options.action));
  }
  const bool many = options.action == "run" || options.action == "retry" || options.action == "drop";
  if (!many && options.words.size() > 1) {
    return context.FailUsage(
        BadUsage("schedules " + options.action + " does not take \"" + options.words[1] + "\""));
  }
  return ActOnSchedule(context, options);
}

}  // namespace dfsmr::cli
