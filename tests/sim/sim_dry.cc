// Dry runs beside the others: they end by themselves, and nobody else notices that they were there.
// The reference model does not see them, so whatever they changed of the others would be wrong to
// it; here is what must be true of themselves.
#include <algorithm>

#include "dsrv/engine/residents.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

constexpr size_t kDryRuns = 6;

std::string DrawAnswer(Random& random) {
  return random.Of<std::string>({"ok", "back", "fail", "error", "suspend", "go",
                                 R"({"transition":"error","error":"broke","times":2})",
                                 R"({"output":{"v":1,"list":[1,2]}})"});
}

}  // namespace

void Sim::DryRun(Engine& engine) {
  if (!dry_ || !of_dry_.Chance(25)) return;
  const std::string id = "d" + std::to_string(of_dry_.Below(kDryRuns));
  const std::string step = (plans_ ? "s" : "n") + std::to_string(of_dry_.Below(3));
  switch (of_dry_.Below(10)) {
    case 0: (void)engine.Pause("ns", id); break;
    case 1: (void)engine.Resume("ns", id, of_dry_.Chance(50) ? step : "", of_dry_.Chance(30)); break;
    case 2: (void)engine.Skip("ns", id, step); break;
    case 3: (void)engine.Cancel("ns", id, CancelMode::kCancel); break;
    case 4:
      (void)engine.Report("ns", id, {.transition = of_dry_.Chance(50) ? "ok" : "go", .node = step});
      break;
    // What a retention has forgotten may be started again, and its former records stay in the feed.
    default:
      StartDryRun(engine, On(Fault::kRetention) ? "d" + std::to_string(dry_runs_++) : id);
  }
}

void Sim::StartDryRun(Engine& engine, const std::string& id) {
  const bool plan = plans_ && (!machines_ || of_dry_.Chance(50));
  StartArgs args{.ns = "ns",
                 .machine = (plan ? "p" : "m") + std::to_string(of_dry_.Below(3)),
                 .id = id,
                 .dry_run = true};
  args.spec.params = of_dry_.Chance(60) ? R"({"list":[1,2],"flag":true,"who":"w1"})"
                                        : R"({"list":[],"flag":false,"who":"w2"})";
  if (of_dry_.Chance(10)) args.start_at = world_.now() + Duration(1'000 * of_dry_.Below(5'000));
  for (size_t n = of_dry_.Below(3); n > 0; --n) {
    args.spec.dry_answers[(plan ? "s" : "n") + std::to_string(of_dry_.Below(4))] = DrawAnswer(of_dry_);
  }
  if (engine.Start(std::move(args))) Hit(Fault::kDryRun);
}

// Nothing moves one that waits for somebody.
void Sim::EndDryRun(const std::string& id) {
  (void)world_.Do([&](Engine& engine) { return engine.Cancel("ns", id, CancelMode::kForce); });
}

// Of its records each says so, and no other's; no worker ever had any of its work; it holds no
// limit, and waits for none; its children are dry runs, too, and it starts nothing else.
void Sim::CheckDryRuns(const std::map<std::string, Instance>& instances) {
  const auto is_dry = [](const std::string& id) { return id.starts_with('d'); };
  for (const auto& [seq, event] : ledger_) {
    if (event.instance.empty()) continue;
    const std::string who = event.instance + " record " + std::to_string(seq);
    Expect(IsDryRun(event) == is_dry(event.instance), who + " does not say what kind of run it is");
    if (!is_dry(event.instance)) continue;
    const bool worked = event.kind == ChangeKind::kClaimed || event.kind == ChangeKind::kTimedOut ||
                        event.kind == ChangeKind::kRelinquished || event.kind == ChangeKind::kLate;
    Expect(!worked, who + ": work of a dry run was handed out");
    const bool breaker = event.kind == ChangeKind::kBreakerOpened;
    Expect(!breaker, who + ": a dry run has opened a breaker");
  }
  for (const auto& [id, instance] : instances) {
    const bool dry = static_cast<bool>(instance.dry_run);
    Expect(dry == is_dry(id), id + " does not know what kind of run it is");
    const auto parent = instances.find(instance.parent);
    Expect(parent == instances.end() || static_cast<bool>(parent->second.dry_run) == dry,
           id + " is another kind of run than its parent");
    auto spec = rows::GetSpec({store_, world_.partition()}, {"ns", id});
    REQUIRE(spec);
    Expect(!spec->client.starts_with("hook of d"), "a dry run has a hook: " + id);
    if (!dry) continue;
    Expect(!instance.limits && !instance.waits.ForTurn(), id + " asks for a limit");
    Expect(!instance.provenance || instance.provenance->group.empty(), id + " is in a group");
    for (const Token& token : instance.tokens) {
      Expect(token.claims.empty(), id + " is worked on");
      Expect(!token.limits, id + " asks for a limit at a step");
      const bool ready = token.state == TokenState::kReady && Runs(instance.state);
      Expect(!ready || world_.engine().WorkLeft(), id + " waits for a worker");
    }
  }
}

}  // namespace dfsmr
