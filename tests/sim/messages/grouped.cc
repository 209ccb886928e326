// Groups whose members live in several partitions: home counts all of them, whatever crashes, all
// follow its orders, and it is told once more whenever the last has stopped.
#include <iterator>

#include "dsrv/engine/groups.h"
#include "storage/rows/group.h"
#include "tests/sim/messages/message_sim.h"

namespace dfsmr::message_sim {
namespace {

using Action = rows::GroupOrder::Action;

constexpr const char* kGroups[] = {"g", "h"};

}  // namespace

// Not what the trigger listens to: some are resumed, and end again.
std::string GroupedJobs() {
  return "---\nid: member\nnodes: {work: {start: true, transitions: {ok: done, bad: broken}}, "
         "done: {final: true}, broken: {final: true, result: error}}\n";
}

void MessageSim::DefineGroups() {
  REQUIRE(at(kHome).Do([](Engine& e) { return e.groups().Set("ns", "h", {.stop_on_fail = 1}); }));
}

void MessageSim::StartMember(const std::string& group) {
  const std::string id = "m" + std::to_string(++names_);
  members_[id] = group;
  Note("start " + id + " of group " + group + " at " + std::to_string(parted_->PlaceOf(id)));
  StartArgs args{.ns = "ns", .machine = "member", .id = id};
  args.provenance = Provenance{.group = group};
  parted_->Of(id).Decide([&](Engine& e) { (void)e.Start(std::move(args)); });
  Commit(parted_->PlaceOf(id));
}

// Starts a member, ends one, or has all do something.
void MessageSim::Grouped() {
  const std::string group = random_.Of(std::vector<std::string>(std::begin(kGroups),
                                                                std::end(kGroups)));
  const size_t dice = random_.Below(20);
  if (dice < 10 || members_.empty()) return StartMember(group);
  if (dice < 15) {
    const auto one = std::next(members_.begin(), static_cast<long>(random_.Below(members_.size())));
    const std::string id = one->first;
    const bool bad = random_.Chance(30);
    Note("end member " + id);
    parted_->Of(id).Decide([&](Engine& e) {
      (void)e.Report("ns", id, {.transition = bad ? "bad" : "ok"});
    });
    return Commit(parted_->PlaceOf(id));
  }
  static constexpr Action kActions[] = {Action::kPause, Action::kResume, Action::kResume,
                                        Action::kCancel, Action::kForce};
  GroupControl control{.action = kActions[random_.Below(std::size(kActions))],
                       .members = random_.Chance(50),
                       .note = "drawn"};
  Note("group " + group + ": action " + std::to_string(static_cast<int>(control.action)));
  at(kHome).Decide([&](Engine& e) {
    const auto before = e.groups().Get("ns", group);
    if (before && before->row.note.find(" failed") != std::string::npos) {
      ++hits_["a group is paused since members failed"];
    }
    if (e.groups().Control("ns", group, control)) ++hits_["a group is told what to do"];
  });
  Commit(kHome);
}

void MessageSim::NoteGroup(const Event& event) {
  if (event.kind == ChangeKind::kGroupFinished && event.about) {
    ++hits_["a group finishes"];
    group_finished_at_[event.about->group] = records_;
  }
  const auto member = members_.find(event.instance);
  if (member == members_.end() || event.kind != ChangeKind::kFinished) return;
  member_ended_at_[member->second] = records_;
}

void MessageSim::ResumeGroups() {
  for (const char* group : kGroups) {
    (void)at(kHome).Do([&](Engine& e) {
      return e.groups().Control("ns", group, {.action = Action::kResume, .members = true});
    });
  }
}

void MessageSim::CheckGroups() {
  std::map<std::string, GroupCounts> counts;
  for (const auto& [id, group] : members_) {
    if (!seen_[id].exists) continue;
    const Instance instance = parted_->Must(id);
    counts[group].Add(ShareOf(instance));
    if (!instance.Stopped()) Wrong(id + ", a member of " + group + ", has not come to an end");
    if (seen_[id].begun > 1) Wrong(id + ", a member of " + group + ", has begun twice");
  }
  for (const auto& [group, count] : counts) {
    const auto view = at(kHome).Do([&](Engine& e) { return e.groups().Get("ns", group); });
    if (!view) return Wrong("home does not know of group " + group);
    if (view->row.counts != count) {
      Wrong("home counts " + std::to_string(view->row.counts.Total()) + " members of group " +
            group + ", of which " + std::to_string(view->row.counts.Stopped()) +
            " have stopped; there are " + std::to_string(count.Total()));
    }
    if (group_finished_at_[group] < member_ended_at_[group]) {
      Wrong("of group " + group + " the last member has stopped, and nobody is told");
    }
  }
}

}  // namespace dfsmr::message_sim
