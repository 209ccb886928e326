// Sections of a plan: when a step of one has failed for good, what has begun in it ends, its
// compensation runs, and it begins anew or is held.
//
// A section that begins anew is put back to where nothing in it had begun. What has led into it
// from outside is kept: it does not come again. Telling the steps to end and putting them back are
// done in portions, as deeds on the plan's open way.
#include <algorithm>

#include "fsm/base/names.h"
#include "fsm/rules/inside.h"

namespace dfsmr::rules {
namespace {

using Phase = SectionState::Phase;
using Then = SectionState::Then;

constexpr size_t kLooks = 1'000;  // places without anything to do that are passed at once

const Section& SectionAt(const Scene& scene, uint32_t section) {
  return scene.machine.graph->sections[section];
}
const SectionNodes& NodesOf(const Scene& scene, uint32_t section) {
  return scene.machine.sections[section];
}

// The section around this one as failures see it: a compensation is by itself.
uint32_t Around(const Scene& scene, uint32_t section) {
  return SectionAt(scene, section).compensates ? kNoSection : SectionAt(scene, section).outer;
}
// The innermost section whose step a place is; kNoSection: it is none's, or of a compensation.
uint32_t SectionOf(const Scene& scene, NodeIndex node) {
  const uint32_t section = scene.machine.nodes[node].section;
  const bool none = section == kNoSection || SectionAt(scene, section).compensates;
  return none ? kNoSection : section;
}
uint32_t Next(const Scene& scene, uint32_t section) {
  const uint32_t outer = Around(scene, section);
  return outer == kNoSection || SectionAt(scene, outer).compensates ? kNoSection : outer;
}
// Whether a step of the section, or of one in it, but of no compensation.
bool IsOwn(const Scene& scene, uint32_t section, NodeIndex node) {
  for (uint32_t at = SectionOf(scene, node); at != kNoSection; at = Next(scene, at)) {
    if (at == section) return true;
  }
  return false;
}
bool IsIn(const Scene& scene, uint32_t section, NodeIndex node) {
  return LiesIn(*scene.machine.graph, scene.machine.nodes[node].section, section);
}

// How often places outside have led to this one.
uint32_t LedTo(const Keepsake& kept) {
  uint32_t sum = 0;
  for (const auto& [section, count] : kept.led) sum += count;
  return sum;
}

OpenEdge Deed(uint32_t what, NodeIndex at, NodeIndex from, std::string transition) {
  return {from, at, what, 0, std::move(transition), ""};
}

std::string Why(const Scene& scene, const Token& held) {
  return StepOf(scene, held).path + ": " + (held.error.empty() ? "it failed" : held.error);
}

// What is still to be reached in a section that ends is not reached.
void CloseWays(Scene& scene, uint32_t section) {
  std::erase_if(scene.instance.plan->open, [&](const OpenEdge& open) {
    if (open.edge == kSweep || !IsOwn(scene, section, open.owner)) return false;
    if (open.edge == kReset) {
      ChangeState(scene, scene.machine.nodes[open.owner].section).phase = Phase::kRuns;
    }
    return true;
  });
}

void EndSection(Scene& scene, uint32_t section, Then then, std::string why) {
  CloseWays(scene, section);
  SectionState& state = ChangeState(scene, section);
  state.phase = Phase::kEnds;
  state.then = then;
  state.swept = false;
  state.error = std::move(why);
  const NodeIndex entry = NodesOf(scene, section).entry;
  scene.instance.tokens.CursorOf(entry) = entry;
  scene.instance.plan->open.push_back(Deed(kSweep, entry, entry, ""));
}

// What it holds of the plan's progress is to be done again.
void TakeBackWeight(Scene& scene, uint32_t section) {
  const std::vector<Section>& sections = scene.machine.graph->sections;
  for (uint32_t at = section; at < sections.size() && sections[at].entry < sections[section].end;
       ++at) {
    if (StateOf(scene, at).done == 0) continue;
    /*mutant retried-section-weighs-twice*/ scene.instance.plan->done_weight -=
        std::exchange(ChangeState(scene, at).done, 0); /*end*/
  }
}

void ResetSection(Scene& scene, uint32_t section, Then then) {
  TakeBackWeight(scene, section);
  const bool again = then != Then::kSkip && scene.machine.conditional;
  if (again) Withdraw(scene, NodesOf(scene, section).exit);
  SectionState& state = ChangeState(scene, section);
  state.phase = Phase::kResets;
  state.then = then;
  const NodeIndex entry = NodesOf(scene, section).entry;
  scene.instance.plan->open.push_back(Deed(kReset, entry, entry, ""));
}

Token& StandInFront(Scene& scene, uint32_t section, TokenState token_state,
                    const std::string& transition) {
  Instance& instance = scene.instance;
  const NodeIndex entry = NodesOf(scene, section).entry;
  Token token;
  token.node = token.home = entry;
  token.visit = ++instance.last_visit;
  token.state = token_state;
  token.available_at = kNever;
  token.step = StepState();
  token.step->start_time = scene.now;
  token.step->tries = StateOf(scene, section).tries;
  token.step->tries_limit = SectionAt(scene, section).retry.limit;
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = event.node = scene.machine.nodes[entry].id;
  event.transition = transition;
  event.visit = token.visit;
  event.note = StateOf(scene, section).error;
  return instance.tokens.Add(std::move(token));
}

// It has been compensated, and nothing of it is tried any more until somebody says so.
void HoldSection(Scene& scene, uint32_t section) {
  ChangeState(scene, section).phase = Phase::kCompensated;
  Token& token = StandInFront(scene, section, TokenState::kHeld, "error");
  token.error = StateOf(scene, section).error;
  const uint64_t visit = token.visit;
  if (scene.machine.conditional) Announce(scene, NodesOf(scene, section).exit);
  AwaitOthers(scene, *scene.instance.tokens.SlotOf(visit));
  WalkOn(scene);
}

// Whether nothing of it has begun and not ended, those in it that are compensated included.
bool HasEnded(Scene& scene, uint32_t section) {
  if (!StateOf(scene, section).swept) return false;
  const SectionNodes& nodes = NodesOf(scene, section);
  Tokens& tokens = scene.instance.tokens;
  NodeIndex& at = tokens.CursorOf(nodes.entry);
  at = std::max(at, nodes.entry);
  while (at < nodes.own_end && !tokens.SlotOfHome(at)) ++at;
  if (at < nodes.own_end) return false;
  for (uint32_t inner = section + 1; inner < scene.machine.sections.size(); ++inner) {
    if (NodesOf(scene, inner).entry >= nodes.own_end) break;
    const Phase phase = StateOf(scene, inner).phase;
    if (phase == Phase::kEnds || phase == Phase::kCompensates || phase == Phase::kUndone) {
      return false;
    }
  }
  return true;
}

// The compensation is over, or there is none.
void Compensated(Scene& scene, uint32_t section) {
  SectionState& state = ChangeState(scene, section);
  for (uint32_t at = Next(scene, section); at != kNoSection; at = Next(scene, at)) {
    if (StateOf(scene, at).phase != Phase::kEnds) continue;
    state.phase = Phase::kRuns;  // one around it ends, and goes on from here
    return scene.instance.tokens.CheckSection(NodesOf(scene, at).entry);
  }
  if (state.then != Then::kHeld) {
    ResetSection(scene, section, state.then);
    return WalkOn(scene);
  }
  for (uint32_t at = Next(scene, section); at != kNoSection; at = Next(scene, at)) {
    if (!SectionAt(scene, at).rescue) continue;
    state.phase = Phase::kRuns;
    EndSection(scene, at, Then::kHeld, std::string(state.error));
    return WalkOn(scene);
  }
  HoldSection(scene, section);
}

void Compensate(Scene& scene, uint32_t section) {
  const uint32_t compensation = SectionAt(scene, section).compensation;
  if (compensation == kNoSection) return Compensated(scene, section);
  ChangeState(scene, section).phase = Phase::kCompensates;
  scene.instance.plan->open.push_back(Deed(kBegin, NodesOf(scene, compensation).entry,
                                           NodesOf(scene, section).entry, "compensate"));
  WalkOn(scene);
}

// Puts a place of the section back to where nothing in that had begun.
void ResetPlace(Scene& scene, uint32_t section, NodeIndex home) {
  Tokens& tokens = scene.instance.tokens;
  const Node& node = scene.machine.nodes[home];
  const Keepsake* known = tokens.KeptAt(home);
  const uint32_t cause = known ? known->doomed_in : kNoSection;
  const bool inside = cause != kNoSection && LiesIn(*scene.machine.graph, cause, section);
  const bool stays = tokens.Doomed(home) && !inside;
  const Settling* settling = tokens.SettlingOf(home);
  const Settling before = settling ? *settling : Settling();
  tokens.Reset(home);
  if (known) {
    Keepsake& kept = tokens.Keep(home);
    std::erase_if(kept.led, [&](const auto& led) {
      return LiesIn(*scene.machine.graph, led.first, section);
    });
    std::erase_if(kept.led_from, [&](NodeIndex from) { return IsIn(scene, section, from); });
    if (inside) kept.doomed_in = kNoSection;
    if (home != NodesOf(scene, section).exit) kept.section.reset();
    const uint32_t led = LedTo(kept);
    if (node.waits_for > 1 && led < node.waits_for) {
      /*mutant arrivals-lost-in-reset*/ for (uint32_t i = 0; i < led; ++i)
        tokens.Arrive(home); /*end*/
    }
  }
  if (stays) {
    tokens.Doom(home);
    tokens.Settle(home).outcome = before.outcome;
    tokens.Settle(home).note = before.note;
  }
  // Behind it, conditions have been told; they are not told again.
  if (home == NodesOf(scene, section).exit && before.settled) tokens.Settle(home).settled = true;
}

// Its finalize phase does not run any more because of what happened in the section.
void ResetFinalize(Scene& scene, uint32_t section, NodeIndex home) {
  const Node& node = scene.machine.nodes[home];
  if (node.step == kNoStep || !scene.machine.graph->steps[node.step].finalize) return;
  const NodeIndex finalize = scene.machine.Find(node.id + "/finalize");
  if (scene.instance.tokens.Doomed(finalize)) ResetPlace(scene, section, finalize);
}

// What is before it, outside, and has settled without leading on.
void RecountEarly(Scene& scene, uint32_t section) {
  Tokens& tokens = scene.instance.tokens;
  const std::vector<Section>& sections = scene.machine.graph->sections;
  for (uint32_t at = section; at < sections.size() && sections[at].entry < sections[section].end;
       ++at) {
    for (const auto& [from, to] : NodesOf(scene, at).incoming) {
      const Settling* settling = tokens.SettlingOf(from);
      if (!settling || !settling->settled || IsIn(scene, section, from)) continue;
      const Keepsake* kept = tokens.KeptAt(to);
      const bool led = kept && std::ranges::find(kept->led_from, from) != kept->led_from.end();
      if (!led) ++tokens.Settle(to).early;
    }
  }
  const NodeIndex entry = NodesOf(scene, section).entry;
  const Settling* settling = tokens.SettlingOf(entry);
  const auto arrived = tokens.arrived().find(entry);
  const uint32_t sure = arrived == tokens.arrived().end() ? 0 : arrived->second;
  const uint32_t waits_for = scene.machine.nodes[entry].waits_for;
  if (settling && settling->early > 0 && settling->early + sure == waits_for) {
    Announce(scene, entry);
  }
}

void SkipAll(Scene& scene, uint32_t section) {
  const SectionNodes& nodes = NodesOf(scene, section);
  for (NodeIndex home = nodes.entry; home < nodes.own_end; ++home) {
    const Node& node = scene.machine.nodes[home];
    if (node.home != home || !IsOwn(scene, section, home)) continue;
    LeaveOut(scene, home, section);
    SkipReaders(scene, node.step, section);
  }
}

// All of it is as if nothing had begun: it begins, when its delay is over.
void BeginAnew(Scene& scene, uint32_t section) {
  if (scene.machine.conditional) RecountEarly(scene, section);
  SectionState& state = ChangeState(scene, section);
  state.phase = Phase::kRuns;
  state.skipped.clear();
  state.warned = state.then == Then::kSkip;
  if (state.then == Then::kSkip) SkipAll(scene, section);
  const NodeIndex entry = NodesOf(scene, section).entry;
  Duration delay{};
  if (state.then == Then::kAgain) {
    const double fraction = Fraction(scene.random, scene.instance.last_visit);
    delay = DelayOf(SectionAt(scene, section).retry.delay, state.tries, fraction);
  }
  if (delay > Duration::zero()) {
    StandInFront(scene, section, TokenState::kWaiting, "retry").available_at =
        After(scene.Clock(), delay);
  } else {
    const char* transition = state.then == Then::kSkip ? "skip" : "retry";
    scene.instance.plan->open.push_back(Deed(kBegin, entry, entry, transition));
  }
}

}  // namespace

const SectionState& StateOf(const Scene& scene, uint32_t section) {
  static const SectionState kDefault;
  const Keepsake* kept = scene.instance.tokens.KeptAt(NodesOf(scene, section).exit);
  return kept && kept->section ? *kept->section : kDefault;
}

SectionState& ChangeState(Scene& scene, uint32_t section) {
  Keepsake& kept = scene.instance.tokens.Keep(NodesOf(scene, section).exit);
  if (!kept.section) kept.section = SectionState();
  return *kept.section;
}

bool EndsAround(const Scene& scene, NodeIndex home) {
  if (scene.machine.sections.empty()) return false;
  for (uint32_t at = SectionOf(scene, home); at != kNoSection; at = Next(scene, at)) {
    if (StateOf(scene, at).phase == Phase::kEnds) return true;
  }
  return false;
}

bool KeptShut(const Scene& scene, NodeIndex node) {
  if (scene.machine.sections.empty()) return false;
  for (uint32_t at = SectionOf(scene, node); at != kNoSection; at = Next(scene, at)) {
    if (StateOf(scene, at).phase != Phase::kRuns) return true;
  }
  return false;
}

void NoteCrossing(Scene& scene, NodeIndex from, NodeIndex to) {
  uint32_t both = scene.machine.nodes[to].section;
  if (IsIn(scene, both, from)) return;
  while (!IsIn(scene, both, from)) both = SectionAt(scene, both).outer;
  Keepsake& kept = scene.instance.tokens.Keep(to);
  auto led = std::ranges::find(kept.led, both, &std::pair<uint32_t, uint32_t>::first);
  if (led == kept.led.end()) led = kept.led.insert(led, {both, 0});
  ++led->second;
  if (scene.machine.conditional) kept.led_from.push_back(scene.machine.nodes[from].home);
}

bool SectionTakes(Scene& scene, size_t slot, const Failure& failure) {
  const Token& held = std::as_const(scene.instance.tokens)[slot];
  const uint32_t innermost = SectionOf(scene, held.home);
  if (innermost == kNoSection || scene.instance.plan->stopping) return false;
  if (EndsAround(scene, held.home)) {
    DropStep(scene, held.visit);
    return true;
  }
  const std::string why = Why(scene, held);
  for (uint32_t at = innermost; at != kNoSection; at = Next(scene, at)) {
    const RetryPolicy& retry = SectionAt(scene, at).retry;
    const uint32_t tries = StateOf(scene, at).tries + 1;
    const bool left = /*mutant section-tries-once-more*/ tries < retry.limit /*end*/;
    ChangeState(scene, at).tries = std::min(tries, retry.limit);
    if (!left || !TriesAgain(retry, failure.kind, failure.error)) continue;
    EndSection(scene, at, Then::kAgain, why);
    return true;
  }
  for (uint32_t at = innermost; at != kNoSection; at = Next(scene, at)) {
    if (!SectionAt(scene, at).rescue) continue;
    EndSection(scene, at, Then::kHeld, why);
    return true;
  }
  return false;
}

void DropStep(Scene& scene, uint64_t visit) {
  Tokens& tokens = scene.instance.tokens;
  const size_t slot = *tokens.SlotOf(visit);
  const Token token = std::as_const(tokens)[slot];
  const Node& home = scene.machine.nodes[token.home];
  scene.instance.plan->partial -= token.step->progress * WeightOf(scene, home);
  tokens.Remove(slot);
  uint32_t ends = SectionOf(scene, token.home);
  while (StateOf(scene, ends).phase != Phase::kEnds) ends = Next(scene, ends);
  Event& event = Emit(scene, ChangeKind::kSkipped);
  event.prev_node = scene.machine.nodes[token.node].id;
  event.node = home.id;
  event.transition = "end";
  event.visit = event.left_visit = visit;
  event.note = "section " + scene.machine.nodes[NodesOf(scene, ends).entry].id +
               " ends: " + StateOf(scene, ends).error;
  SampleAbandoned(scene, token, {}, event);
  const bool failed = token.state == TokenState::kHeld;
  Settling& settling = tokens.Settle(token.home);
  settling.outcome = failed ? StepOutcome::kFailed : StepOutcome::kSkipped;
  settling.note = failed ? token.error : event.note;
  settling.dropped = true;
  if (token.step->start_time != Timestamp()) {
    tokens.End(token.home, {true, visit, token.step->start_time, scene.now, token.step->children,
                            settling.note});
  }
  KeepChildren(scene, token);
  CheckSectionsOf(scene, token.home);
}

void CheckSectionsOf(Scene& scene, NodeIndex home) {
  for (uint32_t at = SectionOf(scene, home); at != kNoSection; at = Next(scene, at)) {
    if (StateOf(scene, at).phase != Phase::kEnds) continue;
    scene.instance.tokens.CheckSection(NodesOf(scene, at).entry);
  }
}

void JudgeSections(Scene& scene) {
  const Instance& instance = scene.instance;
  while (!instance.Stopped() && !instance.Cancelling() && !instance.plan->stopping) {
    const auto entry = scene.instance.tokens.NextToCheck();
    if (!entry) return;
    const uint32_t section = scene.machine.nodes[*entry].section;
    const Phase phase = StateOf(scene, section).phase;
    if (phase == Phase::kUndone) Compensated(scene, section);
    if (phase == Phase::kEnds && /*mutant compensates-too-soon*/ HasEnded(scene, section) /*end*/)
      Compensate(scene, section);
  }
}

void GoOnWithSections(Scene& scene) {
  std::vector<OpenEdge>& open = scene.instance.plan->open;
  for (uint32_t section = 0; section < scene.machine.sections.size(); ++section) {
    const NodeIndex entry = NodesOf(scene, section).entry;
    const Phase phase = StateOf(scene, section).phase;
    if (StateOf(scene, section).tries > 0) ChangeState(scene, section).tries = 0;
    if (phase == Phase::kUndone) scene.instance.tokens.CheckSection(entry);
    if (phase != Phase::kEnds) continue;
    ChangeState(scene, section).swept = false;
    scene.instance.tokens.CursorOf(entry) = entry;
    std::erase_if(
        open, [entry](const OpenEdge& edge) { return edge.edge == kSweep && edge.owner == entry; });
    open.push_back(Deed(kSweep, entry, entry, ""));
  }
}

bool SweepSome(Scene& scene, OpenEdge& edge) {
  Tokens& tokens = scene.instance.tokens;
  const uint32_t section = scene.machine.nodes[edge.owner].section;
  const SectionNodes& nodes = NodesOf(scene, section);
  for (size_t looks = 0; nodes.entry + edge.next < nodes.own_end; ++looks) {
    if (looks == kLooks) return false;
    const auto slot = tokens.SlotOfHome(nodes.entry + edge.next++);
    if (!slot || !IsOwn(scene, section, std::as_const(tokens)[*slot].home)) continue;
    TakeBackUnbegunOf(scene, std::as_const(tokens)[*slot].visit);
    if (!TellToEnd(scene, *slot)) {
      DropStep(scene, std::as_const(tokens)[*slot].visit);
    } else if (Awaits(std::as_const(tokens)[*slot])) {
      ChildCounts& children = *tokens.Mutable(*slot).step->children;
      children.total = children.started;
      children.counted = children.cancelled_all = true;
      children.restart = false;
    }
    return false;
  }
  ChangeState(scene, section).swept = true;
  tokens.CheckSection(nodes.entry);
  return true;
}

bool ResetSome(Scene& scene, OpenEdge& edge) {
  const uint32_t section = scene.machine.nodes[edge.owner].section;
  const SectionNodes& nodes = NodesOf(scene, section);
  const uint32_t steps = nodes.end - nodes.entry;
  for (size_t looks = 0; edge.next < steps + nodes.gates.size(); ++looks) {
    if (looks == kLooks) return false;
    const uint32_t at = edge.next++;
    const NodeIndex home = at < steps ? nodes.entry + at : nodes.gates[at - steps];
    if (scene.machine.nodes[home].home != home) continue;
    ResetPlace(scene, section, home);
    ResetFinalize(scene, section, home);
    return false;
  }
  BeginAnew(scene, section);
  return true;
}

bool MayBegin(const Scene& scene, NodeIndex entry) {
  const Node& node = scene.machine.nodes[entry];
  if (SectionAt(scene, node.section).compensates) return true;
  const Keepsake* kept = scene.instance.tokens.KeptAt(entry);
  return kept && LedTo(*kept) >= node.waits_for;
}

void PassedSection(Scene& scene, const Node& exit) {
  const Section& section = SectionAt(scene, exit.section);
  if (section.compensates) {
    ChangeState(scene, section.outer).phase = Phase::kUndone;
    return scene.instance.tokens.CheckSection(NodesOf(scene, section.outer).entry);
  }
  const SectionState state = StateOf(scene, exit.section);
  if (state.warned && section.outer == kNoSection) scene.instance.plan->skipped = true;
  if (state.warned && section.outer != kNoSection) {
    NoteSkipped(scene, scene.machine.nodes[NodesOf(scene, section.outer).entry]);
  }
  for (uint32_t step : state.skipped) SkipReaders(scene, step, section.outer, exit.section);
}

void BeginSection(Scene& scene, size_t slot) {
  const Token token = std::as_const(scene.instance.tokens)[slot];
  scene.instance.tokens.Remove(slot);
  const size_t first = scene.events.size();
  if (MayBegin(scene, token.home)) {
    OpenAgain(scene, token.home, token.home, "retry", "");
  } else {
    Event& event = Emit(scene, ChangeKind::kTransitioned);
    event.prev_node = event.node = scene.machine.nodes[token.home].id;
    event.transition = "retry";
  }
  scene.events[first].left_visit = token.visit;
}

void LeaveHeldSection(Scene& scene, size_t slot, Then then, const std::string& client) {
  const Token token = std::as_const(scene.instance.tokens)[slot];
  const bool skip = then == Then::kSkip;
  scene.instance.tokens.Remove(slot);
  Event& event = Emit(scene, skip ? ChangeKind::kSkipped : ChangeKind::kTransitioned);
  event.prev_node = event.node = scene.machine.nodes[token.home].id;
  event.transition = skip ? "skip" : "retry";
  event.left_visit = token.visit;
  if (skip) event.visit = token.visit;
  event.client = client;
  event.note = token.error;
  const uint32_t section = scene.machine.nodes[token.home].section;
  ChangeState(scene, section).tries = 0;
  ResetSection(scene, section, then);
  WalkOn(scene);
}

std::optional<uint32_t> SectionNamed(const Scene& scene, const std::string& node) {
  if (scene.machine.sections.empty() || node.empty()) return std::nullopt;
  const NodeIndex index = scene.machine.Find(node);
  if (index == kNoNode || scene.machine.nodes[index].role != Role::kSection) return std::nullopt;
  if (scene.instance.tokens.SlotOfHome(index)) return std::nullopt;
  return scene.machine.nodes[index].section;
}

namespace {

bool HoldsSomething(const Scene& scene, uint32_t section) {
  const Tokens& tokens = scene.instance.tokens;
  const SectionNodes& nodes = NodesOf(scene, section);
  for (NodeIndex at = nodes.entry; at < nodes.own_end; ++at) {
    const auto slot = tokens.SlotOfHome(at);
    if (slot && tokens[*slot].state == TokenState::kHeld && IsOwn(scene, section, at)) return true;
  }
  return false;
}

Result<Ok> MayRetry(Scene& scene, uint32_t section, const ReportArgs& args) {
  const std::string who = "section " + Quoted(args.node) + " of " + Named(scene.instance);
  std::string why;
  if (args.transition != "retry") {
    why = " has no transition " + Quoted(args.transition) +
          " now; while a step in it is held it has: retry";
  } else if (SectionAt(scene, section).compensates) {
    why = " is a compensation; retry what is held in it, or the section when it is over";
  } else if (StateOf(scene, section).phase != Phase::kRuns) {
    why = " ends already, to be tried again or held";
  } else if (!HoldsSomething(scene, section)) {
    why = " cannot be tried again: no step in it is held";
  }
  if (!why.empty()) return Refused(Reason::kIllegalTransition, who + why);
  if (args.fault) return *args.fault;
  return MayGoOn(scene);
}

}  // namespace

// By hand: the section has all of its tries again.
Result<Answer> ReportSection(Scene& scene, uint32_t section, const ReportArgs& args) {
  auto may = MayRetry(scene, section, args);
  if (!may) return may.error();
  Event& event = Emit(scene, ChangeKind::kTransitioned);
  event.prev_node = event.node = args.node;
  event.transition = args.transition;
  event.params = args.params;
  event.client = args.client;
  ChangeState(scene, section).tries = 0;
  EndSection(scene, section, Then::kAtOnce, "it is tried again by hand");
  WalkOn(scene);
  JudgeSteps(scene);
  Answer answer;
  answer.transition = args.transition;
  answer.prev_node = args.node;
  for (const Event& one : scene.events) {
    const bool entry = one.kind == ChangeKind::kTransitioned && one.visit != 0;
    if (!entry || answer.nodes.size() == 100) continue;
    if (answer.visit == 0) answer.visit = one.visit;
    answer.nodes.push_back(one.node);
  }
  answer.state = scene.instance.state;
  answer.result = scene.instance.result;
  answer.started = args.started;
  return answer;
}

}  // namespace dfsmr::rules
