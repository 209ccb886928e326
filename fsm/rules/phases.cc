// How a phase of a step ends, what that counts, and which steps are skipped with it.
#include <algorithm>

#include "fsm/rules/inside.h"

namespace dfsmr::rules {

double WeightOf(const Scene& scene, const Node& node) {
  if (node.role != Role::kRun && node.role != Role::kSpawn && node.role != Role::kFinalize) {
    return 0;
  }
  const PlanGraph& graph = *scene.machine.graph;
  if (CompensationAround(graph, node.section) != kNoSection) return 0;  // it mostly does not run
  const Weights& weight = graph.actions[graph.steps[node.step].action].weight;
  return node.role == Role::kFinalize ? weight.finalize : weight.run;
}

namespace {

// It was left out because of what happened in a section. When it is left out by one around that,
// too, the inner one does not undo that any more. False: nothing changes.
bool MoveCause(Scene& scene, NodeIndex home, uint32_t section) {
  Tokens& tokens = scene.instance.tokens;
  const Keepsake* kept = tokens.KeptAt(home);
  const uint32_t old = kept ? kept->doomed_in : kNoSection;
  if (old == kNoSection || old == section) return false;
  if (!LiesIn(*scene.machine.graph, old, section)) return false;
  const double weight = WeightOf(scene, scene.machine.nodes[home]);
  tokens.Keep(home).doomed_in = section;
  ChangeState(scene, old).done -= weight;
  if (section != kNoSection) ChangeState(scene, section).done += weight;
  return true;
}

// False: it was left out already.
bool LeavesOut(Scene& scene, NodeIndex home, uint32_t section) {
  Tokens& tokens = scene.instance.tokens;
  if (tokens.Doomed(home)) return MoveCause(scene, home, section);
  tokens.Doom(home);
  const double weight = WeightOf(scene, scene.machine.nodes[home]);
  scene.instance.plan->done_weight += weight;
  if (section == kNoSection) return true;
  tokens.Keep(home).doomed_in = section;
  ChangeState(scene, section).done += weight;
  return true;
}

}  // namespace

void LeaveOut(Scene& scene, NodeIndex home, uint32_t section) { LeavesOut(scene, home, section); }

// They are marked now and passed when the walk reaches them, so that the order holds.
void SkipReaders(Scene& scene, uint32_t of, uint32_t section, uint32_t over) {
  const Machine& machine = scene.machine;
  std::vector<uint32_t> skipped{of};
  while (!skipped.empty()) {
    const uint32_t at = skipped.back();
    const Step& step = machine.graph->steps[at];
    skipped.pop_back();
    if (step.finalize) LeaveOut(scene, machine.Find(step.path + "/finalize"), section);
    bool beyond = false;
    for (uint32_t reader : ReadersOf(*machine.graph, at)) {
      const NodeIndex node = machine.Find(machine.graph->steps[reader].path);
      const uint32_t around = machine.nodes[node].section;
      if (over != kNoSection && LiesIn(*machine.graph, around, over)) continue;
      if (/*mutant skips-beyond-section*/ !LiesIn(*machine.graph, around, section) /*end*/) {
        beyond = true;
        continue;
      }
      /*mutant doomed-not-skipped*/ if (!LeavesOut(scene, node, section))
        continue; /*end*/
      skipped.push_back(reader);
    }
    if (!beyond) continue;
    std::vector<uint32_t>& later = ChangeState(scene, section).skipped;
    if (std::ranges::find(later, at) == later.end()) later.push_back(at);
  }
}

void NoteSkipped(Scene& scene, const Node& home) {
  const PlanGraph& graph = *scene.machine.graph;
  const bool tried = home.section != kNoSection && !graph.sections[home.section].compensates;
  if (tried) {
    ChangeState(scene, home.section).warned = true;
  } else {
    scene.instance.plan->skipped = true;
  }
}

void EndPhase(Scene& scene, const Node& home, NodeIndex index, Ended ended) {
  Instance& instance = scene.instance;
  const bool counted = instance.tokens.Doomed(index);  // when it was doomed
  const double weight = counted ? 0 : WeightOf(scene, home);
  instance.plan->done_weight += weight;
  const bool in_section = home.section != kNoSection;
  if (in_section && weight > 0) ChangeState(scene, home.section).done += weight;
  const bool finalize = home.role == Role::kFinalize;
  if (finalize && !ended.skipped) instance.plan->done_finalize += weight;
  ended.end_time = scene.now;
  const bool skips = ended.skipped;
  // What has happened in a section is asked for by its compensation.
  if (!finalize && (skips || in_section || instance.tokens.SettlingOf(index))) {
    Settling& settling = instance.tokens.Settle(index);
    const bool told = skips && settling.outcome != StepOutcome::kNone;
    if (!told) settling.outcome = skips ? StepOutcome::kSkipped : StepOutcome::kSucceeded;
    if (settling.note.empty() || !skips) settling.note = ended.note;
  }
  instance.tokens.End(index, std::move(ended));
  if (!skips) return;
  if (finalize) {
    instance.tokens.Doom(index);
  } else {
    SkipReaders(scene, home.step, home.section);
  }
}

}  // namespace dfsmr::rules
