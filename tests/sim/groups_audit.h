// What groups must be, whatever happens: an auditor with a slow mind of its own, which hears of the
// orders as they are given and of the feed turn by turn, counts members one by one, and reads
// nothing of the server's code.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fsm/rules/instance.h"
#include "storage/rows/group.h"

namespace dfsmr {

class GroupsAudit {
 public:
  using Action = rows::GroupOrder::Action;
  // An order, or a number, in force after the record `seq`.
  struct Mark {
    uint64_t seq = 0;
    std::string group;
    Action action = Action::kNone;
    std::optional<uint32_t> stop_on_fail;
    bool durable = false;  // it was acknowledged
  };
  // What is known of a group's pause.
  struct Pause {
    bool paused = false;
    uint32_t stop_on_fail = 0;
    uint64_t failures = 0;
    friend bool operator==(const Pause&, const Pause&) = default;
  };

  const std::string& problem() const { return problem_; }

  void Asked(std::shared_ptr<Mark> mark) { marks_.push_back(std::move(mark)); }
  // The records of one turn. `turns`: they are of several, of which nobody was told.
  void Told(const std::vector<Event>& events, bool turns = false) {
    if (!events.empty()) turns_.emplace_back(events, turns);
  }
  // The server has begun anew after the record `seq`: what was asked of it and not acknowledged may
  // or may not be so.
  void Crashed(uint64_t seq) {
    Go(seq);
    for (const auto& mark : marks_) unsure_.insert(mark->group);
    marks_.clear();
  }
  // All that was told is durable. Goes through it, and compares `is` with what must be; an unsure
  // group is as it is from now on.
  void Check(const std::string& group, const Pause& is, uint64_t seq) {
    Go(seq);
    Known& known = groups_[group];
    if (unsure_.erase(group) > 0 || never_sure_.contains(group)) known.pause = is;
    Expect(known.pause == is,
           "group " + group + " is " + Text(is) + " instead of " + Text(known.pause));
  }
  // The group is gone with its last member.
  void Gone(const std::string& group, uint64_t seq) {
    Go(seq);
    Expect(groups_[group].live.empty(), "group " + group + " is gone before its members");
    groups_[group] = {};
    unsure_.erase(group);
  }
  // What it knows of pauses may be of a group that is gone meanwhile.
  void NeverSure(const std::string& group) { never_sure_.insert(group); }

 private:
  struct Known {
    Pause pause;
    std::set<std::string> live;    // members that have not stopped
    std::set<std::string> failed;  // of them
    bool due = false;              // a member has stopped since the last GROUP_FINISHED
  };

  static std::string Text(const Pause& pause) {
    return std::string(pause.paused ? "paused" : "open") + " after " +
           std::to_string(pause.failures) + " of " + std::to_string(pause.stop_on_fail) +
           " failures";
  }

  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }

  // Through all turns, and the marks between their records, up to the record `seq`.
  void Go(uint64_t seq) {
    for (const auto& [events, several] : turns_) {
      for (const Event& event : events) {
        Apply(event.seq - 1);
        One(event);
      }
      if (!several) EndTurn();
    }
    turns_.clear();
    Apply(seq);
    EndTurn();
  }

  void Apply(uint64_t seq) {
    while (!marks_.empty() && marks_.front()->seq <= seq && marks_.front()->durable) {
      const Mark& mark = *marks_.front();
      Pause& pause = groups_[mark.group].pause;
      if (mark.stop_on_fail) pause.stop_on_fail = *mark.stop_on_fail;
      if (mark.action != Action::kNone) pause.paused = mark.action == Action::kPause;
      if (mark.action == Action::kResume) pause.failures = 0;
      if (mark.stop_on_fail) StopOnFail(&pause);
      marks_.pop_front();
    }
  }

  static void StopOnFail(Pause* pause) {
    if (pause->stop_on_fail > 0 && pause->failures >= pause->stop_on_fail) pause->paused = true;
  }

  void One(const Event& event) {
    if (!event.about || event.about->group.empty()) return;
    const std::string& group = event.about->group;
    Known& known = groups_[group];
    const std::string& id = event.instance;
    switch (event.kind) {
      case ChangeKind::kGroupFinished:
        Expect(known.due, "group " + group + " finishes although no member has stopped");
        Expect(known.live.empty(), "group " + group + " finishes before " +
                                       (known.live.empty() ? "" : *known.live.begin()));
        known.due = false;
        return;
      case ChangeKind::kStarted:
        if (!known.live.contains(id)) known.failed.erase(id);  // it was of another instance
        Expect(!known.pause.paused || Unheard(group),
               id + " begins in group " + group + ", which is " + Text(known.pause));
        known.live.insert(id);
        return;
      case ChangeKind::kScheduled:
        if (!known.live.contains(id)) known.failed.erase(id);
        known.live.insert(id);
        return;
      case ChangeKind::kPaused:  // by a call, or because steps failed: then it says which
        if (!event.note.empty()) Failed(&known, id, true);
        return;
      case ChangeKind::kResumed:
        known.live.insert(id);
        Failed(&known, id, false);
        return;
      case ChangeKind::kUpgraded:
        Failed(&known, id, false);
        return;
      case ChangeKind::kFinished:
        Failed(&known, id, event.note.starts_with("ERROR") || event.note.starts_with("ABORTED"));
        known.live.erase(id);
        known.due = true;
        return;
      default:
        return;
    }
  }

  // Whether orders to the group wait for their acknowledgement, or were lost.
  bool Unheard(const std::string& group) const {
    if (unsure_.contains(group) || never_sure_.contains(group)) return true;
    for (const auto& mark : marks_) {
      if (mark->group == group && !mark->durable) return true;
    }
    return false;
  }

  void Failed(Known* known, const std::string& id, bool failed) {
    const bool was = known->failed.contains(id);
    if (failed && !was) {
      known->failed.insert(id);
      ++known->pause.failures;
      StopOnFail(&known->pause);
    } else if (!failed && was) {
      known->failed.erase(id);
      if (known->pause.failures > 0) --known->pause.failures;
    }
  }

  void EndTurn() {
    for (const auto& [name, known] : groups_) {
      Expect(!known.due || !known.live.empty(),
             "group " + name + " does not finish with its last member");
    }
  }

  std::map<std::string, Known> groups_;
  std::deque<std::shared_ptr<Mark>> marks_;
  std::deque<std::pair<std::vector<Event>, bool>> turns_;
  std::set<std::string> unsure_;
  std::set<std::string> never_sure_;
  std::string problem_;
};

}  // namespace dfsmr
