#include "dsrv/wire/schedules.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/package_version.h"
#include "dsrv/wire/replies.h"
#include "fsm/yaml/definitions.h"
#include "storage/rows/occurrence.h"
#include "storage/rows/schedule.h"

namespace dfsmr {
namespace {

static_assert(static_cast<int>(OccurrenceKind::kBackfill) == v1::Occurrence::BACKFILL);
static_assert(static_cast<int>(OccurrenceOutcome::kDuplicate) == v1::Occurrence::DUPLICATE);

bool IsSet(Timestamp time) { return time != Timestamp() && time != kNever; }

void ShowNotes(const rows::ScheduleState& state, v1::Schedule* out) {
  out->set_note(state.note);
  out->set_paused_by(state.paused_by);
  if (IsSet(state.pause_time)) ToProto(state.pause_time, out->mutable_pause_time());
  out->set_failures_in_a_row(state.failures);
}

// What the row of one that stands says, and what follows from it.
void ShowState(const rows::ScheduleState& state, const ScheduleTimes& times, Timestamp now,
               size_t upcoming, v1::Schedule* out) {
  const Timestamp passed =
      std::max(state.position, times.NewestBegun(now).value_or(state.position));
  const bool ended = times.Next(passed) == kNever && state.next_time == kNever;
  out->set_state(state.paused ? v1::Schedule::PAUSED
                 : ended      ? v1::Schedule::ENDED
                              : v1::Schedule::ACTIVE);
  if (!state.paused && IsSet(state.next_time)) {
    ToProto(state.next_time, out->mutable_next_time());
    ToProto(state.next_begin, out->mutable_next_begin());
  }
  const Timestamp after = state.paused ? passed : state.position;
  for (const PlannedTime& one : times.Plan(after, upcoming)) ToProto(one, out->add_upcoming());
}

// A package's document has its names as they are written there; these are those that it stands for.
void NameInFull(const Moment& moment, const rows::DocumentName& name, StoredDocument* stored) {
  const std::string& package = stored->text.package;
  if (package.empty()) return;
  stored->document.name = name.name;
  auto* schedule = std::get_if<std::shared_ptr<const ScheduleSource>>(&stored->document.body);
  const LaunchStart* start = schedule ? (*schedule)->launch.start() : nullptr;
  if (!start) return;
  const std::string full = package + "." + start->machine;
  const MachineVersionPtr own = moment.registry.Find(name.ns, full);
  if (!own || !own->package || own->package->package != package) return;
  auto source = std::make_shared<ScheduleSource>(**schedule);
  std::get<LaunchStart>(source->launch.action).machine = full;
  *schedule = std::move(source);
}

Result<Ok> ShowOccurrences(const Moment& moment, const rows::DocumentName& name,
                           v1::Schedule* out) {
  auto head = rows::GetOccurrenceHead(moment.rows, name);
  if (!head) return head.error();
  out->set_occurrences(head->count);
  if (head->last == 0) return Ok{};
  auto last = rows::GetOccurrence(moment.rows, name, head->last);
  if (!last) return last.error();
  return *last ? ShowOccurrence(moment, name, **last, out->mutable_last()) : Result<Ok>(Ok{});
}

}  // namespace

void ToProto(const PlannedTime& planned, v1::PlannedTime* out) {
  ToProto(planned.time, out->mutable_time());
  ToProto(planned.begin, out->mutable_begin());
  out->set_local(planned.local);
  out->set_note(planned.note);
}

void ToProto(const rows::DocumentName& of, const Occurrence& one, v1::Occurrence* out) {
  out->set_id(one.id);
  (of.kind == DocumentKind::kTrigger ? out->mutable_trigger() : out->mutable_schedule())
      ->assign(of.name);
  out->set_version(one.version);
  out->set_kind(static_cast<v1::Occurrence::Kind>(one.kind));
  ToProto(one.time, out->mutable_time());
  if (IsSet(one.until_time)) ToProto(one.until_time, out->mutable_until_time());
  out->set_count(one.count);
  ToProto(one.decide_time, out->mutable_decide_time());
  out->set_outcome(static_cast<v1::Occurrence::Outcome>(one.outcome));
  out->set_error(one.error);
  out->set_instance(one.instance);
  out->set_tries(one.tries);
}

void ToProto(const StartArgs& args, v1::StartRequest* out) {
  out->set_namespace_(args.ns);
  out->set_machine(args.machine);
  out->set_version(args.version);
  out->set_id(args.id);
  out->set_params(args.spec.params);
  out->set_priority(args.priority);
  out->mutable_labels()->insert(args.spec.labels.begin(), args.spec.labels.end());
  if (args.start_before != kNever) ToProto(args.start_before, out->mutable_start_before());
  if (args.provenance) out->set_group(args.provenance->group);
}

void ShowStanding(InstanceState state, InstanceResult result, v1::Occurrence* out) {
  out->set_state(static_cast<v1::Instance::State>(state));
  out->set_result(static_cast<v1::Instance::Result>(result));
}

Result<Ok> ShowOccurrence(const Moment& moment, const rows::DocumentName& of, const Occurrence& one,
                          v1::Occurrence* out) {
  ToProto(of, one, out);
  if (one.instance.empty()) return Ok{};
  auto instance = rows::GetInstance(moment.RowsOf(of.ns, one.instance), {of.ns, one.instance},
                                    moment.resolve);
  if (!instance) {
    return instance.error().code == Code::kNotFound ? Result<Ok>(Ok{}) : instance.error();
  }
  ShowStanding(instance->state, instance->result, out);
  return Ok{};
}

Result<StoredDocument> ReadDocumentOf(const Moment& moment, const FindZone& zones,
                                      const rows::DocumentName& name, uint32_t version,
                                      bool or_retired) {
  auto head = rows::GetDocumentHead(moment.rows, name);
  if (!head) return head.error();
  const bool shown = *head && (!(*head)->deleted || (or_retired && (*head)->retired));
  if (!shown) return NoSuchDocument(name);
  if (version > (*head)->version) return NoSuchDocument(name, version);
  StoredDocument stored{.head = **head, .version = version == 0 ? (*head)->version : version};
  auto text = rows::GetDocumentText(moment.rows, name, stored.version);
  if (!text) return text.error();
  if (!*text) return NoSuchDocument(name, version);
  stored.text = **std::move(text);
  Parsed parsed = ParseStored(stored.text.source, zones);
  if (!parsed.ok() || parsed.documents.size() != 1) {
    return Error{Code::kDataLoss, Reason::kStoreFailed,
                 "the store's " + std::string(Name(name.kind)) + " " + std::string(name.name) +
                     " is not accepted any more" +
                     (parsed.diagnostics.empty() ? "" : ": " + Format(parsed.diagnostics.front()))};
  }
  stored.document = std::move(parsed.documents.front());
  NameInFull(moment, name, &stored);
  return stored;
}

Result<Ok> ShowSchedule(const Moment& moment, const FindZone& zones, const Seen& seen,
                        const rows::DocumentName& name, uint32_t version, size_t upcoming,
                        v1::Schedule* out) {
  auto stored = ReadDocumentOf(moment, zones, name, version, /*or_retired=*/true);
  if (!stored) return stored.error();
  auto state = rows::GetScheduleState(moment.rows, name.ns, name.name);
  if (!state) return state.error();
  if (!*state) return NoSuchDocument(name);
  const ScheduleSource& source = *std::get<0>(stored->document.body);
  out->set_namespace_(std::string(name.ns));
  out->set_name(std::string(name.name));
  out->set_version(stored->version);
  out->set_source(stored->text.source);
  out->set_description(stored->document.description);
  ToProto(stored->text.define_time, out->mutable_define_time());
  out->set_summary(Summary(source.rules));
  out->set_timezone(source.rules.timezone);
  if (source.launch.start()) {
    out->set_machine(source.launch.start()->machine);
    out->set_overlap(std::string(Name(source.launch.overlap)));
  }
  ShowNotes(**state, out);
  if (stored->head.retired) {
    out->set_state(v1::Schedule::ENDED);
  } else {
    // The times to come are those of the version that stands, whichever is shown.
    auto latest = stored->version == stored->head.version
                      ? Result<StoredDocument>(*stored)
                      : ReadDocumentOf(moment, zones, name, 0);
    if (!latest) return latest.error();
    const ScheduleSource& stands = *std::get<0>(latest->document.body);
    ShowState(**state, {*stands.calendar, name.ns, name.name, (*state)->last_time}, seen.now,
              upcoming, out);
  }
  if (auto counts = seen.counts.find(CauseOf(name.kind, name.name)); counts != seen.counts.end()) {
    out->set_running(counts->second.running);
    out->set_waiting(counts->second.waiting);
  }
  return ShowOccurrences(moment, name, out);
}

}  // namespace dfsmr
