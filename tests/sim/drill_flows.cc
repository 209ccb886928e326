// The plans of drills about conditions, lists, and steps that wait.
#include <vector>

#include "tests/sim/drills.h"

namespace dfsmr {
namespace {

// Of a step, a nested plan, a list or children.
std::string AnyFact(Random& random, const std::vector<std::string>& names) {
  const std::string& one = random.Of(names);
  switch (random.Below(9)) {
    case 0: return "{succeeded: " + one + "}";
    case 1: return "{failed: " + one + "}";
    case 2: return "{skipped: " + one + "}";
    case 3: return "{failed: [" + one + ", " + random.Of(names) + "]}";
    case 4: return "{value: \"${" + one + ".state}\", equals: " +
                   random.Of<std::string>({"succeeded", "failed", "skipped"}) + "}";
    case 5: return "{value: \"${s0.output.v}\", equals: 1}";
    case 6: return "{value: \"${s0.output.v}\", " +
                   random.Of<std::string>({"less: 2", "greater: 0", "greater: 1", "not: 1",
                                           "in: [1, 3]"}) + "}";
    case 7: return "{value: \"${s0.output.list}\", contains: " +
                   std::to_string(1 + random.Below(3)) + "}";
    default: return "{value: \"${params.flag}\", equals: true}";
  }
}

std::string AnyCondition(Random& random, const std::vector<std::string>& names) {
  if (random.Chance(20)) return "always";
  if (random.Chance(60)) return AnyFact(random, names);
  return "{" + random.Of<std::string>({"all", "any", "none"}) + ": [" + AnyFact(random, names) +
         ", " + AnyFact(random, names) + "]}";
}

std::string AnyWork(Random& random) { return random.Of<std::string>({"w", "w", "wf", "wf", "ws"}); }

// Steps with an `if` behind a step, a nested plan, a list, and children.
std::string Conditions(Random& random) {
  std::vector<std::string> names = {"s0"};
  std::string text = "[{step: s0, action: " + AnyWork(random) + "}";
  if (random.Chance(60)) {
    text += ", {step: n, plan: " + random.Of<std::string>({"pair", "leaf"}) + "}";
    names.emplace_back("n");
  }
  if (random.Chance(50)) {
    text += ", {for_each: \"${params.list}\", as: h, do: {step: e, action: " + AnyWork(random) +
            ", input: {h: \"${h}\"}}}";
    names.emplace_back("e");
  }
  if (random.Chance(30)) {
    text += ", {step: c, spawn: {plan: twig, for_each: [1, 2], as: h, input: {h: \"${h}\"}}}";
    names.emplace_back("c");
  }
  if (random.Chance(40)) {
    text += ", {step: b, action: " + AnyWork(random) + ", input: {v: \"${s0.output.v}\"}}";
    names.emplace_back("b");
  }
  for (size_t i = 1; i < 2 + random.Below(3); ++i) {
    const std::string name = "s" + std::to_string(i);
    const bool nests = random.Chance(25);
    text += ", {step: " + name + (nests ? ", plan: pair" : ", action: " + AnyWork(random));
    if (random.Chance(40)) text += ", after: [" + random.Of(names) + "]";
    text += ", if: " + AnyCondition(random, names) + "}";
    names.push_back(name);
  }
  return text + "]";
}

// Lists that are empty or hold lists, and those that come after them or read them.
std::string Lists(Random& random) {
  const std::string rescue =
      random.Chance(50) ? ", rescue: " + random.Of<std::string>({"skip", "fail", "pause"}) : "";
  std::string text = "[{sequence: [{step: s0, action: w" + rescue +
                     "}, {for_each: \"${params.list}\", as: h, do: {step: e, action: w, input: {h: "
                     "\"${h}\"}}}]}, {step: s1, action: wp, after: [e]}";
  if (random.Chance(70)) {
    text += ", {for_each: [1, 2], as: g, do: {for_each: \"${params.list}\", as: h, do: {step: f, "
            "action: " + AnyWork(random) + "}}}, {step: s2, action: w, input: {all: "
            "\"${f.output}\"}}";
  } else {
    text += ", {for_each: [1, 2], as: g, do: {step: n, plan: pair}}, {step: s2, action: w, input: "
            "{all: \"${n.output}\"}}";
  }
  if (random.Chance(40)) {
    text += ", {for_each: [1, 2], as: h, do: {step: x, action: w, when: \"${params.flag}\"}}, "
            "{step: s4, action: w, input: {left: \"${x.output}\"}}";
  }
  return text + ", {step: s3, action: t, after: [s0]}]";
}

std::string Polls(Random& random) {
  std::string text = "[{step: s0, action: po}, {step: s1, action: pt}, {step: s2, action: wt}";
  if (random.Chance(50)) text += ", {step: s3, action: po, after: [s0]}";
  return text + "]";
}

}  // namespace

std::string MoreFlow(Random& random, DrillKind kind) {
  if (kind == DrillKind::kConditions) return Conditions(random);
  return kind == DrillKind::kLists ? Lists(random) : Polls(random);
}

std::string MoreActions(Random& random) {
  const std::string times = "timeout_strategy: fixed\ntimeout: 2.0\n";
  const std::string polls = "poll: {intervals: [1s, 3s], per_interval: 1, max_failures: 2}\n";
  return "action: wf\nrescue: fail\n---\naction: ws\nextends: w\nrescue: skip\n---\n"
         "action: wp\npriority: " + std::to_string(1 + random.Below(3)) + "\n---\n"
         "action: po\n" + polls + "---\naction: pt\n" + polls + times + "---\naction: wt\n" +
         times + "---\naction: t\n---\naction: y\nsubscribes_to: [t]\nwith: {t: " +
         random.Of<std::string>({"1", "\"${trigger.output.v}\""}) + "}\n---\n" +
         PairPlan(random) + "---\n";
}

std::string PairPlan(Random& random) {
  const std::string second = random.Of<std::string>({"r", "q"});
  return "plan: pair\nflow: [{step: l, action: w}, {step: " + second + ", action: wf" +
         (random.Chance(50) ? ", after: [l]" : "") + "}]\n";
}

}  // namespace dfsmr
