#include "tests/sim/if_audit.h"

#include <algorithm>
#include <utility>

#include "fsm/base/json.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr Duration kMoments = std::chrono::seconds(2);  // engines' clocks are not the world's
constexpr Duration kTurn = std::chrono::milliseconds(200);

// "s" of s, s/error and s/suspended.
std::string StepHome(const std::string& node) {
  for (const char* suffix : {"/error", "/suspended"}) {
    if (node.ends_with(suffix)) return node.substr(0, node.rfind('/'));
  }
  return node;
}

// What stands between the braces of a template that is one reference and nothing else.
std::optional<std::string> OneReference(const std::string& text) {
  const bool whole = text.starts_with("\"${") && text.ends_with("}\"");
  if (!whole || text.find("${", 3) != std::string::npos) return std::nullopt;
  return text.substr(3, text.size() - 5);
}

// The first key of a path, which loses it: "a", "b", "[1]" of a.b[1].
std::string NextKey(std::string_view* path) {
  if (path->starts_with('.')) path->remove_prefix(1);
  const bool index = path->starts_with('[');
  const size_t keys = std::min(path->find_first_of(".["), path->size());
  const size_t end = index ? path->find(']') + 1 : keys;
  const std::string key(path->substr(0, end));
  path->remove_prefix(end);
  return key;
}

std::optional<std::string> Follow(std::string json, std::string_view path) {
  while (!path.empty()) {
    const std::string key = NextKey(&path);
    const auto found = key.starts_with('[')
                           ? json::Item(json, std::strtoul(key.c_str() + 1, nullptr, 10))
                           : json::Member(json, key);
    if (!found) return std::nullopt;
    json = std::string(*found);
  }
  return json;
}

bool IsNumber(const std::string& value) { return json::KindOf(value) == json::Kind::kNumber; }
bool IsText(const std::string& value) { return json::KindOf(value) == json::Kind::kString; }

// Whether a text or a list has the other in it.
bool Has(const std::string& whole, const std::string& part) {
  if (IsText(whole) && IsText(part)) {
    return json::Unquote(whole).find(json::Unquote(part)) != std::string::npos;
  }
  for (size_t i = 0; json::KindOf(whole) == json::Kind::kArray; ++i) {
    const auto item = json::Item(whole, i);
    if (!item) break;
    if (json::Same(*item, part)) return true;
  }
  return false;
}

}  // namespace

IfAudit::IfAudit(const PlanGraph& graph, Given given, Expect expect)
    : graph_(graph), given_(std::move(given)), expect_(std::move(expect)) {
  before_.resize(graph.places.size());
  for (uint32_t at = 0; at < graph.places.size(); ++at) {
    for (uint32_t next : graph.places[at].next) before_[next].push_back(at);
  }
  for (uint32_t i = 0; i < graph.steps.size(); ++i) index_[graph.steps[i].path] = i;
}

void IfAudit::Check(const Instance& instance, const std::vector<Event>& history) {
  id_ = instance.id;
  patience_ = instance.plan->wait_after_fail;
  // It was planned last before it entered its start.
  size_t begin = history.size();
  while (begin > 0 && history[begin - 1].node != "/start") --begin;
  for (size_t i = begin; i > 0 && i <= history.size(); ++i) {
    const Event* last = i > 1 ? &history[i - 2] : nullptr;
    const Event* next = i < history.size() ? &history[i] : nullptr;
    Take(history[i - 1], last, next);
  }
  if (begin > 0) End(instance);
}

void IfAudit::Take(const Event& event, const Event* last, const Event* next) {
  using enum ChangeKind;
  const bool ends = event.kind == kPaused || event.kind == kFinished || event.transition == "stop";
  const bool was_paused = paused_;
  if (late_ && event.time > late_->first + kTurn) GoesOn();
  if (ends) late_.reset();
  switch (event.kind) {
    case kTransitioned:
    case kSuspended:
    case kWoken:
      if (event.left_visit != 0) Leave(event);
      if (event.visit != 0) Enter(event, next);
      break;
    case kSkipped: Skip(event, last, next); break;
    case kClaimed: Claimed(event); break;
    case kPaused:
      paused_ = true;
      by_hand_ = event.note.empty();  // else it says what has failed, or whom it waits for
      break;
    case kResumed: Resume(event); break;
    case kFinished: Finished(event); break;
    default: break;
  }
  for (auto& [home, stands] : stands_) {
    const bool over = patience_ && event.time >= stands.since + *patience_ - kMoments;
    stands.out_of = stands.out_of || (stands.held && (was_paused || paused_) && over);
  }
}

void IfAudit::Leave(const Event& event) {
  const std::string home = StepHome(event.prev_node);
  if (StepHome(event.node) == home) return;
  stands_.erase(home);
  const auto step = Find(home);
  if (step && event.transition != "skip") fates_[*step] = {StepOutcome::kSucceeded};
}

void IfAudit::Enter(const Event& event, const Event* next) {
  const std::string home = StepHome(event.node);
  if (event.node.ends_with("/error")) {
    stands_[home] = {true, event.time};
    if (const auto step = Find(home)) fates_[*step] = {StepOutcome::kFailed};
    return;
  }
  const auto step = Find(home);
  const bool same = StepHome(event.prev_node) == home;
  if (event.transition == "retry" || event.transition == "resume") finally_ = false;
  if (!step) {  // a gate, the end, or a finalize phase
    const bool finalize = home.ends_with("/finalize");
    if (finalize) stands_[home] = {};
    return;
  }
  if (!same && graph_.ifs.contains(*step)) return Decide(event, *step, next);
  if (StepAt(*step).kind == Step::Kind::kPass) {
    fates_[*step] = {StepAt(*step).left_out ? StepOutcome::kSkipped : StepOutcome::kSucceeded};
    return;
  }
  fates_[*step] = {};
  stands_[home] = {};
}

void IfAudit::Skip(const Event& event, const Event* last, const Event* next) {
  if (event.transition == "end") return;  // its section ends
  stands_.erase(event.node);
  const auto step = Find(event.node);
  if (!step) return;
  if (event.transition == "stop") {
    stopping_ = true;
    fates_[*step] = {StepOutcome::kSkipped, true};
    return;
  }
  const bool stood = next && next->left_visit == event.visit;  // a limit leaves it out
  const bool passed = event.prev_node == event.node && last && last->node == event.node &&
                      last->visit == event.visit && !stood && !graph_.ifs.contains(*step);
  expect_(!passed || doomed_.contains(*step),
          event.node + " of " + id_ + " is skipped, and nothing that it needs was");
  // With `rescue: skip` it goes on at once.
  const bool rescued = event.prev_node.ends_with("/error") && last && last->visit == event.visit &&
                       last->node == event.prev_node && last->left_visit != 0 &&
                       graph_.actions[StepAt(*step).action].rescue == Rescue::kSkip;
  fates_[*step] = {rescued ? StepOutcome::kFailed : StepOutcome::kSkipped};
  Doom(*step, false);
}

// What has failed or was dropped begins anew. One step that is named goes on by itself. Until its
// turn has come it is as good as paused.
void IfAudit::Resume(const Event& event) {
  if (!stopped_ && by_hand_ && !event.node.empty()) return;
  paused_ = event.note.ends_with("it waits its turn");
  by_hand_ = false;
  if (!std::exchange(stopped_, false)) return;
  stopping_ = finally_ = false;
  for (auto& [step, fate] : fates_) {
    if (fate.dropped) fate = {};
  }
}

// ---- What was decided.

void IfAudit::Decide(const Event& event, uint32_t step, const Event* next) {
  const std::string& path = StepAt(step).path;
  const std::string who = "the if of " + path + " of " + id_;
  expect_(decided_.insert(step).second, who + " is decided twice");
  const bool skipped = next && next->kind == ChangeKind::kSkipped && next->node == path &&
                       next->transition == "skip" && next->prev_node == path &&
                       next->visit == event.visit;
  finally_ = finally_ || (AtRest() && (Fails() || stopping_ || patience_));
  unsettled_.clear();
  const auto holds = Holds(*graph_.ifs.at(step).condition);
  expect_(unsettled_.empty(), who + " is decided before " + unsettled_ + " has settled");
  const bool doomed = left_out_.contains(step);
  const std::string text = graph_.ifs.at(step).text;
  if (doomed) expect_(skipped, who + " is inside of what was left out, and runs");
  if (!doomed && holds && unsettled_.empty()) {
    expect_(skipped != *holds, who + (skipped ? " skips it" : " lets it run") + ", and " + text +
                                   " is " + (*holds ? "true" : "false"));
  }
  fates_[step] = {};
  if (!skipped) {
    if (StepAt(step).kind == Step::Kind::kPass) fates_[step] = {StepOutcome::kSucceeded};
    if (StepAt(step).kind != Step::Kind::kPass) stands_[path] = {};
    return;
  }
  fates_[step] = {StepOutcome::kSkipped};
  Doom(step, false);
  for (uint32_t member : graph_.ifs.at(step).members) {
    left_out_.insert(member);
    Doom(member, true);
  }
}

// It is skipped, and all that needs its output.
void IfAudit::Doom(uint32_t step, bool by_if) {
  if (!doomed_.insert(step).second) return;
  for (uint32_t reader : StepAt(step).readers) Doom(reader, by_if);
  for (uint32_t group : StepAt(step).groups) DoomGroup(group, by_if);
}
void IfAudit::DoomGroup(uint32_t group, bool by_if) {
  for (uint32_t reader : graph_.groups[group].readers) Doom(reader, by_if);
  for (uint32_t outer : graph_.groups[group].groups) DoomGroup(outer, by_if);
}

bool IfAudit::AtRest() const {
  return (stopping_ || !stands_.empty()) &&
         std::ranges::all_of(stands_, [](const auto& one) { return one.second.held; });
}

// All that is held wants that the plan fails.
bool IfAudit::Fails() const {
  return std::ranges::all_of(stands_, [this](const auto& one) {
    std::string home = one.first;
    if (home.ends_with("/finalize")) home.resize(home.rfind('/'));
    const auto step = Find(home);
    return step && graph_.actions[StepAt(*step).action].rescue == Rescue::kFail;
  });
}

// What has failed for good runs finally all that its conditions want.
void IfAudit::Finished(const Event& event) {
  stopped_ = true;
  if (stands_.empty() || !event.note.starts_with("ERROR: step ")) return;
  expect_(stopping_ || patience_ || (AtRest() && Fails()),
          id_ + " stops, and not all that is held wants that");
  if (!AtRest() || !Fails()) return;
  for (const auto& [step, decision] : graph_.ifs) {
    expect_(decided_.contains(step) || left_out_.contains(step),
            id_ + " ends, and nobody has decided the if of " + StepAt(step).path);
  }
}

// So long after a failure others begin nothing more, but in the turn in which the time is found to
// be over: what is due is done by its end.
void IfAudit::Claimed(const Event& event) {
  expect_(!by_hand_ || !event.note.empty(),
          event.node + " of " + id_ + " is handed out, and nobody has ended its pause");
  if (!patience_ || paused_ || stopping_ || finally_ || !event.note.empty()) return;
  for (const auto& [home, stands] : stands_) {
    const bool over = stands.held && event.time > stands.since + *patience_ + kMoments;
    if (!over || stands.out_of || late_) continue;
    late_ = {event.time, " goes on at " + event.node + " though " + home + " has failed long ago"};
  }
}

void IfAudit::GoesOn() {
  expect_(!late_, id_ + (late_ ? late_->second : ""));
  late_.reset();
}

void IfAudit::End(const Instance& instance) {
  GoesOn();
  if (instance.Stopped() || instance.Cancelling() || given_.goes_on) return;
  if (!instance.plan->open.empty() || !instance.plan->shut.empty()) return;
  for (const auto& [step, decision] : graph_.ifs) {
    const bool over = decided_.contains(step) || left_out_.contains(step);
    expect_(over || !AllBeforeSettled(step),
            "the if of " + StepAt(step).path + " of " + id_ +
                " is not decided, and all before it have settled");
  }
  if (!patience_ || instance.state != InstanceState::kRunning || stopping_ || finally_) {
    return;
  }
  for (const auto& [home, stands] : stands_) {
    const bool over = stands.held && given_.now > stands.since + *patience_ + kMoments;
    expect_(!over || stands.out_of, id_ + " goes on though " + home + " has failed long ago");
  }
}

bool IfAudit::AllBeforeSettled(uint32_t place) const {
  return std::ranges::all_of(before_[place], [this](uint32_t at) {
    if (graph_.places[at].step == UINT32_MAX) return AllBeforeSettled(at);
    const auto fate = fates_.find(at);
    return fate != fates_.end() && fate->second.outcome != StepOutcome::kNone;
  });
}

// ---- What it says.

std::optional<bool> IfAudit::HoldsList(const Condition& condition) {
  using enum Condition::Kind;
  bool any = false, all = true, known = true;
  for (const Condition& part : condition.parts) {
    const auto holds = Holds(part);
    known = known && holds;
    any = any || holds.value_or(false);
    all = all && holds.value_or(true);
  }
  if (condition.kind == kAll && (known || !all)) return all;
  if (condition.kind == kAny && (known || any)) return any;
  if (condition.kind == kNone && (known || any)) return !any;
  return std::nullopt;
}

std::optional<bool> IfAudit::Holds(const Condition& condition) {
  using enum Condition::Kind;
  if (condition.kind == kAlways) return true;
  if (condition.kind == kValue) return HoldsValue(condition);
  if (condition.kind != kSteps) return HoldsList(condition);
  bool all = true;
  for (const std::string& step : condition.steps) all &= OutcomeOf(step) == condition.outcome;
  return all;
}

std::optional<bool> IfAudit::HoldsValue(const Condition& condition) {
  using enum Condition::Operator;
  const Value value = ValueOf(condition.value);
  if (condition.op == kExists) {
    if (!value.known) return std::nullopt;
    return value.json.has_value() == (condition.operand == "true");
  }
  const Value operand = ValueOf(condition.operand);
  if (!value.known || !operand.known || condition.op == kMatches) return std::nullopt;
  if (!value.json || !operand.json) return condition.op == kNot;
  const std::string& left = *value.json;
  const std::string& right = *operand.json;
  switch (condition.op) {
    case kEquals: return json::Same(left, right);
    case kNot: return !json::Same(left, right);
    case kContains: return Has(left, right);
    case kIn: return Has(right, left);
    default: break;
  }
  if (!IsNumber(left) || !IsNumber(right)) return false;
  const int order = json::CompareNumbers(left, right);
  return condition.op == kGreater ? order > 0 : order < 0;
}

IfAudit::Value IfAudit::ValueOf(const std::string& text) {
  if (const auto reference = OneReference(text)) return ValueAt(*reference);
  return {text.find("${") == std::string::npos, text};
}

// "##12.output.v", "@@3.state", "params.flag".
IfAudit::Value IfAudit::ValueAt(std::string_view reference) {
  const std::string root = NextKey(&reference);
  if (root == "params") return {true, Follow(given_.params, reference)};
  if (!root.starts_with('#') && !root.starts_with('@')) return {false, {}};
  const StepOutcome outcome = OutcomeOf(root);
  const std::string fact = NextKey(&reference);
  if (fact == "state") return {true, json::Quote(Name(outcome))};
  if (fact != "output" || root.starts_with('@')) return {false, {}};
  const uint32_t index = static_cast<uint32_t>(
      std::strtoul(root.c_str() + root.find_first_not_of('#'), nullptr, 10));
  // That it is null says nothing of whether it exists.
  if (outcome != StepOutcome::kSucceeded) return {reference.size() > 0, {}};
  const auto output = given_.outputs.find(StepAt(index).path);
  return {true, Follow(output == given_.outputs.end() ? "{}" : output->second, reference)};
}

StepOutcome IfAudit::OutcomeOf(std::string_view name) {
  const size_t digits = name.find_first_not_of(name.front());
  const auto index =
      static_cast<uint32_t>(std::strtoul(std::string(name.substr(digits)).c_str(), nullptr, 10));
  if (name.front() == '#') return OutcomeOfStep(index);
  size_t steps = 0, skipped = 0;
  const StepOutcome worst = OutcomeOfGroup(index, &steps, &skipped);
  if (worst != StepOutcome::kSucceeded) return worst;
  return steps > 0 && skipped == steps ? StepOutcome::kSkipped : worst;
}

StepOutcome IfAudit::OutcomeOfStep(uint32_t step) {
  using enum StepOutcome;
  if (StepAt(step).left_out) return kSkipped;
  if (const auto fate = fates_.find(step); fate != fates_.end() && fate->second.outcome != kNone) {
    return fate->second.outcome;
  }
  const bool blocked = finally_ && !stands_.contains(StepAt(step).path);
  if (doomed_.contains(step) || blocked) return kSkipped;
  unsettled_ = StepAt(step).path;
  return kNone;
}

// It failed when a step in it did.
StepOutcome IfAudit::OutcomeOfGroup(uint32_t group, size_t* steps, size_t* skipped) {
  using enum StepOutcome;
  StepOutcome worst = kSucceeded;
  for (const Group::Member& member : graph_.groups[group].members) {
    const StepOutcome one = member.group ? OutcomeOfGroup(member.index, steps, skipped)
                                         : OutcomeOfStep(member.index);
    if (one == kFailed || (one == kNone && worst != kFailed)) worst = one;
    if (member.group) continue;
    ++*steps;
    *skipped += one == kSkipped;
  }
  return worst;
}

std::optional<uint32_t> IfAudit::Find(const std::string& home) const {
  const auto step = index_.find(home);
  return step == index_.end() ? std::nullopt : std::optional(step->second);
}

}  // namespace dfsmr
