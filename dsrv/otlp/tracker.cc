#include "dsrv/otlp/tracker.h"

#include <utility>

#include "dsrv/trace/span.h"

namespace dfsmr::otlp {
namespace {

constexpr std::string_view kTimeout = "dfsmr.timeout";

std::string KeyOf(const Event& event) { return event.ns + '\0' + event.instance; }

bool Opens(ChangeKind kind) {
  return kind == ChangeKind::kStarted || kind == ChangeKind::kTransitioned ||
         kind == ChangeKind::kSuspended || kind == ChangeKind::kWoken;
}

// Nodes of plans at which nothing is done and nobody waits.
bool PassedThrough(std::string_view node) {
  return node.ends_with("/gate") || node.ends_with("/start") || node.ends_with("/end");
}

}  // namespace

Span Tracker::SpanBy(const Known& known, const Event& event, uint64_t visit, uint32_t attempt) {
  Span span;
  span.trace = known.trace->id;
  span.id = SpanId({event.ns, event.instance, visit, attempt});
  span.parent = visit == 0     ? known.trace->parent
                : attempt == 0 ? known.own
                               : SpanId({event.ns, event.instance, visit, 0});
  span.end = event.time;
  span.attributes = {{"namespace", event.ns},
                     {"instance", event.instance},
                     {"machine", event.machine},
                     {"version", uint64_t{event.version}}};
  if (visit != 0) span.attributes.emplace_back("visit", visit);
  return span;
}

void Tracker::EndAttempt(const Known& known, uint64_t visit, uint32_t attempt, const Event& event,
                         const End& end, std::vector<Span>* spans) {
  const Visit& at = known.visits.at(visit);
  const Attempt& made = at.attempts.at(attempt);
  if (!spans) return;
  Span span = SpanBy(known, event, visit, attempt);
  span.name = at.node + " attempt";
  span.begin = made.begin;
  span.attributes.emplace_back("node", at.node);
  span.attributes.emplace_back("attempt", uint64_t{attempt});
  span.attributes.emplace_back("worker", made.worker);
  if (!end.transition.empty()) span.attributes.emplace_back("transition", end.transition);
  if (end.timed_out) span.attributes.emplace_back("timed_out", true);
  if (!end.error.empty()) span.attributes.emplace_back("error", end.error);
  span.failed = end.timed_out || !end.error.empty();
  span.error = end.timed_out ? "timed out" : end.error;
  spans->push_back(std::move(span));
}

void Tracker::EndVisit(Known& known, uint64_t number, const Event& event, const End& end,
                       std::vector<Span>* spans) {
  Visit& visit = known.visits.at(number);
  while (!visit.attempts.empty()) {  // it has been overtaken by what ends the visit
    const uint32_t attempt = visit.attempts.begin()->first;
    const bool stopped = event.kind == ChangeKind::kFinished;
    const char* why = stopped ? "its instance has stopped" : "another has ended the visit";
    EndAttempt(known, number, attempt, event, {"", why}, spans);
    visit.attempts.erase(attempt);
  }
  const bool passed = !visit.worked && visit.begin == event.time && PassedThrough(visit.node);
  if (spans && !passed) {
    Span span = SpanBy(known, event, number, 0);
    span.name = visit.node;
    span.begin = visit.begin;
    span.attributes.emplace_back("node", visit.node);
    const std::string queue = past_.QueueOf(event, visit.node);
    if (!queue.empty()) span.attributes.emplace_back("queue", queue);
    if (!end.transition.empty()) span.attributes.emplace_back("transition", end.transition);
    const bool result = event.kind == ChangeKind::kFinished;
    if (result) span.attributes.emplace_back("result", event.note.substr(0, event.note.find(':')));
    span.failed = !end.error.empty();
    span.error = end.error;
    spans->push_back(std::move(span));
  }
  known.visits.erase(number);
}

// The record tells that the visit is over, and how.
void Tracker::Leave(Known& known, uint64_t number, const Event& event, std::vector<Span>* spans) {
  const auto found = known.visits.find(number);
  if (found == known.visits.end()) return;
  const bool failed =
      event.transition == "error" || event.transition == kTimeout || !event.error_kind.empty();
  End end{event.transition, failed ? (event.note.empty() ? event.transition : event.note) : ""};
  auto& attempts = found->second.attempts;
  // Who has reported it; a plan's records name the worker alone.
  auto reporter = attempts.find(event.attempt);
  for (auto at = attempts.begin(); event.attempt == 0 && event.answer && at != attempts.end();
       ++at) {
    if (at->second.worker == event.client || reporter == attempts.end()) reporter = at;
  }
  if (reporter != attempts.end()) {
    EndAttempt(known, number, reporter->first, event, end, spans);
    attempts.erase(reporter);
  }
  EndVisit(known, number, event, end, spans);
}

void Tracker::ApplyToVisit(Known& known, const Event& event, std::vector<Span>* spans) {
  const auto found = known.visits.find(event.visit);
  if (event.kind == ChangeKind::kClaimed) {
    Visit& visit = known.visits[event.visit];
    if (visit.node.empty()) visit = {event.time, event.node, {}};
    visit.worked = true;
    visit.attempts[event.attempt] = {event.time, event.client};
    return;
  }
  if (found == known.visits.end()) return;
  if (event.kind == ChangeKind::kSkipped) {
    return EndVisit(known, event.visit, event, {event.transition}, spans);
  }
  End end;
  switch (event.kind) {
    case ChangeKind::kTimedOut:
      end.timed_out = true;
      break;
    case ChangeKind::kRelinquished:
    case ChangeKind::kRefused:
    case ChangeKind::kAbandoned:
      end.error = event.kind == ChangeKind::kAbandoned ? "abandoned" : "given back";
      if (!event.note.empty()) end.error += ": " + event.note;
      break;
    default:
      return;
  }
  if (end.timed_out) known.timed_out = event.visit;
  if (!found->second.attempts.contains(event.attempt)) return;
  EndAttempt(known, event.visit, event.attempt, event, end, spans);
  found->second.attempts.erase(event.attempt);
}

void Tracker::Finish(Known& known, const Event& event, std::vector<Span>* spans) {
  const std::string result = event.note.substr(0, event.note.find(':'));
  while (!known.visits.empty()) {
    EndVisit(known, known.visits.begin()->first, event, {}, spans);
  }
  if (!spans) return;
  Span span = SpanBy(known, event, 0, 0);
  span.name = event.machine;
  span.begin = known.begin;
  span.attributes.emplace_back("result", result);
  span.failed = result == "ERROR" || result == "ABORTED";
  if (span.failed) span.error = event.note;
  spans->push_back(std::move(span));
}

void Tracker::Apply(Known& known, const Event& event, std::vector<Span>* spans) {
  if (known.begin == Timestamp()) known.begin = event.time;
  if (event.kind == ChangeKind::kFinished) return Finish(known, event, spans);
  if (event.left_visit != 0) {
    Leave(known, event.left_visit, event, spans);
  } else if (event.kind == ChangeKind::kTransitioned && event.prev_node == kTimeout) {
    Leave(known, std::exchange(known.timed_out, 0), event, spans);
  } else if (event.kind == ChangeKind::kUpgraded) {
    while (!known.visits.empty()) {
      EndVisit(known, known.visits.begin()->first, event, {"dfsmr.upgraded"}, spans);
    }
  }
  if (event.visit == 0) return;
  if (!Opens(event.kind)) return ApplyToVisit(known, event, spans);
  Visit& visit = known.visits[event.visit];
  if (visit.node.empty()) visit.begin = event.time;
  visit.node = event.node;  // it may have been led on from a node that takes no more visits
}

Tracker::Known& Tracker::Recall(const Event& event, std::vector<Span>* spans) {
  const std::string key = KeyOf(event);
  const bool first = event.kind == ChangeKind::kStarted || event.kind == ChangeKind::kScheduled;
  if (!first && (untraced_.contains(key) || old_untraced_.contains(key))) return none_;
  auto found = young_.find(key);
  // Another instance may have had this id before.
  if (found != young_.end() && (found->second.trace || !first)) return found->second;
  if (found == young_.end() && young_.size() >= options_.remembered) {
    old_ = std::exchange(young_, {});
  }
  Known& known = young_[key];
  if (auto before = old_.extract(key); !before.empty() && before.mapped().trace) {
    return known = std::move(before.mapped());
  }
  known = {};
  const auto origin = past_.OriginOf(event);
  if (!origin || !origin->trace.sampled) {
    young_.erase(key);
    if (untraced_.size() >= options_.remembered) old_untraced_ = std::exchange(untraced_, {});
    untraced_.insert(key);
    return none_;
  }
  untraced_.erase(key);
  old_untraced_.erase(key);
  known.trace = origin->trace;
  known.own = SpanId({event.ns, event.instance});
  if (origin->first_seq == event.seq) return known;
  for (const Event& one : past_.Before(event)) {
    const bool again = one.seq <= options_.known_to && one.time >= options_.again_from;
    Apply(known, one, again ? spans : nullptr);
  }
  return known;
}

void Tracker::Take(const Event& event, std::vector<Span>* spans) {
  if (event.instance.empty() || event.kind == ChangeKind::kOccurred) return;
  Known& known = Recall(event, spans);
  if (!known.trace) return;
  Apply(known, event, spans);
  if (event.kind == ChangeKind::kFinished) young_.erase(KeyOf(event));
}

}  // namespace dfsmr::otlp
