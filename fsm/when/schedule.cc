#include "fsm/when/schedule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr std::array<std::string_view, 11> kNames = {
    "name", "kind",         "timezone", "time", "unix",         "previous",
    "next", "last_success", "local",    "date", "previous_date"};

std::string UtcOrNull(const std::optional<Timestamp>& time) {
  return time ? json::Quote(UtcText(*time)) : "null";
}

}  // namespace

Timestamp ScheduleTimes::Next(Timestamp after) const {
  const Timestamp next = calendar_.Next(after);
  return next > last_ ? kNever : next;
}

std::optional<Timestamp> ScheduleTimes::Previous(Timestamp before) const {
  return calendar_.Previous(last_ == kNever ? before : std::min(before, last_ + Duration(1)));
}

uint64_t ScheduleTimes::Count(Timestamp after, Timestamp until, uint64_t most) const {
  return calendar_.Count(after, std::min(until, last_), most);
}

Timestamp ScheduleTimes::Begin(Timestamp time) const {
  if (calendar_.jitter() == Duration::zero()) return time;
  return time + JitterOf(ns_, name_, time, Next(time), calendar_.jitter());
}

std::optional<Timestamp> ScheduleTimes::NewestBegun(Timestamp now) const {
  auto newest = Previous(now + Duration(1));
  // Jitter ends before the next time, so that at most the newest one has not begun yet.
  if (newest && Begin(*newest) > now) newest = Previous(*newest);
  return newest;
}

PlannedTime ScheduleTimes::Planned(Timestamp time) const {
  return {time, Begin(time), LocalText(time, calendar_.zone()), calendar_.Note(time)};
}

std::vector<PlannedTime> ScheduleTimes::Plan(Timestamp after, size_t most) const {
  std::vector<PlannedTime> planned;
  for (Timestamp time = Next(after); time != kNever && planned.size() < most; time = Next(time)) {
    planned.push_back(Planned(time));
  }
  return planned;
}

ScheduleMoment MomentOf(const ScheduleTimes& times, std::string_view name, OccurrenceKind kind,
                        Timestamp time, const Zone& zone) {
  ScheduleMoment moment{.name = std::string(name), .kind = kind, .time = time};
  moment.previous = times.Previous(time);
  if (const Timestamp next = times.Next(time); next != kNever) moment.next = next;
  moment.zone = &zone;
  return moment;
}

std::optional<std::string> ScheduleReferenceProblem(const Reference& reference) {
  const std::string& root = reference.parts.front().key;
  if (root != "schedule") {
    return "there is no " + Quoted(root) + " in a schedule; there is ${schedule.time} and its like";
  }
  std::string all;
  for (std::string_view name : kNames) all += (all.empty() ? "" : ", ") + std::string(name);
  if (reference.parts.size() != 2 || reference.parts[1].key.empty()) {
    return "of a schedule there is one of " + all;
  }
  const std::string& key = reference.parts[1].key;
  if (std::ranges::find(kNames, key) != kNames.end()) return std::nullopt;
  return "a schedule has no " + Quoted(key) + Hint(key, kNames) + "; there is " + all;
}

Resolver ResolverOf(ScheduleMoment moment) {
  return [moment = std::move(moment)](const Reference& reference) -> Result<std::string> {
    if (auto problem = ScheduleReferenceProblem(reference)) {
      return Error{Code::kInvalidArgument, Reason::kNone, "${" + reference.text + "}: " + *problem};
    }
    const std::string& key = reference.parts[1].key;
    if (key == "name") return json::Quote(moment.name);
    if (key == "kind") return json::Quote(Name(moment.kind));
    if (key == "timezone") return json::Quote(moment.zone->name());
    if (key == "time") return UtcOrNull(moment.time);
    if (key == "unix") return std::to_string(Micros(moment.time) / 1'000'000);
    if (key == "previous") return UtcOrNull(moment.previous);
    if (key == "next") return UtcOrNull(moment.next);
    if (key == "last_success") return UtcOrNull(moment.last_success);
    if (key == "local") return json::Quote(LocalText(moment.time, *moment.zone));
    if (key == "date") return json::Quote(LocalDateText(moment.time, *moment.zone));
    if (!moment.previous) return std::string("null");
    return json::Quote(LocalDateText(*moment.previous, *moment.zone));
  };
}

}  // namespace dfsmr
