#include "dsrv/engine/occurrences.h"

#include <algorithm>
#include <utility>

#include "dsrv/engine/documents.h"
#include "dsrv/engine/measures.h"
#include "dsrv/engine/turn.h"
#include "fsm/base/names.h"
#include "fsm/when/calendar.h"

namespace dfsmr {
namespace {

constexpr size_t kDropsPerPass = 200;

}  // namespace

Error NoSuchOccurrence(const rows::DocumentName& of, std::string_view id) {
  return {Code::kNotFound, Reason::kNoSuchOccurrence,
          std::string(Name(of.kind)) + " " + Quoted(of.name) + " has no occurrence " + Quoted(id)};
}

Result<rows::OccurrenceHead> Occurrences::HeadOf(const rows::DocumentName& of) {
  auto head = rows::GetOccurrenceHead(turn_.reader(), of);
  turn_.Trust(head);
  return head;
}

Result<uint64_t> Occurrences::NextNumber(const rows::DocumentName& of) {
  auto head = HeadOf(of);
  if (!head) return head.error();
  return head->count + 1;
}

// Several runs of one time have ids of their own: 20261123T013000Z, 20261123T013000Z.2, …
Result<std::string> Occurrences::FreeId(const rows::DocumentName& of, const Occurrence& one) {
  if (of.kind == DocumentKind::kTrigger) return std::to_string(one.number);
  const std::string stamp = StampText(one.time);
  std::string id = stamp;
  for (uint64_t run = 2;; ++run) {
    auto taken = rows::FindOccurrence(turn_.reader(), of, id);
    if (!turn_.Trust(taken)) return taken.error();
    if (*taken == 0) return id;
    id = stamp + "." + std::to_string(run);
  }
}

Result<Occurrence> Occurrences::Add(const rows::DocumentName& of, Occurrence one,
                                    uint32_t about_depth) {
  auto head = HeadOf(of);
  if (!head) return head.error();
  one.number = ++head->count;
  if (one.id.empty()) {
    auto id = FreeId(of, one);
    if (!id) return id.error();
    one.id = *std::move(id);
  }
  one.note_time = one.decide_time = turn_.now();
  if (one.outcome != OccurrenceOutcome::kMissed) head->last = one.number;
  if (one.outcome == OccurrenceOutcome::kFailed) ++head->failed;
  if (head->listed == 0 && head->count > 1) {
    auto counted = rows::CountListed(turn_.reader(), of);
    if (!turn_.Trust(counted)) return counted.error();
    head->listed = *counted;
  }
  ++head->listed;
  rows::PutOccurrence(turn_.writer(), of, one, nullptr);
  if (auto dropped = DropSurplus(of, &*head); !dropped) return dropped.error();
  rows::PutOccurrenceHead(turn_.writer(), of, *head);
  Tell(of, one, about_depth);
  return one;
}

Result<Ok> Occurrences::Change(const rows::DocumentName& of, Occurrence one,
                               uint32_t about_depth) {
  auto before = Get(of, one.number);
  if (!before) return before.error();
  if (!*before) return NoSuchOccurrence(of, one.id);
  one.decide_time = turn_.now();
  const bool failed = one.outcome == OccurrenceOutcome::kFailed;
  const bool had_failed = (*before)->outcome == OccurrenceOutcome::kFailed;
  if (failed != had_failed) {
    auto head = HeadOf(of);
    if (!head) return head.error();
    if (failed) ++head->failed;
    if (had_failed && head->failed > 0) --head->failed;
    head->oldest = std::min(head->oldest, one.number);
    rows::PutOccurrenceHead(turn_.writer(), of, *head);
  }
  rows::PutOccurrence(turn_.writer(), of, one, &**before);
  Tell(of, one, about_depth);
  return Ok{};
}

Result<std::optional<Occurrence>> Occurrences::Get(const rows::DocumentName& of,
                                                   uint64_t number) {
  auto one = rows::GetOccurrence(turn_.reader(), of, number);
  turn_.Trust(one);
  return one;
}

Result<std::optional<Occurrence>> Occurrences::Find(const rows::DocumentName& of,
                                                    std::string_view id) {
  auto number = rows::FindOccurrence(turn_.reader(), of, id);
  if (!turn_.Trust(number)) return number.error();
  if (*number == 0) return std::optional<Occurrence>();
  return Get(of, *number);
}

Result<std::vector<std::string>> Occurrences::Failed(const rows::DocumentName& of, size_t limit) {
  auto numbers = rows::ScanFailed(turn_.reader(), of, kKept);
  if (!turn_.Trust(numbers)) return numbers.error();
  std::vector<std::pair<Timestamp, std::string>> failed;  // last try, id
  for (uint64_t number : *numbers) {
    auto one = Get(of, number);
    if (!one) return one.error();
    if (*one) failed.emplace_back((*one)->decide_time, (*one)->id);
  }
  std::ranges::stable_sort(failed, {}, &std::pair<Timestamp, std::string>::first);
  std::vector<std::string> ids;
  for (auto& [time, id] : failed) {
    if (ids.size() == limit) break;
    ids.push_back(std::move(id));
  }
  return ids;
}

Result<Occurrence> Occurrences::ToRetry(const rows::DocumentName& of, std::string_view id) {
  auto one = Find(of, id);
  if (!one) return one.error();
  if (!*one) return NoSuchOccurrence(of, id);
  if ((*one)->outcome == OccurrenceOutcome::kFailed) return **one;
  return Error{Code::kFailedPrecondition, Reason::kNotHeld,
               "occurrence " + Quoted(id) + " is " + std::string(Name((*one)->outcome)) +
                   "; only those that are FAILED are tried again or dropped"};
}

Result<Occurrence> Occurrences::Drop(const rows::DocumentName& of, std::string_view id) {
  auto one = ToRetry(of, id);
  if (!one) return one;
  one->outcome = OccurrenceOutcome::kDropped;
  if (auto changed = Change(of, *one); !changed) return changed.error();
  return *Get(of, one->number).value();
}

void Occurrences::Tell(const rows::DocumentName& of, const Occurrence& one, uint32_t depth) {
  Event event;
  event.kind = ChangeKind::kOccurred;
  event.time = turn_.now();
  event.ns = of.ns;
  event.version = one.version;
  event.instance = one.instance;
  event.note = one.error;
  event.about = Event::About{
      .cause = CauseOf(of.kind, of.name),
      .outcome = std::string(Name(one.outcome)),
      .occurrence = one.id,
      .depth = depth,
  };
  turn_.Append(&event);
  const bool due = of.kind == DocumentKind::kSchedule && one.kind == OccurrenceKind::kRegular;
  measures_.Occurred(event.ns, event.about->cause, event.about->outcome,
                     due ? std::optional(one.decide_time - one.time) : std::nullopt);
}

// Retention -------------------------------------------------------------------------------------

Result<Ok> Occurrences::DropSurplus(const rows::DocumentName& of, rows::OccurrenceHead* head) {
  if (head->listed <= kKept) return Ok{};
  auto oldest = rows::OldestDelivered(turn_.reader(), of, head->oldest, head->count);
  if (!turn_.Trust(oldest)) return oldest.error();
  head->oldest = *oldest != 0 ? *oldest + 1 : head->count;
  if (*oldest != 0) return Forget(of, *oldest, head);
  // All others are dead letters.
  auto letters = rows::ScanFailed(turn_.reader(), of, 1);
  if (!turn_.Trust(letters)) return letters.error();
  return letters->empty() ? Result<Ok>(Ok{}) : Forget(of, letters->front(), head);
}

// Drops one whose turn it is, if it is still there.
Result<Ok> Occurrences::Forget(const rows::DocumentName& of, uint64_t number,
                               rows::OccurrenceHead* head) {
  auto one = Get(of, number);
  if (!one) return one.error();
  if (!*one) return Ok{};
  if ((*one)->outcome == OccurrenceOutcome::kFailed) {
    if (head->failed > 0) --head->failed;
    ++head->lost;
  }
  if (head->listed > 0) --head->listed;
  rows::DropOccurrence(turn_.writer(), of, **one);
  return Ok{};
}

// Of those listed before this turn began, as in Retention: no row appears behind that any more.
void Occurrences::Work() {
  if (turn_.now() < due_) return;
  const Timestamp until = turn_.began() - options_.retention;
  due_ = After(turn_.now(), std::clamp<Duration>(options_.retention / 16, std::chrono::seconds(1),
                                                 std::chrono::minutes(1)));
  if (until <= Timestamp()) return;
  auto listed = rows::ScanListed(turn_.reader(), dropped_up_to_, until, kDropsPerPass);
  if (!turn_.Trust(listed)) return;
  for (const rows::ListedOccurrence& one : *listed) {
    auto head = HeadOf(one.of());
    if (!head) return;
    const uint64_t lost = head->lost;
    if (!turn_.Trust(Forget(one.of(), one.number, &*head))) return;
    head->lost = lost;  // its time was up: nothing is lost that should still be there
    rows::PutOccurrenceHead(turn_.writer(), one.of(), *head);
    dropped_up_to_ = one.at;
  }
  if (listed->size() < kDropsPerPass) return;
  due_ = turn_.now();
  turn_.WantMore();
}

}  // namespace dfsmr
