// Limits in a run: numbers, documents and words drawn at random, and what must be true of those
// that hold keys as a whole. plan_audit.h looks at tokens and at those that wait.
#include <algorithm>

#include "dsrv/engine/compile.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/limits.h"
#include "storage/rows/instance.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

const std::vector<std::string> kKeys = {"e1",           "e2",
                                        "e3/true",      "e3/false",
                                        "e5",           "e6",
                                        "w1",           "w2",
                                        "w3",           "w4/true",
                                        "k0",           "k1",
                                        "k2",           "k3",
                                        "k5",           "k6",
                                        "k7",           "namespace:ns",
                                        "machine:m0",   "machine:m1",
                                        "machine:p0",   "machine:leaf",
                                        "machine:twig", "group:g0",
                                        "group:g1",     "queue:default",
                                        "action:x1"};
const std::vector<std::string> kDocuments = {"e1", "e2", "e3",    "w1",       "w4",
                                             "k6", "k3", "on-m0", "on-queue", "on-x2"};

rows::DocumentName NameOf(const std::string& name) { return {"ns", DocumentKind::kLimit, name}; }

// The key of a document.
std::string RootOf(const std::string& name) {
  if (name == "on-m0") return "machine:m0";
  if (name == "on-queue") return "queue:default";
  return name == "on-x2" ? "action:x2" : name;
}

}  // namespace

void Sim::AskForLimits(StartArgs* args) {
  if (!limits_) return;
  args->force = of_limits_.Chance(8);
  if (!of_limits_.Chance(15)) return;
  using enum OnConflict;
  args->on_conflict = of_limits_.Of<OnConflict>({kWait, kFail, kSkip, kLatest, kCancel, kReplace});
}

void Sim::OrderLimits(Engine& engine) {
  if (!limits_ || !of_limits_.Chance(15)) return;
  Hit(Fault::kLimits);
  if (of_limits_.Chance(65)) return Override(engine, of_limits_.Of(kKeys));
  const std::string name = of_limits_.Of(kDocuments);
  if (of_limits_.Chance(65)) return DefineLimit(engine, name);
  Note("delete limit " + name);
  NumbersChange(RootOf(name));
  (void)engine.documents().Delete(NameOf(name), "sim");
}

void Sim::Override(Engine& engine, const std::string& key) {
  LimitChange change{.client = "sim"};
  switch (of_limits_.Below(7)) {
    case 0:
      change.no_max = true;
      break;
    case 1:
      change.reset = true;
      break;
    case 2:
      change.no_rate = true;
      break;
    case 3:
      change.rate = Rate{1 + static_cast<uint32_t>(of_limits_.Below(3)),
                         of_limits_.Chance(50) ? Duration(1s) : Duration(3s),
                         1 + static_cast<uint32_t>(of_limits_.Below(2))};
      break;
    default:
      change.max = of_limits_.Chance(10) ? 0 : 1 + static_cast<uint32_t>(of_limits_.Below(4));
  }
  Note("limit " + key +
       (change.max       ? " max " + std::to_string(*change.max)
        : change.reset   ? " reset"
        : change.no_max  ? " without max"
        : change.no_rate ? " without rate"
                         : " with a rate"));
  NumbersChange(key);
  (void)engine.limits().Override("ns", key, change);
}

void Sim::DefineLimit(Engine& engine, const std::string& name) {
  const auto number = [&] {
    return std::to_string(of_limits_.Below(10) == 0 ? 0 : 1 + of_limits_.Below(3));
  };
  std::string text = "limit: " + name + "\n";
  if (name == "on-m0") text += "on: {machine: m0}\n";
  if (name == "on-queue") text += "on: {queue: default}\n";
  if (name == "on-x2") text += "on: {action: x2}\n";
  if (of_limits_.Chance(80)) {
    text += "max: " + number() + "\n";
  } else {
    text += "rate: 2/1s\n";
  }
  if (name == "e3" || name == "w4") text += "keys: {" + name + "/true: {max: " + number() + "}}\n";
  Note("define " + text);
  NumbersChange(RootOf(name));
  Parsed parsed = ParseDefinitions(text, "sim");
  Expect(parsed.ok(), "a limit was refused: " + text);
  if (!parsed.ok()) return;
  std::vector<DefineProblem> problems;
  auto defined = DefineAtOnce(engine, "ns", {{}, std::move(parsed.documents)}, false, &problems);
  Expect(defined.has_value() || armed_ == Fault::kFailedRead,
         "a limit was refused: " + (defined ? "" : defined.error().message) + "\n" + text);
}

// More may hold these keys than their numbers say from now on. Empty: all.
void Sim::NumbersChange(const std::string& root) {
  for (const std::string& key : kKeys) {
    if (!root.empty() && key != root && !key.starts_with(root + "/")) continue;
    changed_limits_.insert(key);
    world_.lowered().insert(key);
  }
}

// By the rows alone: instances that hold keys as a whole, with those that the server counts.
std::map<std::string, std::set<std::string>> Sim::HoldersOfLimits(
    std::map<std::string, size_t>* forced) {
  std::map<std::string, std::set<std::string>> holders;
  const auto take = [&](const Instance& instance) {
    const bool runs =
        instance.state == InstanceState::kRunning || instance.state == InstanceState::kPlanning;
    if (!runs || instance.dry_run) return true;
    std::set<std::string> keys = {"machine:" + instance.machine};
    if (!instance.parent_step) {
      keys.insert("namespace:ns");
      if (instance.provenance) keys.insert("group:" + instance.provenance->group);
    }
    const bool holds = instance.limits && instance.limits->state == InstanceLimits::State::kHolds;
    if (holds) {
      for (const LimitKey& key : instance.limits->keys) keys.insert(key.key);
    }
    for (const std::string& key : keys) {
      holders[key].insert(instance.id);
      // What is cancelled while it is paused runs to its end, with room or without.
      (*forced)[key] += instance.Cancelling() || (instance.limits && instance.limits->force);
    }
    return true;
  };
  const Store& rows = store_;
  REQUIRE(rows::ScanInstances({rows, world_.partition()}, false, {"", ""},
                              world_.engine().reader().registry.resolve(), take));
  return holders;
}

// Nobody has come in beyond a number since it was looked at last: no more hold a key than its
// number says, but for those that begin by force, and those that were there already when it was
// lowered.
void Sim::CheckLimits() {
  if (!limits_ || world_.InFlight()) return;
  std::map<std::string, size_t> forced;
  const auto all = HoldersOfLimits(&forced);
  for (const auto& [key, holders] : all) {
    const auto max = world_.engine().limits().NumbersOf("ns", key).max;
    if (!max || changed_limits_.contains(key)) continue;
    const size_t before = held_limits_[key];
    std::string names;
    for (const std::string& id : holders) names += " " + id;
    Expect(holders.size() <= std::max<size_t>(*max, before) + forced[key],
           std::to_string(holders.size()) + " hold limit " + key + " of " + std::to_string(*max) +
               ", before " + std::to_string(before) + ":" + names);
  }
  changed_limits_.clear();
  held_limits_.clear();
  for (const auto& [key, holders] : all) held_limits_[key] = holders.size();
}

// Everything may end.
void Sim::OpenLimits() {
  if (!limits_) return;
  NumbersChange("");
  for (const std::string& key : kKeys) {
    (void)world_.Do([&](Engine& engine) {
      return engine.limits().Override("ns", key, {.reset = true, .client = "sim"}).has_value();
    });
  }
  for (const std::string& name : kDocuments) {
    (void)world_.Do(
        [&](Engine& engine) { return engine.documents().Delete(NameOf(name), "sim").has_value(); });
  }
}

}  // namespace dfsmr
