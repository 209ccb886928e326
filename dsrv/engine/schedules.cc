#include "dsrv/engine/schedules.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

// With `skip` the newest time is taken if it is not as old as this.
constexpr Duration kSkipped = std::chrono::minutes(1);
constexpr Duration kNoRoomWait = std::chrono::seconds(1);

rows::DocumentName NameOf(const std::string& ns, const std::string& name) {
  return {ns, DocumentKind::kSchedule, name};
}

Timestamp ToSeconds(Timestamp time) {
  return std::chrono::floor<std::chrono::seconds>(time);
}

// What a manual run was given, for a retry: the word for overlap, a line feed, the params.
std::string GivenText(const RunArgs& args) {
  return std::string(args.overlap ? Name(*args.overlap) : "") + "\n" + args.params;
}
void ReadGiven(const std::string& given, LaunchOrder* order) {
  const size_t end = std::min(given.find('\n'), given.size());
  for (size_t i = 0; i < kOverlapWords.size(); ++i) {
    if (kOverlapWords[i] == std::string_view(given).substr(0, end)) {
      order->overlap = static_cast<Overlap>(i);
    }
  }
  if (end < given.size()) order->params = given.substr(end + 1);
}

// The same of a backfill: the group, the suffix and the priority.
std::string GivenText(const BackfillRun& run) {
  return run.group + "\n" + run.suffix + "\n" +
         (run.priority ? std::to_string(*run.priority) : "");
}
void ReadBackfillGiven(const std::string& given, LaunchOrder* order) {
  const size_t first = std::min(given.find('\n'), given.size());
  const size_t second = std::min(given.find('\n', first + 1), given.size());
  order->backfill = true;
  order->group = given.substr(0, first);
  if (first < second) order->id_suffix = given.substr(first + 1, second - first - 1);
  if (second + 1 < given.size()) {
    order->priority = static_cast<int32_t>(std::strtol(given.c_str() + second + 1, nullptr, 10));
  }
}

}  // namespace

// Where it has come to -------------------------------------------------------------------------

Result<Ok> Schedules::Recover() {
  return rows::ScanScheduleStates(
      turn_.reader(),
      [this](std::string_view ns, std::string_view name, const rows::ScheduleState& state) {
        /*mutant recover-schedule-asleep*/ Await(std::string(ns), std::string(name), state); /*end*/
      });
}

Timestamp Schedules::Due() const {
  return due_.empty() ? kNever : std::max(due_.begin()->first, no_room_until_);
}

Result<std::optional<rows::ScheduleState>> Schedules::StateOf(const std::string& ns,
                                                              const std::string& name) {
  auto state = rows::GetScheduleState(turn_.reader(), ns, name);
  turn_.Trust(state);
  return state;
}

Result<Schedules::One> Schedules::Find(const std::string& ns, const std::string& name) {
  auto state = StateOf(ns, name);
  if (!state) return state.error();
  if (!*state || (*state)->deleted) return documents_.WhyGone(NameOf(ns, name));
  auto version = documents_.Find(NameOf(ns, name), (*state)->version);
  if (!version) return version.error();
  return One{ns, **state, *std::move(version)};
}

void Schedules::Await(const std::string& ns, const std::string& name,
                      const rows::ScheduleState& state) {
  if (/*mutant frozen-schedule-runs*/ spaces_.Frozen(ns) /*end*/) return;
  if (state.Awaits()) due_.emplace(state.next_begin, ResidentKey(ns, name));
}

void Schedules::Forget(const std::string& ns, const std::string& name,
                       const rows::ScheduleState& state) {
  if (state.Awaits()) due_.erase({state.next_begin, ResidentKey(ns, name)});
}

// The row as the store has it says where the schedule stands in the queue.
void Schedules::Put(One& one) {
  auto before = StateOf(one.ns, one.name());
  if (!before) return;
  if (*before) Forget(one.ns, one.name(), **before);
  const ScheduleTimes times = one.times();
  one.state.next_time = times.Next(one.state.position);
  one.state.next_begin =
      one.state.next_time == kNever ? kNever : times.Begin(one.state.next_time);
  /*mutant position-not-written*/ rows::PutScheduleState(turn_.writer(), one.ns, one.name(),
                                                         one.state); /*end*/
  Await(one.ns, one.name(), one.state);
}

// Definitions -----------------------------------------------------------------------------------

void Schedules::Defined(const DocumentVersion& version, bool first) {
  const std::string& name = version.document->name;
  if (!first) {
    TakeDue(version.ns, name);
    TakeDelayed(version);
  }
  auto state = StateOf(version.ns, name);
  if (!state) return;
  One one{version.ns, state->value_or(rows::ScheduleState{}), version};
  const LaunchSource& launch = one.source().launch;
  if (first) {
    // What it did before it was deleted stays done; all else begins anew.
    one.state = {.position = one.state.position};
    one.state.paused = launch.paused.has_value();
    one.state.note = launch.paused.value_or("");
    if (launch.paused) one.state.pause_time = version.define_time;
  }
  const std::optional<int64_t>& count = one.source().rules.count;
  one.state.version = version.version;
  one.state.last_time =
      count ? one.source().calendar->LastOfCount((first ? turn_.clock() : version.first_time) +
                                                 Duration(1))
            : kNever;
  // Defining makes up for nothing: what would have begun before now is not taken.
  const Timestamp passed = first ? turn_.clock()
                                 : one.times()
                                       .NewestBegun(turn_.clock() - Duration(1))
                                       .value_or(Timestamp());
  /*mutant version-repeats-time*/ one.state.position = std::max(one.state.position, passed); /*end*/
  taking_.erase(ResidentKey(version.ns, name));
  Put(one);
  limits_.SetOverlap(version.ns, CauseOf(DocumentKind::kSchedule, name), launch.overlap);
}

void Schedules::Deleted(const std::string& ns, const std::string& name) {
  auto state = StateOf(ns, name);
  if (!state || !*state) return;
  Forget(ns, name, **state);
  taking_.erase(ResidentKey(ns, name));
  (*state)->deleted = true;
  rows::PutScheduleState(turn_.writer(), ns, name, **state);
  limits_.SetOverlap(ns, CauseOf(DocumentKind::kSchedule, name), Overlap::kAllow);
  if (deleted_) deleted_(ns, name);
}

Result<Ok> Schedules::SetPaused(const std::string& ns, const std::string& name, bool paused,
                                const std::string& note, const std::string& client) {
  /*mutant pause-drops-due*/ if (paused) TakeDue(ns, name); /*end*/  // they came before it was paused
  auto one = Find(ns, name);
  if (!one) return one.error();
  rows::ScheduleState& state = one->state;
  if (!paused && !state.paused) return Ok{};
  if (paused) {
    if (!state.paused) {
      state.paused_by = client;
      state.pause_time = turn_.now();
    }
    state.note = note;
  } else {
    // While it was paused nothing occurred, and nothing was missed.
    const auto passed = one->times().NewestBegun(turn_.clock());
    /*mutant pause-makes-up*/ state.position =
        std::max(state.position, passed.value_or(Timestamp())); /*end*/
    state.note.clear();
    state.paused_by.clear();
    state.pause_time = {};
    state.failures = 0;
  }
  state.paused = paused;
  taking_.erase(ResidentKey(ns, name));
  Put(*one);
  return Ok{};
}

std::vector<std::string> Schedules::NamesIn(const std::string& ns) {
  std::vector<std::string> names;
  turn_.Trust(rows::ScanDocuments(turn_.reader(), ns, DocumentKind::kSchedule, "",
                                  [&](std::string_view name, const rows::DocumentHead& head) {
                                    if (!head.deleted) names.emplace_back(name);
                                    return true;
                                  }));
  return names;
}

void Schedules::BeforeFreeze(const std::string& ns) {
  for (const std::string& name : NamesIn(ns)) TakeDue(ns, name);
}

void Schedules::FreezeChanged(const std::string& ns) {
  const bool frozen = spaces_.Frozen(ns);
  for (const std::string& name : NamesIn(ns)) {
    auto one = Find(ns, name);
    if (!one) continue;
    Forget(ns, name, one->state);
    taking_.erase(ResidentKey(ns, name));
    if (frozen || one->state.paused) continue;
    // Meanwhile nothing occurred, and nothing was missed.
    const auto passed = one->times().NewestBegun(turn_.clock());
    one->state.position = std::max(one->state.position, passed.value_or(Timestamp()));
    Put(*one);
  }
}

// What is due -----------------------------------------------------------------------------------

bool Schedules::Work() {
  if (Due() > turn_.clock()) return false;
  if (left_ == 0) {
    turn_.WantMore();
    return false;
  }
  --left_;
  if (turn_.NeedsRoom(Room::kAmple)) {
    no_room_until_ = turn_.clock() + kNoRoomWait;
    return false;
  }
  const Waiting first = *due_.begin();
  const auto [ns, name] = SplitKey(first.second);
  auto one = Find(ns, name);
  if (!one) {
    due_.erase(first);
    return true;
  }
  ++fired_;
  if (!TakeOne(*one)) Put(*one);
  if (!one->state.Awaits() || one->state.next_begin != first.first) due_.erase(first);
  return true;
}

void Schedules::TakeDue(const std::string& ns, const std::string& name) {
  if (turn_.NeedsRoom(Room::kAmple)) return;
  for (;;) {
    while (launcher_.TellEnd()) {
    }  // a failure may pause it before the next
    auto state = StateOf(ns, name);
    if (!state || !*state || !(*state)->Awaits() || (*state)->next_begin > turn_.clock()) return;
    auto one = Find(ns, name);
    if (!one || !TakeOne(*one)) return;
  }
}

// One whose time has come, and that only its jitter delays, begins now, unless it waits on under
// what is defined: the version that announced it goes.
void Schedules::TakeDelayed(const DocumentVersion& version) {
  auto one = Find(version.ns, version.document->name);
  const bool delayed = one && one->state.Awaits() && one->state.next_time <= turn_.clock();
  if (!delayed || turn_.NeedsRoom(Room::kAmple)) return;
  const Timestamp time = one->state.next_time;
  One next{version.ns, one->state, version};
  next.state.last_time = kNever;
  const ScheduleTimes times = next.times();
  if (times.Next(time - Duration(1)) == time && times.Begin(time) > turn_.clock()) return;
  Occurrence occurrence{.version = one->version.version, .time = time};
  if (!Launch(*one, std::move(occurrence))) return;
  one->state.position = time;
  Put(*one);
}

bool Schedules::TakeOne(One& one) {
  const ScheduleTimes times = one.times();
  const auto newest = times.NewestBegun(turn_.clock());
  if (!newest || *newest <= one.state.position) return false;
  const auto take = FirstTaken(one, *newest);
  const auto before = take ? times.Previous(*take) : newest;
  if (before && /*mutant missed-told-again*/ *before > one.state.position /*end*/ &&
      !Miss(one, *before)) {
    return false;
  }
  if (take) {
    Occurrence occurrence{.version = one.version.version, .time = *take};
    auto launched = Launch(one, std::move(occurrence));
    if (!launched) return false;
    one.state.position = *take;
  }
  Put(one);
  return true;
}

std::optional<Timestamp> Schedules::FirstTaken(const One& one, Timestamp newest) {
  const ScheduleTimes times = one.times();
  const MissedPolicy& missed = one.source().missed;
  const std::string key = ResidentKey(one.ns, one.name());
  if (auto found = taking_.find(key); found != taking_.end()) {
    const Timestamp until = found->second;
    const Timestamp next = times.Next(one.state.position);
    if (next >= until) taking_.erase(found);
    if (next <= until) return next;
  }
  auto age = [&](Timestamp time) { return turn_.clock() - times.Begin(time); };
  if (age(newest) > missed.window) return std::nullopt;
  if (missed.take == MissedPolicy::Take::kSkip && age(newest) >= kSkipped) return std::nullopt;
  if (missed.take != MissedPolicy::Take::kAll) return newest;
  Timestamp first = newest;
  for (uint32_t taken = 1; taken < missed.max; ++taken) {
    const auto previous = times.Previous(first);
    if (!previous || *previous <= one.state.position || age(*previous) > missed.window) break;
    first = *previous;
  }
  if (first != newest) taking_[key] = newest;
  return first;
}

// All times after its position, up to `until`, are one occurrence.
Result<Ok> Schedules::Miss(One& one, Timestamp until) {
  const ScheduleTimes times = one.times();
  Occurrence missed;
  missed.version = one.version.version;
  missed.time = times.Next(one.state.position);
  missed.until_time = until;
  missed.count = times.Count(one.state.position, until, limits::kMissedCount);
  missed.outcome = OccurrenceOutcome::kMissed;
  auto added = occurrences_.Add(one.document(), std::move(missed));
  if (!added) return added.error();
  one.state.position = until;
  return Ok{};
}

Result<Occurrence> Schedules::Launch(One& one, Occurrence occurrence,
                                     const std::optional<TraceContext>& trace) {
  const bool again = occurrence.number != 0;
  if (!again) {
    auto number = occurrences_.NextNumber(one.document());
    if (!number) return number.error();
    occurrence.number = *number;
  }
  ScheduleMoment moment = MomentOf(one.times(), one.name(), occurrence.kind, occurrence.time,
                                   one.source().calendar->zone());
  moment.last_success = one.state.last_success;
  LaunchOrder order{.ns = one.ns,
                    .cause = CauseOf(DocumentKind::kSchedule, one.name()),
                    .source = one.source().launch,
                    .resolve = ResolverOf(std::move(moment)),
                    .default_id = one.name() + "-" + StampText(occurrence.time),
                    .time = occurrence.time,
                    .occurrence = occurrence.number,
                    .trace = trace};
  if (occurrence.kind == OccurrenceKind::kManual) {
    order.id_suffix = "-run-" + std::to_string(occurrence.number);
    ReadGiven(occurrence.given, &order);
  }
  if (occurrence.kind == OccurrenceKind::kBackfill) ReadBackfillGiven(occurrence.given, &order);
  auto launched = launcher_.Launch(order);
  if (!launched) return launched.error();
  occurrence.outcome = launched->outcome;
  occurrence.error = launched->error;
  occurrence.instance = launched->instance;
  const bool left_out = occurrence.outcome == OccurrenceOutcome::kSkipped;
  if (left_out && occurrence.kind == OccurrenceKind::kManual) {
    return Error{Code::kFailedPrecondition, Reason::kLimitReached, occurrence.error};
  }
  if (again) {
    if (auto changed = occurrences_.Change(one.document(), occurrence); !changed) {
      return changed.error();
    }
    occurrence.decide_time = turn_.now();
  } else {
    auto added = occurrences_.Add(one.document(), std::move(occurrence));
    if (!added) return added;
    occurrence = *std::move(added);
  }
  if (occurrence.kind == OccurrenceKind::kBackfill) return occurrence;
  if (occurrence.outcome == OccurrenceOutcome::kFailed) {
    // One that fails again is the same failure.
    if (!again) Note(one, true, "occurrence " + occurrence.id);
  } else if (occurrence.outcome == OccurrenceOutcome::kSent && !launched->elsewhere) {
    Note(one, false, "");
  }
  return occurrence;
}

void Schedules::LaunchDecided(const std::string& ns, const std::string& name, uint64_t number,
                              const Launched& launched) {
  auto one = Find(ns, name);
  if (!one) return;
  auto listed = occurrences_.Get(one->document(), number);
  if (!listed || !*listed) return;
  Occurrence occurrence = **std::move(listed);
  const auto expected = std::tie(occurrence.outcome, occurrence.instance);
  if (expected != std::tie(launched.outcome, launched.instance)) {
    occurrence.outcome = launched.outcome;
    occurrence.error = launched.error;
    occurrence.instance = launched.instance;
    (void)occurrences_.Change(one->document(), occurrence);
  }
  if (occurrence.kind == OccurrenceKind::kBackfill) return;
  const rows::ScheduleState before = one->state;
  const bool again = occurrence.tries > 1;  // one that fails again is the same failure
  if (launched.outcome == OccurrenceOutcome::kFailed && !again) {
    Note(*one, true, "occurrence " + occurrence.id);
  } else if (launched.outcome == OccurrenceOutcome::kSent) {
    Note(*one, false, "");
  }
  if (one->state != before) Put(*one);
}

// By hand ---------------------------------------------------------------------------------------

Result<Occurrence> Schedules::Run(const RunArgs& args) {
  auto one = Find(args.ns, args.name);
  if (!one) return one.error();
  if (args.overlap && one->source().launch.send()) {
    return Error{Code::kInvalidArgument, Reason::kBadRequest,
                 "schedule " + Quoted(args.name) +
                     " sends a transition: overlap is about instances that are started"};
  }
  Occurrence occurrence;
  occurrence.version = one->version.version;
  occurrence.kind = OccurrenceKind::kManual;
  occurrence.time = args.time.value_or(ToSeconds(turn_.clock()));
  occurrence.given = GivenText(args);
  const rows::ScheduleState before = one->state;
  auto launched = Launch(*one, std::move(occurrence), args.trace);
  if (launched && one->state != before) Put(*one);
  return launched;
}

Result<Occurrence> Schedules::Retry(const std::string& ns, const std::string& name,
                                    const std::string& id,
                                    const std::optional<TraceContext>& trace) {
  auto one = Find(ns, name);
  if (!one) return one.error();
  auto occurrence = occurrences_.ToRetry(one->document(), id);
  if (!occurrence) return occurrence;
  occurrence->version = one->version.version;
  ++occurrence->tries;
  const rows::ScheduleState before = one->state;
  auto launched = Launch(*one, *std::move(occurrence), trace);
  if (launched && one->state != before) Put(*one);
  return launched;
}

Result<Occurrence> Schedules::Backfill(const DocumentVersion& version, Timestamp time,
                                       const BackfillRun& run) {
  auto state = StateOf(version.ns, version.document->name);
  if (!state) return state.error();
  One one{version.ns, state->value_or(rows::ScheduleState{}), version};
  Occurrence occurrence;
  occurrence.version = version.version;
  occurrence.kind = OccurrenceKind::kBackfill;
  occurrence.time = time;
  occurrence.given = GivenText(run);
  return Launch(one, std::move(occurrence));
}

// Failures --------------------------------------------------------------------------------------

void Schedules::Note(One& one, bool failed, const std::string& what) {
  rows::ScheduleState& state = one.state;
  if (!failed) {
    /*mutant failures-add-up*/ state.failures = 0; /*end*/
    return;
  }
  ++state.failures;
  const uint32_t most = one.source().launch.stop_on_fail;
  if (most == 0 || state.failures < most || state.paused) return;
  state.paused = true;
  state.paused_by = "stop_on_fail";
  state.pause_time = turn_.now();
  state.note = std::to_string(state.failures) +
               (state.failures == 1 ? " failure" : " failures in a row") + "; the last was " + what;
}

void Schedules::LaunchEnded(const std::string& ns, const std::string& name,
                            const std::string& instance, bool failed, Timestamp time) {
  auto one = Find(ns, name);
  if (!one) return;
  const rows::ScheduleState before = one->state;
  Note(*one, failed, "instance " + instance);
  if (!failed) one->state.last_success = std::max(time, one->state.last_success.value_or(time));
  if (one->state != before) Put(*one);
}

}  // namespace dfsmr
