#include "dsrv/wire/triggers.h"

#include <algorithm>

#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/wire/replies.h"
#include "dsrv/wire/schedules.h"

namespace dfsmr {
namespace {

// Of several polls the one that begins next, or the one that fails most.
void ShowPoll(const rows::TriggerRow& row, v1::Trigger* out) {
  if (row.poll.empty()) return;
  const rows::PollRow& poll = *std::ranges::max_element(row.poll, {}, [](const rows::PollRow& one) {
    return std::pair(one.failures, -Micros(one.next));
  });
  out->set_poll_cursor(poll.cursor);
  const bool begins = poll.running == 0 && !row.paused && !row.deleted;
  if (begins) ToProto(poll.next, out->mutable_next_poll());
  if (poll.last != Timestamp()) ToProto(poll.last, out->mutable_last_poll());
  out->set_poll_failures(poll.failures);
  out->set_poll_error(poll.error);
}

void ShowSource(const DocumentVersion& version, v1::Trigger* out) {
  const auto& source = *std::get<std::shared_ptr<const TriggerSource>>(version.document->body);
  out->set_summary(Summary(source));
  if (source.launch.start()) {
    out->set_machine(source.launch.start()->machine);
    out->set_overlap(std::string(Name(source.launch.overlap)));
  }
  for (const ItemSource& one : source.on) {
    if (!one.webhook() || !out->webhook_path().empty()) continue;
    out->set_webhook_path("/hooks/" + version.ns + "/" + one.webhook()->path);
  }
}

}  // namespace

v1::Schedule::State StateOf(const rows::TriggerRow& row) {
  if (row.deleted) return v1::Schedule::ENDED;
  return row.paused ? v1::Schedule::PAUSED : v1::Schedule::ACTIVE;
}

Result<Ok> ShowTrigger(const Moment& moment, const TriggerView& view, const CursorOf& cursor,
                       v1::Trigger* out) {
  const DocumentVersion& version = view.definition;
  const rows::TriggerRow& row = view.row;
  out->set_namespace_(version.ns);
  out->set_name(version.document->name);
  out->set_version(version.version);
  out->set_source(version.document->source);
  out->set_description(version.document->description);
  ToProto(version.define_time, out->mutable_define_time());
  out->set_state(StateOf(row));
  out->set_note(row.note);
  out->set_paused_by(row.paused_by);
  if (row.paused) ToProto(row.pause_time, out->mutable_pause_time());
  ShowSource(version, out);
  out->set_occurrences(view.occurrences.count);
  out->set_filtered(row.filtered);
  out->set_duplicates(row.duplicates);
  out->set_gathered(row.gathered);
  out->set_open_gatherings(view.open_gatherings);
  out->set_failed(view.occurrences.failed);
  out->set_dead_letters_lost(view.occurrences.lost);
  out->set_failures_in_a_row(row.failures);
  out->set_running(view.counts.running);
  out->set_waiting(view.counts.waiting);
  if (view.listens) {
    if (!view.positions.empty()) out->set_cursor(cursor(view.positions));
    out->set_lag(view.lag);
  }
  ShowPoll(row, out);
  if (!view.last) return Ok{};
  return ShowOccurrence(moment, {version.ns, DocumentKind::kTrigger, version.document->name},
                        *view.last, out->mutable_last());
}

}  // namespace dfsmr
