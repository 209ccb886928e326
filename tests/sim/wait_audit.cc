#include "tests/sim/wait_audit.h"

#include <algorithm>
#include <cstdlib>

namespace dfsmr {
namespace {

constexpr Duration kSoon = std::chrono::seconds(2);  // an engine's clock is not quite the world's

std::string HomeOfWait(const std::string& node) {
  for (const char* suffix : {"/error", "/suspended"}) {
    if (node.ends_with(suffix)) return node.substr(0, node.rfind('/'));
  }
  return node;
}

// What the simulator's worker has asked for.
std::optional<Duration> DurationIn(const std::string& note, const std::string& word) {
  const size_t at = note.find(word);
  if (at == std::string::npos) return std::nullopt;
  return Duration(std::strtoll(note.c_str() + at + word.size(), nullptr, 10));
}

// From here on it is known what it waits for: it enters its graph, goes on after a stop or pause,
// or some of it has been told to end.
bool Begins(const Event& event) {
  using enum ChangeKind;
  const bool ends = event.kind == kSkipped && event.transition != "skip";
  return event.node == "/start" || ends || event.kind == kCancelled || event.kind == kResumed ||
         event.kind == kFinished || event.transition == "cancel";
}

}  // namespace

WaitAudit::WaitAudit(const PlanGraph& graph, Timestamp now, Expect expect)
    : graph_(graph), now_(now), expect_(std::move(expect)) {}

void WaitAudit::Check(const Instance& instance, const std::vector<Event>& history) {
  id_ = instance.id;
  if (instance.Cancelling()) return;
  size_t begin = history.size();
  while (begin > 0 && !Begins(history[begin - 1])) --begin;
  if (begin == 0) return;
  for (size_t i = begin; i < history.size(); ++i) {
    Take(history[i], i + 1 < history.size() ? &history[i + 1] : nullptr);
  }
  End(instance);
}

void WaitAudit::Take(const Event& event, const Event* next) {
  using enum ChangeKind;
  const bool moves = event.kind == kTransitioned || event.kind == kSuspended ||
                     event.kind == kWoken;
  if (!moves) return;
  const std::string home = HomeOfWait(event.node);
  const std::string from = HomeOfWait(event.prev_node);
  if (from != home) {
    if (event.left_visit != 0) open_.erase(from);
    if (event.visit != 0) open_[home] = {.visit = event.visit};
    return;
  }
  const auto known = open_.find(home);
  if (known == open_.end()) return;
  Open& open = known->second;
  if (event.note == "waits until the step suspends") {
    open.inbox.emplace_back(event.transition, event.params);
    return;
  }
  if (event.left_visit == 0) return;
  if (event.kind == kWoken) return Woken(event, home, &open);
  Reported(event, home, &open);
  open.visit = event.visit;
  open.poll = open.suspended = false;
  if (event.transition == "retry") open.failures = open.polls = 0;
  if (event.node.ends_with("/suspended")) Suspended(event, next, home, &open);
}

// Errors of polls in a row.
void WaitAudit::Reported(const Event& event, const std::string& home, Open* open) {
  if (!open->poll || event.left_visit != open->visit) return;
  const StepAction* action = ActionOf(home);
  if (event.transition == "suspend") open->failures = 0;
  if (event.transition != "error" || !action || !action->poll) return;
  ++open->failures;
  const bool held = event.node.ends_with("/error");
  const bool fatal = event.note.find("for good") != std::string::npos;
  const bool most = open->failures >= action->poll->max_failures;
  if (event.answer) {
    expect_(held == (most || fatal), home + " of " + id_ + (held ? " has failed" : " goes on") +
                                         " after " + std::to_string(open->failures) +
                                         " errors of polls in a row");
  }
}

void WaitAudit::Suspended(const Event& event, const Event* next, const std::string& home,
                          Open* open) {
  open->suspended = true;
  open->since = event.time;
  open->children = open->children || event.note.find("children") != std::string::npos;
  open->wake_after = DurationIn(event.note, "wakes in ");
  open->retry_after = DurationIn(event.note, "again in ");
  const bool wakes = next && next->kind == ChangeKind::kWoken && HomeOfWait(next->node) == home;
  if (open->inbox.empty()) return;
  const auto [word, data] = open->inbox.front();
  open->inbox.pop_front();
  expect_(wakes && next->transition == word && next->params == data,
          home + " of " + id_ + " suspends, and is not given " + word + " " + data +
              ", which came first");
}

std::optional<std::pair<std::string, Duration>> WaitAudit::FirstOf(const StepAction& action,
                                                                   const Open& open) const {
  if (open.children) return std::nullopt;
  std::optional<std::pair<std::string, Duration>> first;
  if (open.wake_after) {
    first = {"wake", *open.wake_after};
  } else if (action.poll) {
    const size_t last = action.poll->intervals.size() - 1;
    const size_t at = std::min<size_t>(open.polls / std::max(action.poll->per_interval, 1u), last);
    first = {"poll", action.poll->intervals[at]};
  }
  const bool fixed = action.timeout.strategy == TimeoutPolicy::Strategy::kFixed;
  const bool limited = fixed && action.timeout.value > 0;
  const Duration limit(static_cast<int64_t>(limited ? action.timeout.value * 1e6 : 0));
  if (limited && (!first || limit < first->second)) first = {"timeout", limit};
  if (first && first->first == "poll" && open.retry_after) first->second = *open.retry_after;
  return first;
}

void WaitAudit::Woken(const Event& event, const std::string& home, Open* open) {
  const StepAction* action = ActionOf(home);
  const bool itself = event.transition == "wake" || event.transition == "poll" ||
                      event.transition == "timeout";
  if (itself && action && open->suspended && event.client.empty()) {
    const auto first = FirstOf(*action, *open);
    expect_(!first || first->first == event.transition,
            home + " of " + id_ + " is woken by " + event.transition + ", and " +
                (first ? first->first : "") + " came first");
  }
  open->visit = event.visit;
  open->suspended = false;
  open->poll = event.transition == "poll";
  if (open->poll) ++open->polls;
}

// What is due has come.
void WaitAudit::End(const Instance& instance) {
  if (instance.state != InstanceState::kRunning || instance.Cancelling()) return;
  for (const auto& [home, open] : open_) {
    const StepAction* action = ActionOf(home);
    const auto first = action ? FirstOf(*action, open) : std::nullopt;
    const bool late = open.suspended && first && now_ > open.since + first->second + kSoon;
    expect_(!late, home + " of " + id_ + " is not woken by " + (first ? first->first : ""));
  }
}

const StepAction* WaitAudit::ActionOf(const std::string& home) const {
  const auto step = std::ranges::find(graph_.steps, home, &Step::path);
  return step == graph_.steps.end() ? nullptr : &graph_.actions[step->action];
}

}  // namespace dfsmr
