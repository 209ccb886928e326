// Groups in a run: members and orders drawn at random, and what must be true of them.
#include <algorithm>

#include "dsrv/engine/groups.h"
#include "storage/rows/instance.h"
#include "tests/sim/sim.h"

namespace dfsmr {
namespace {

using Action = rows::GroupOrder::Action;

std::string NameOf(size_t group) { return "g" + std::to_string(group); }
constexpr size_t kGroups = 3;

}  // namespace

// Of some starts, whatever else is drawn for them.
void Sim::Join(StartArgs* args) {
  if (!groups_ || !of_groups_.Chance(60)) return;
  args->provenance = Provenance{.group = NameOf(of_groups_.Below(kGroups))};
}

void Sim::OrderGroups(Engine& engine) {
  if (!groups_ || !of_groups_.Chance(15)) return;
  auto mark = std::make_shared<GroupsAudit::Mark>();
  mark->seq = engine.last_seq();
  mark->group = NameOf(of_groups_.Below(kGroups));
  if (On(Fault::kRetention)) groups_audit_.NeverSure(mark->group);
  if (of_groups_.Chance(25)) {
    mark->stop_on_fail = static_cast<uint32_t>(of_groups_.Below(4));
    (void)engine.groups().Set("ns", mark->group, {.stop_on_fail = mark->stop_on_fail});
  } else {
    const GroupControl control{
        .action = of_groups_.Of<Action>({Action::kPause, Action::kPause, Action::kResume,
                                         Action::kResume, Action::kResume, Action::kCancel,
                                         of_groups_.Chance(50) ? Action::kForce : Action::kKill}),
        .members = of_groups_.Chance(50),
        .note = "drawn"};
    if (!engine.groups().Control("ns", mark->group, control)) return;
    Ordered(mark, control.action);
  }
  Hit(Fault::kGroups);
  groups_audit_.Asked(mark);
  engine.AfterCommit([mark] { mark->durable = true; });
  const bool many = mark->action == Action::kPause || mark->action == Action::kResume;
  if (many) OrderOthers(engine, mark->group, mark->action);
}

void Sim::Ordered(const std::shared_ptr<GroupsAudit::Mark>& mark, Action action) {
  mark->action = action;
  if (action >= Action::kCancel) cancelled_groups_.push_back(mark);
  // What is suspended hears of a cancel, also in children.
  for (const auto& [id, args] : started_) ++frees_[id];
  for (const auto& [visit, times] : told_) ++frees_[visit.first];
  Note("order " + std::to_string(static_cast<int>(action)) + " to " + mark->group);
}

// Several close, and later open at once; then the server crashes before all that they held back
// have begun.
void Sim::OrderOthers(Engine& engine, const std::string& first, GroupsAudit::Action action) {
  if (!crowds_ || !of_crowds_.Chance(60)) return;
  for (size_t i = 0; i < kGroups; ++i) {
    auto mark = std::make_shared<GroupsAudit::Mark>();
    mark->seq = engine.last_seq();
    mark->group = NameOf(i);
    const GroupControl control{.action = action, .note = "drawn"};
    if (mark->group == first || !engine.groups().Control("ns", mark->group, control)) continue;
    Ordered(mark, control.action);
    groups_audit_.Asked(mark);
    engine.AfterCommit([mark] { mark->durable = true; });
  }
  if (action == Action::kResume) crash_soon_ = verify_soon_ = On(Fault::kCrash);
}

// Each group in the engine is what its members in the store add up to, and what was ordered.
void Sim::CheckGroups(const std::map<std::string, Instance>& instances) {
  if (!groups_) return;
  for (size_t i = 0; i < kGroups; ++i) {
    const std::string name = NameOf(i);
    // With its last member it goes, and may be there again as another one.
    if (On(Fault::kRetention)) groups_audit_.NeverSure(name);
    GroupCounts counts;
    for (const auto& [id, one] : instances) {
      if (one.provenance && one.provenance->group == name) counts.Add(ShareOf(one));
    }
    const uint64_t seq = world_.engine().last_seq();
    const auto view = world_.engine().groups().Get("ns", name);
    if (!view) {
      Expect(counts.Total() == 0, "group " + name + " is gone, and its members are not");
      groups_audit_.Gone(name, seq);
      continue;
    }
    Expect(view->row.counts == counts,
           "group " + name + " counts " + std::to_string(view->row.counts.Total()) +
               " members instead of " + std::to_string(counts.Total()) + ", or others");
    Expect(view->row.order == rows::GroupOrder(), "group " + name + " has not followed an order");
    groups_audit_.Check(name, {view->row.paused, view->row.stop_on_fail, view->row.failures}, seq);
    if (!view->row.paused) CheckNobodyWaits(name, instances);
  }
  Expect(groups_audit_.problem().empty(), groups_audit_.problem());
}

void Sim::CheckNobodyWaits(const std::string& group,
                           const std::map<std::string, Instance>& instances) {
  for (const auto& [id, one] : instances) {
    const bool member = one.provenance && one.provenance->group == group;
    Expect(!member || !one.waits.Has(Wait::kGroup),
           id + " waits for its group " + group + ", which is not paused");
  }
}

// Everything may end.
void Sim::OpenGroups() {
  for (size_t i = 0; groups_ && i < kGroups; ++i) {
    auto mark = std::make_shared<GroupsAudit::Mark>();
    mark->seq = world_.engine().last_seq();
    mark->group = NameOf(i);
    mark->stop_on_fail = 0;
    mark->action = Action::kResume;
    const bool there = world_.Do([&](Engine& engine) {
      const bool known = engine.groups().Get("ns", mark->group).has_value();
      if (known) {
        (void)engine.groups().Set("ns", mark->group, {.stop_on_fail = 0});
        (void)engine.groups().Control("ns", mark->group, {.action = Action::kResume});
      }
      return known;
    });
    mark->durable = true;
    if (there) groups_audit_.Asked(mark);
  }
}

std::string GroupsOf(Engine& engine) {
  std::string text;
  for (const GroupView& view : engine.groups().List("ns", InstanceState::kNone, "", "", 100)) {
    text += view.name + (view.row.paused ? " paused" : " open");
    for (uint64_t n : view.row.counts.members) text += " " + std::to_string(n);
    text += " " + std::to_string(view.row.counts.stuck) + " " +
            std::to_string(view.row.counts.progress_live) + " " +
            std::to_string(view.row.counts.progress_stopped) + " " +
            std::to_string(view.row.failures) + " " + std::to_string(Micros(view.row.end_time)) +
            "\n";
  }
  return text;
}

}  // namespace dfsmr
