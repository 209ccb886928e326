#include "dsrv/engine/backfills.h"

#include <utility>
#include <vector>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/residents.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "storage/rows/occurrence.h"

namespace dfsmr {
namespace {

rows::DocumentName NameOf(const std::string& ns, const std::string& schedule) {
  return {ns, DocumentKind::kSchedule, schedule};
}

bool FailedOrCancelled(InstanceResult result) {
  return result == InstanceResult::kError || result == InstanceResult::kAborted ||
         result == InstanceResult::kCancelled;
}

bool RunsAgain(const FormerRun& run, Again again) {
  if (!run.stopped) return false;
  return again == Again::kAll || (again == Again::kFailed && FailedOrCancelled(run.result));
}

}  // namespace

Result<std::optional<std::string>> SuffixOf(const ScheduleSource& source,
                                            const ScheduleTimes& times, const std::string& name,
                                            Timestamp time, Again again, const Former& former) {
  using Suffix = std::optional<std::string>;
  const LaunchStart* start = source.launch.start();
  if (!start) {
    if (again == Again::kAll) return Suffix("");
    auto sent = former.sent(time);  // and so has not failed
    if (!sent) return sent.error();
    return *sent ? Suffix() : Suffix("");
  }
  std::string id = name + "-" + StampText(time);
  if (!start->id.empty()) {
    auto moment = MomentOf(times, name, OccurrenceKind::kBackfill, time, source.calendar->zone());
    auto filled = Launcher::IdOf(source.launch, ResolverOf(std::move(moment)));
    if (!filled) return Suffix("");  // the launch says what is wrong
    id = *std::move(filled);
  }
  auto run = former.run(id);
  if (!run) return run.error();
  if (!*run) return Suffix("");
  if (!start->id.empty() || again == Again::kNone) return Suffix();
  // The last one that has run decides.
  std::string suffix;
  for (uint64_t number = 1;; ++number) {
    suffix = "-again-" + std::to_string(number);
    auto later = former.run(id + suffix);
    if (!later) return later.error();
    if (!*later) break;
    run = later;
  }
  return RunsAgain(**run, again) ? Suffix(suffix) : Suffix();
}

Result<Ok> Backfills::Recover() {
  return rows::ScanBackfills(turn_.reader(), [this](std::string_view ns, std::string_view group,
                                                    const rows::BackfillRow& row) {
    groups_.SetToCome(std::string(ns), std::string(group), row.to_come);
  });
}

// A group that is there already may have members that are not the backfill's.
Result<std::string> Backfills::NewGroup(const BackfillArgs& args) {
  if (!args.group.empty()) {
    if (!groups_.Get(args.ns, args.group)) return args.group;
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "group " + Quoted(args.group) + " exists already; choose another one"};
  }
  const std::string name = "backfill-" + args.name + "-" + StampText(turn_.now());
  std::string group = name;
  for (int number = 2; groups_.Get(args.ns, group); ++number) {
    group = name + "." + std::to_string(number);
  }
  return group;
}

Result<GroupView> Backfills::Begin(const BackfillArgs& args) {
  if (auto full = turn_.NeedsRoom(Room::kAmple)) return *std::move(full);
  auto stands = documents_.Stands(NameOf(args.ns, args.name));
  if (!stands) return stands.error();
  if (!*stands) return NoSuchDocument(NameOf(args.ns, args.name));
  auto group = NewGroup(args);
  if (!group) return group.error();
  GroupSettings settings;
  settings.max_running = args.max_running;
  settings.schedule = args.name;
  settings.client = args.client;
  auto made = groups_.Set(args.ns, *group, settings);
  if (!made) return made;
  if (args.total == 0) {
    groups_.EndEmpty(args.ns, *group);
    return groups_.Get(args.ns, *group);
  }
  rows::BackfillRow row{.schedule = args.name,
                        .version = args.version,
                        .from = args.from,
                        .to = args.to,
                        .position = args.reverse ? args.to + Duration(1) : args.from - Duration(1),
                        .reverse = args.reverse,
                        .again = static_cast<uint32_t>(args.again),
                        .priority = args.priority,
                        .to_come = args.total};
  rows::PutBackfill(turn_.writer(), args.ns, *group, row);
  groups_.SetToCome(args.ns, *group, args.total);
  return groups_.Get(args.ns, *group);
}

Result<std::optional<FormerRun>> Backfills::RunOf(const std::string& ns, const std::string& id,
                                                  const std::string& group) {
  const auto run = [&group](const Instance& instance) {
    const bool own = instance.provenance && instance.provenance->group == group;
    return own ? std::nullopt : std::optional(FormerRun{instance.Stopped(), instance.result});
  };
  if (!options_.Has(ns, id)) {
    auto there = residents_.ReadElsewhere(ns, id);
    if (there) return run(*there);
    if (there.error().code == Code::kNotFound) return std::optional<FormerRun>();
    return there.error();
  }
  auto first = residents_.FirstSeqOf(ns, id);
  if (!first) return first.error();
  if (!*first) return std::optional<FormerRun>();
  auto resident = residents_.Load(ns, id);
  if (!resident) return resident.error();
  return run((*resident)->instance);
}

uint64_t Backfills::MakeNext(const std::string& ns, const std::string& group) {
  auto row = rows::GetBackfill(turn_.reader(), ns, group);
  if (!turn_.Trust(row) || !*row) return 0;
  if (turn_.NeedsRoom(Room::kAmple)) return (*row)->to_come;
  auto next = Next(ns, group, &**row);
  if (next && *next && (*row)->to_come > 0) {
    rows::PutBackfill(turn_.writer(), ns, group, **row);
    return (*row)->to_come;
  }
  rows::DropBackfill(turn_.writer(), ns, group);
  return 0;
}

Result<bool> Backfills::Next(const std::string& ns, const std::string& group,
                             rows::BackfillRow* row) {
  auto version = documents_.Find(NameOf(ns, row->schedule), row->version);
  if (!version) return version.error();
  auto state = rows::GetScheduleState(turn_.reader(), ns, row->schedule);
  if (!turn_.Trust(state)) return state.error();
  const ScheduleSource& source = *std::get<0>(version->document->body);
  const ScheduleTimes times(*source.calendar, ns, row->schedule,
                            *state ? (*state)->last_time : kNever);
  const Timestamp time = row->reverse ? times.Previous(row->position).value_or(kNever)
                                      : times.Next(row->position);
  if (time == kNever || time < row->from || time > row->to) return false;
  const Former former{
      [&](const std::string& id) { return RunOf(ns, id, group); },
      [&](Timestamp one) { return rows::WasSent(turn_.reader(), NameOf(ns, row->schedule), one); }};
  auto suffix =
      SuffixOf(source, times, row->schedule, time, static_cast<Again>(row->again), former);
  if (!suffix) return suffix.error();
  row->position = time;
  if (!*suffix) return true;
  auto launched =
      schedules_.Backfill(*version, time, {.group = group, .suffix = **suffix, .priority = row->priority});
  if (!launched) return launched.error();
  if (launched->outcome == OccurrenceOutcome::kStarted && !options_.Has(ns, launched->instance)) {
    groups_.Await(ns, group);
  }
  --row->to_come;
  return true;
}

void Backfills::DropRest(const std::string& ns, const std::string& group) {
  rows::DropBackfill(turn_.writer(), ns, group);
}

void Backfills::DropOf(const std::string& ns, const std::string& schedule) {
  std::vector<std::string> groups;
  auto read = rows::ScanBackfills(turn_.reader(), [&](std::string_view in, std::string_view group,
                                                      const rows::BackfillRow& row) {
    if (in == ns && row.schedule == schedule) groups.emplace_back(group);
  });
  if (!turn_.Trust(read)) return;
  for (const std::string& group : groups) {
    DropRest(ns, group);
    groups_.SetToCome(ns, group, 0);
  }
}

}  // namespace dfsmr
