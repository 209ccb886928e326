#include "tests/sim/definitions.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace dfsmr {
namespace {

// A plan's flow in YAML's flow style. What a step refers to was written before it, so that there is
// no cycle, whatever else orders them.
class FlowWriter {
 public:
  FlowWriter(Random& random, size_t depth, bool sections)
      : random_(random), depth_(depth), ifs_(random.Chance(50)), sections_(sections && !ifs_) {}

  std::string Flow() {
    std::string text = "[";
    for (size_t n = 1 + random_.Below(3); n > 0; --n) text += Part(0) + (n > 1 ? ", " : "");
    return text + "]";
  }

 private:
  std::string Part(size_t depth) {
    if (depth < 2 && random_.Chance(25)) {
      std::string text = random_.Chance(50) ? "{sequence: [" : "{concurrence: [";
      for (size_t n = 1 + random_.Below(3); n > 0; --n) {
        text += Part(depth + 1) + (n > 1 ? ", " : "");
      }
      return text + "]}";
    }
    if (sections_ && depth < 2 && random_.Chance(35)) return SectionOf(depth);
    const size_t dice = random_.Below(100);
    if (dice < 12) return ForEach();
    if (dice < 24) return SpawnOne();
    if (dice < 34 && depth_ > 0 && inside_ == 0) return NestOne();
    return Work();
  }
  std::string Fresh() { return "s" + std::to_string(count_++); }
  std::string Act() { return "x" + std::to_string(random_.Below(inside_ > 0 ? 4 : 6)); }
  // What is in it refers to what was before it, and to each other.
  std::string SectionOf(size_t depth) {
    const std::string name = Fresh();
    const std::vector<std::string> outside = known_;
    ++inside_;
    std::string text = "{section: " + name + After() + ", do: [";
    for (size_t n = 1 + random_.Below(3); n > 0; --n) {
      text += Part(depth + 1) + (n > 1 ? ", " : "");
    }
    text += "], retry: {limit: " + std::to_string(2 + random_.Below(2));
    if (random_.Chance(40)) text += ", delay: 2s";
    text += "}";
    if (random_.Chance(70)) {
      text += ", compensate: [{step: u0, action: x1, input: " + Input() + "}";
      if (random_.Chance(50)) {
        text += ", {step: u1, action: x2, input: {v: \"${u0.output}\"}, after: [u0]}";
      }
      text += "]";
      if (random_.Chance(40)) text += ", rescue: compensate";
    }
    --inside_;
    const std::vector<std::string> within = std::exchange(known_, outside);
    for (const std::string& step : within) {
      const bool inner = std::ranges::find(outside, step) == outside.end();
      if (inner && random_.Chance(50)) known_.push_back(name + "." + step);
    }
    return text + "}";
  }
  std::string Input() {
    if (known_.empty() || random_.Chance(25)) return "{v: 1}";
    return "{v: \"${" + random_.Of(known_) + ".output.v}\"}";
  }
  std::string After() {
    if (known_.empty() || random_.Chance(70)) return "";
    return ", after: [" + random_.Of(known_) + "]";
  }
  std::string Work() {
    const std::string name = Fresh();
    const std::string action = Act();
    std::string text = "{step: " + name + ", action: " + action + ", input: " + Input() + After();
    text += If();
    text += RunsOn();
    if (random_.Chance(10)) return text + ", when: \"${params.flag}\"}";
    known_.push_back(name);
    if (action < "x4") workers_.insert(name);  // the others may be planners
    return text + "}";
  }
  // Some steps are for the worker of a step before, or for one that the params name; or for none.
  std::string RunsOn() {
    const size_t dice = random_.Below(40);
    if (dice == 0) return ", runs_on: {agent: \"${params.who}\"}";
    if (dice == 1) return ", runs_on: {capability: [c2, c1]}";
    if (dice > 5 || known_.empty()) return "";
    const std::string& step = random_.Of(known_);
    if (!workers_.contains(step)) return ", runs_on: {capability: c1, agent: w2}";
    return ", runs_on: {agent: \"${" + step + ".worker}\"}";
  }
  // Some steps have an `if`, about steps before them and what those gave out.
  std::string If() {
    if (!ifs_ || random_.Chance(70)) return "";
    return ", if: " + Condition(0);
  }
  std::string Condition(size_t depth) {
    if (depth < 2 && random_.Chance(20)) {
      const std::string word = random_.Of<std::string>({"all", "any", "none"});
      return "{" + word + ": [" + Condition(depth + 1) + ", " + Condition(depth + 1) + "]}";
    }
    if (random_.Chance(15)) return "always";
    if (known_.empty() || random_.Chance(10)) return "{value: \"${params.flag}\", equals: true}";
    const std::string step = random_.Of(known_);
    switch (random_.Below(5)) {
      case 0: return "{succeeded: " + step + "}";
      case 1: return "{failed: " + step + "}";
      case 2: return "{skipped: [" + step + ", " + random_.Of(known_) + "]}";
      case 3: return "{value: \"${" + step + ".output.v}\", equals: 1}";
      default: return "{value: \"${" + step + ".state}\", not: failed}";
    }
  }
  std::string List() {
    if (!known_.empty() && random_.Chance(40)) {
      return "\"${" + random_.Of(known_) + ".output.list}\"";
    }
    return random_.Chance(50) ? "\"${params.list}\"" : "[1, 2, 3]";
  }
  std::string ForEach() {
    const std::string name = Fresh();
    const std::string list = random_.Chance(50) ? "\"${params.list}\"" : "[1, 2, 3]";
    std::string text = "{for_each: " + list + ", as: h, do: {step: " + name + ", action: " + Act() +
                       ", input: {h: \"${h}\"}}}";
    if (random_.Chance(30)) text = "{sequence: " + text + "}";
    if (random_.Chance(60)) {
      text += ", {step: " + Fresh() + ", action: " + Act() + ", input: {all: \"${" + name +
              ".output}\"}}";
    }
    return text;
  }
  std::string SpawnOne() {
    const std::string of =
        random_.Of<std::string>({"machine: m", "plan: leaf", "plan: leaf", "plan: twig"});
    std::string text = "{step: " + Fresh() + ", spawn: {" + of + ", for_each: " + List() +
                       ", as: h, input: {h: \"${h}\"}";
    if (random_.Chance(60)) text += ", concurrency: " + std::to_string(1 + random_.Below(2));
    return text + "}" + After() + If() + "}";
  }
  std::string NestOne() {
    return "{step: " + Fresh() + ", plan: leaf, input: " + Input() + After() + If() + "}";
  }

  Random& random_;
  size_t depth_;
  bool ifs_;
  bool sections_;
  size_t inside_ = 0;  // of so many sections
  size_t count_ = 0;
  std::vector<std::string> known_;
  std::set<std::string> workers_;  // of the known, those that a worker runs
};

std::string RandomAction(Random& random, const std::string& id, bool keys, bool planner) {
  std::string text = "action: " + id + "\n";
  if (random.Chance(30)) text += "phases: [run, finalize]\n";
  if (random.Chance(50)) text += "rescue: " + random.Of<std::string>({"skip", "fail"}) + "\n";
  if (planner) text += "plan: worker\n";
  const size_t retry = random.Below(6);
  if (retry == 0) text += "retry: {limit: 2, delay: 1s}\n";
  if (retry == 1) text += "retry: {limit: 3}\n";
  if (retry == 2) text += "retry: {limit: 4, delay: 500ms, factor: 3, max: 2s, jitter: 0.5}\n";
  if (retry == 3) text += "retry: {limit: 3, delay: 100ms, on: [oom, transient]}\n";
  if (random.Chance(15)) text += "ready_timeout: 4s\n";
  if (random.Chance(15)) text += "run_timeout: 2s\n";
  const size_t timeout = random.Below(5);
  if (timeout == 0) text += "timeout: 0.0\n";
  if (timeout == 1) text += "timeout_strategy: fixed\ntimeout: 3.0\n";
  if (timeout == 2) text += "timeout_initial: 5s\n";
  if (random.Chance(20)) text += "poll: {intervals: [1s, 2s], per_interval: 1, max_failures: 2}\n";
  if (random.Chance(20)) text += "weight: {run: 3, finalize: 2}\n";
  if (random.Chance(10)) {
    text += random.Of<std::string>({"runs_on: {capability: c1}\n", "runs_on: {agent: w1}\n"});
  }
  if (keys && random.Chance(30)) {
    text += random.Of<std::string>(
        {"singleton: k1\non_conflict: wait\n", "singleton: k2\non_conflict: wait\n",
         "limit: {key: k3, max: 2}\n", "limit: [{key: k1}, {key: k3, max: 2}]\n",
         "limit: {key: \"k4/${instance.id}\", max: 1}\n",
         "limit: {key: k5, rate: 1/2s, burst: 2}\n"});
  }
  if (random.Chance(10)) text += "subscribes_to: [x0]\nwith: {t: \"${trigger.output.v}\"}\n";
  return text + "---\n";
}

// A number or rate belongs to a key, whoever asks for it, but for what documents and overrides say.
std::string LimitsOf(Random& random) {
  static const std::vector<std::string> kAsks = {"key: e1, max: 1",
                                                 "key: e2, max: 2",
                                                 "key: \"e3/${params.flag}\", max: 1",
                                                 "key: \"e4/${instance.id}\", max: 1",
                                                 "key: e5, rate: 2/3s, burst: 2",
                                                 "key: e6, max: 2, rate: 1/1s"};
  std::string text = "limit: [";
  size_t at = random.Below(3);
  for (size_t n = 1 + random.Below(3); n > 0 && at < kAsks.size(); --n) {
    const std::string word =
        random.Of<std::string>({"wait", "wait", "latest", "skip", "fail", "cancel", "replace"});
    text += "{" + kAsks[at] + ", on_conflict: " + word;
    const bool bounded = (word == "wait" || word == "latest") && random.Chance(30);
    if (bounded) text += ", waiting: " + std::to_string(random.Below(3));
    text += "}, ";
    at += 1 + random.Below(3);
  }
  return text + "]\n";
}

std::string NodeLimits(Random& random) {
  return "    limit: " +
         random.Of<std::string>({"{key: w1}", "{key: w2, max: 2}", "[{key: w1}, {key: w2, max: 2}]",
                                 "{key: w3, rate: 1/1s, burst: 2}", "{key: \"w4/${params.flag}\"}",
                                 "[{key: w2, max: 2}, {key: w3, rate: 1/1s, burst: 2}]"}) +
         "\n";
}

std::string RandomRetry(Random& random) {
  const size_t retry = random.Below(5);
  if (retry == 0) return "    retry: 3\n";
  if (retry == 1) return "    retry: {limit: 2, delay: 1s}\n";
  if (retry == 2) return "    retry: {limit: 3, delay: 300ms, factor: 4, max: 1s, jitter: 0.5}\n";
  if (retry == 3) return "    retry: {limit: 3, delay: 100ms, on: [oom, transient]}\n";
  return "";
}

}  // namespace

std::string AnyQueue(Random& random) { return random.Of<std::string>({"q1", "q2"}); }

std::string RandomMachine(Random& random, const std::string& id, const std::string& strategy,
                          Random* limits, Random* queues) {
  const size_t count = 1 + random.Below(5);
  auto name = [](size_t i) { return "n" + std::to_string(i); };
  std::string text = "id: " + id + "\nupgrade_strategy: " + strategy + "\n";
  if (limits && limits->Chance(70)) text += LimitsOf(*limits);
  text += "nodes:\n";
  bool breaks = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string next = i + 1 < count ? name(i + 1) : "end";
    text += "  " + name(i) + ":\n";
    if (i == 0) text += "    start: true\n";
    std::string ok = "ok: " + next;
    if (random.Chance(25)) {  // it may pass nodes over
      const size_t to = i + 1 + random.Below(count - i);
      const std::string over = to < count ? name(to) : "end";
      ok = "ok: [{if: {value: \"" +
           (random.Chance(70) ? "${given.n}\", greater: " + std::to_string(random.Below(3))
                              : "${params.flag}\", equals: true") +
           "}, to: " + over + "}, {to: " + next + "}]";
    }
    std::string edges = ok;
    const size_t kind = random.Below(10);
    const bool work = kind < 7;
    if (kind == 7) text += "    manual: true\n";
    if (kind == 8) text += "    delay: 2s\n";
    if (kind == 9) text += "    delay: {initial: 100ms, factor: 2, max: 10s, jitter: 0.5}\n";
    if (kind < 8) edges += ", back: " + name(random.Below(i + 1)) + ", fail: broken";
    breaks = breaks || kind < 8;
    if (work && limits && limits->Chance(40)) text += NodeLimits(*limits);
    if (work && queues && queues->Chance(60)) text += "    queue: " + AnyQueue(*queues) + "\n";
    if (work) {
      const size_t timeout = random.Below(4);
      if (timeout == 0) text += "    timeout: 0.0\n";
      if (timeout == 1) text += "    timeout_strategy: fixed\n    timeout: 3.0\n";
      if (timeout == 2) text += "    timeout_initial: 5s\n";
      if (timeout != 0 && random.Chance(30)) {
        edges += ", dfsmr.timeout: " + name(random.Below(count));
      }
      if (random.Chance(30)) text += "    priority: " + std::to_string(random.Priority()) + "\n";
      if (random.Chance(20)) {
        text += "    runs_on: " +
                random.Of<std::string>({"{capability: c1}", "{capability: [c1, c2]}", "{agent: w1}",
                                        "{agent: w2, capability: c2}"}) +
                "\n";
      }
      if (random.Chance(40)) edges += ", error: broken";
      if (edges.ends_with("error: broken")) text += RandomRetry(random);
      if (random.Chance(20)) text += "    ready_timeout: 3s\n";
      if (random.Chance(20)) text += "    run_timeout: 1s\n";
    }
    if (random.Chance(25)) {
      text += "    max_visits: " + std::to_string(1 + random.Below(3)) + "\n";
      edges += ", dfsmr.exhausted: " + next;
    }
    text += "    transitions: {" + edges + "}\n";
  }
  if (breaks) text += "  broken: {final: true, result: error}\n";
  return text + "  end: {final: true}\n";
}

std::string BusyMachine(Random& random, const std::string& id, const std::string& strategy) {
  std::string text = "id: " + id + "\nupgrade_strategy: " + strategy +
                     "\nnodes:\n  n0:\n    start: true\n    timeout: " +
                     random.Of<std::string>({"95.0", "90.0", "75.0", "50.0"}) +
                     "\n    timeout_initial: " + random.Of<std::string>({"2s", "5s", "20s"}) + "\n";
  if (random.Chance(30)) text += "    timeout_max: 8s\n";
  if (random.Chance(30)) text += "    timeout_min: 1s\n";
  return text +
         "    transitions: {ok: end, back: n0, fail: broken}\n"
         "  broken: {final: true, result: error}\n  end: {final: true}\n";
}

std::string RandomPlan(Random& random, const std::string& id, const std::string& strategy,
                       bool keys, bool sections) {
  std::string text = "plan: " + id + "\nupgrade_strategy: " + strategy + "\n";
  if (keys && random.Chance(50)) {
    if (random.Chance(50)) {
      text +=
          "singleton: k0\non_conflict: " + random.Of<std::string>({"wait", "wait", "fail"}) + "\n";
    } else {
      text += "limit: [{key: k6, max: 2, on_conflict: " +
              random.Of<std::string>({"wait", "wait", "latest", "cancel", "replace"}) +
              "}, {key: k7, max: 3}]\n";
    }
  }
  if (random.Chance(25)) text += "wait_after_fail: " + random.Of<std::string>({"0s", "3s"}) + "\n";
  if (random.Chance(30)) text += "hooks: [{on: [stopped], action: hooked}]\n";
  return text + "flow: " + FlowWriter(random, 1, sections).Flow() + "\n---\n";
}

std::string Everything(Random& random, bool plan_keys, bool planners) {
  std::string text =
      "id: m\nnodes: {a: {start: true, transitions: {ok: z}}, z: {final: true}}\n---\n";
  for (int i = 0; i < 6; ++i) {
    std::string action = RandomAction(random, "x" + std::to_string(i), !plan_keys,
                                      planners && i >= 4);
    if (i == 0) {  // it subscribes to itself otherwise
      const size_t at = action.find("subscribes_to");
      if (at != std::string::npos) action = action.substr(0, at) + "---\n";
    }
    text += action;
  }
  text += "plan: twig\nflow: [{step: w, action: x1}]\n---\n";
  text += "plan: leaf\nflow: " + random.Of<std::string>({
      "[{step: l, action: x2}, {step: r, action: x3, after: [l]}]",
      "[{step: l, action: x4}]",
      "[{step: l, spawn: {plan: twig, for_each: [1, 2], as: t, concurrency: 1}}]"}) + "\n---\n";
  for (int i = 0; i < 3; ++i) {
    text += RandomPlan(random, "p" + std::to_string(i), "continue", plan_keys, !planners);
  }
  return text.substr(0, text.size() - 4);
}

std::string RandomSteps(Random& random) {
  std::string text = "[";
  const size_t count = random.Below(4);
  for (size_t i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "") + std::string("{step: t") + std::to_string(i) + ", action: x" +
            std::to_string(random.Below(4)) + ", input: {v: 1}";
    if (i > 0 && random.Chance(50)) text += ", after: [t" + std::to_string(random.Below(i)) + "]";
    text += "}";
  }
  return text + "]";
}

}  // namespace dfsmr
