// What must be true of a store whatever happened to its engine, checked by a model of its own: it
// knows machines as graphs, the feed as a list, and nothing of the rules' code.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "tests/dsrv/engine/world.h"

namespace dfsmr {

// The feed from its first record on, also what retention has dropped since.
using Ledger = std::map<uint64_t, Event>;

inline bool IsDryRun(const Event& event) { return event.about && event.about->dry_run; }

inline Ledger LedgerOf(World& world) {
  Ledger ledger;
  for (Event& event : world.Feed()) ledger.emplace(event.seq, std::move(event));
  return ledger;
}

class Audit {
 public:
  explicit Audit(World& world) : Audit(world, LedgerOf(world)) {}
  Audit(World& world, Ledger ledger) : world_(world), feed_(std::move(ledger)) {
    for (const auto& [seq, event] : feed_) {
      if (!event.instance.empty()) told_[event.instance].push_back(&event);
    }
    for (bool stopped : {false, true}) {
      const auto scanned = rows::ScanInstances(
          {world.store(), world.partition()}, stopped, {"", ""},
          world.engine().reader().registry.resolve(), [&](Instance instance) {
            Expect(instance.Stopped() == stopped, instance.id + " lies where it belongs");
            Expect(!instances_.contains(instance.id), instance.id + " is there once");
            instances_.emplace(instance.id, std::move(instance));
            return true;
          });
      Expect(scanned.has_value(), "the instances can be read");
    }
  }

  // The first thing found wrong; empty when all is well.
  const std::string& problem() const { return problem_; }
  const std::map<std::string, Instance>& instances() const { return instances_; }

  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }

  void All() {
    Feed();
    NothingLost();
    for (const auto& [id, instance] : instances_) {
      History(instance);
      NextStep(instance);
    }
    NothingLeft();
    Counters();
  }

  // Numbers without gaps, and what was published is what is kept.
  void Feed() {
    const auto first = rows::FirstSeq({world_.store(), world_.partition()});
    Expect(first.has_value(), "the feed's start can be read");
    if (!first) return;
    uint64_t next = *first;
    for (const Event& kept : world_.Feed()) {
      Expect(kept.seq == next++, "gap in the feed before " + Text(kept));
      const auto known = feed_.find(kept.seq);
      Expect(known != feed_.end() && known->second == kept, "rewritten: " + Text(kept));
    }
    Expect(world_.engine().last_seq() + 1 == next, "the feed ends at the engine's last number");
    Expect(feed_.empty() || feed_.rbegin()->first + 1 == next, "the feed has lost its end");
    std::set<uint64_t> seen;
    for (const Event& event : world_.published()) {
      Expect(seen.insert(event.seq).second, "published twice: " + Text(event));
      const auto kept = feed_.find(event.seq);
      if (kept == feed_.end()) {
        Expect(event.seq < *first, "published but not kept: " + Text(event));
      } else {
        Expect(kept->second == event, "rewritten: " + Text(event) + " as " + Text(kept->second));
      }
    }
  }

  // What began and has not finished is there.
  void NothingLost() {
    for (const auto& [id, events] : told_) {
      bool lives = false;
      for (const Event* event : events) {
        if (event->kind == ChangeKind::kStarted || event->kind == ChangeKind::kScheduled) {
          lives = true;
        }
        if (event->kind == ChangeKind::kFinished) lives = false;
        if (event->kind == ChangeKind::kResumed) lives = true;
      }
      Expect(!lives || instances_.contains(id), id + " has not finished and is gone");
    }
  }

  // An instance that is gone has left no row behind. Keys are as storage/rows/keys.h describes them.
  void NothingLeft() {
    struct Where {
      size_t numbers;  // bytes of them, before the texts
      size_t text;     // which of them is the id
    };
    static const std::map<char, Where> ids = {
        {0x04, {0, 1}}, {0x05, {0, 1}}, {0x07, {0, 1}}, {0x09, {8, 1}}, {0x0A, {0, 3}},
        {0x0B, {0, 2}}, {0x0C, {0, 2}}, {0x10, {0, 1}}, {0x25, {0, 2}}, {0x26, {0, 2}},
        {0x11, {0, 1}}, {0x13, {0, 1}}, {0x14, {0, 1}}, {0x15, {0, 1}}};
    const auto scanned = world_.store().Scan("", "", [&](std::string_view key, std::string_view) {
      const char kind = key.size() > 2 ? key[2] : '\0';
      const auto where = ids.find(kind);
      if (where == ids.end()) return true;
      key.remove_prefix(3 + where->second.numbers);
      for (size_t i = 0; i < where->second.text; ++i) key.remove_prefix(key.find('\0') + 1);
      const std::string id(key.substr(0, key.find('\0')));
      Expect(instances_.contains(id),
             "a row of kind " + std::to_string(kind) + " is left of " + id + ", which is gone");
      return true;
    });
    Expect(scanned.has_value(), "the rows can be read");
  }

  const std::vector<const Event*>& ToldOf(const std::string& id) const {
    static const std::vector<const Event*> none;
    const auto it = told_.find(id);
    return it == told_.end() ? none : it->second;
  }
  const Ledger& feed() const { return feed_; }

  // The history of an instance is what the feed says of it, and a path of its machine.
  void History(const Instance& instance) {
    const std::vector<Event> history = world_.HistoryOf(instance);
    std::vector<uint64_t> told;
    for (const Event* event : ToldOf(instance.id)) told.push_back(event->seq);
    std::vector<uint64_t> kept;
    for (const Event& event : history) kept.push_back(event.seq);
    Expect(told == kept, "history and feed differ for " + instance.id);
    Path(instance, history);
  }

  // Someone or something will take it on.
  void NextStep(const Instance& instance) {
    if (instance.Stopped()) return;
    const Machine& machine = MachineOf(instance);
    const std::string who = instance.id + " has no next step";
    if (instance.tokens.empty()) {
      const bool waits = instance.waits.Has(Wait::kHold) || instance.waits.Has(Wait::kGroup) ||
                         instance.waits.Has(Wait::kLimit) || !instance.after.empty() ||
                         instance.start_at > world_.now();
      Expect((instance.state == InstanceState::kScheduled && waits) ||
                 instance.state == InstanceState::kPaused, who);
    }
    Awaited(instance);
    for (const Token& token : instance.tokens) {
      const Node& node = machine.nodes[token.node];
      switch (token.state) {
        case TokenState::kReady:
          Expect(node.kind == NodeKind::kWork && !token.HasLiveClaim(), who);
          break;
        case TokenState::kClaimed:
          Expect(node.kind == NodeKind::kWork && token.HasLiveClaim(), who);
          for (const Claim& claim : token.claims) {
            Expect(!claim.Live() || node.AtMostOnce() || claim.deadline != kNever, who);
          }
          break;
        case TokenState::kHeld:
          Expect(node.kind == NodeKind::kWork && instance.state == InstanceState::kPaused &&
                     (token.unsaid || !token.error.empty()),
                 who);
          break;
        case TokenState::kWaiting:
          Expect(node.kind == NodeKind::kManual || token.available_at != kNever ||
                     token.WaitsForLimits(),
                 who);
          break;
        default:
          Expect(false, who);
      }
    }
    Expect(!instance.Cancelling() || instance.HasLiveClaim(), instance.id + " hangs in cancel");
  }

  // Whom it waits for is still to stop, and no later version of its machine has taken it on.
  void Awaited(const Instance& instance) {
    for (const Instance::Prerequisite& one : instance.after) {
      const auto other = instances_.find(one.instance);
      Expect(other != instances_.end() && !other->second.Stopped(),
             instance.id + " waits for " + one.instance + ", which has stopped");
    }
    const auto& registry = world_.engine().reader().registry;
    for (uint32_t version = instance.version + 1; instance.version > 0; ++version) {
      const auto later = registry.Find(instance.ns, instance.machine, version);
      if (!later) break;
      Expect(later->machine.upgrade_strategy == UpgradeStrategy::kContinue,
             instance.id + " was left behind at version " + std::to_string(instance.version));
    }
  }

  // GetMachine's numbers are those of the instances and of the feed.
  void Counters() {
    auto views = world_.Do([](Engine& e) {
      return Result<std::vector<MachineView>>(e.ListMachines("ns", true, {"", 0}, 1'000));
    });
    for (const MachineView& view : *views) {
      const auto& definition = *view.definition;
      const std::string who = definition.machine.id + " version " +
                              std::to_string(definition.version);
      MachineStats stats;
      std::vector<NodeStats> nodes(definition.machine.nodes.size());
      for (const auto& [id, instance] : instances_) {
        const bool other = instance.machine != definition.machine.id ||
                           instance.version != definition.version;
        if (other || instance.dry_run) continue;
        switch (instance.state) {
          case InstanceState::kScheduled: ++stats.scheduled; break;
          case InstanceState::kPaused: ++stats.paused; break;
          case InstanceState::kStopped: ++stats.stopped; continue;
          default: ++stats.running;
        }
        for (const Token& token : instance.tokens) {
          NodeStats& node = nodes[token.node];
          if (token.state == TokenState::kReady) ++node.ready;
          if (token.state == TokenState::kClaimed) ++node.claimed;
          if (token.state == TokenState::kWaiting) ++node.waiting;
        }
      }
      for (const auto& [seq, event] : feed_) {
        const bool other =
            event.machine != definition.machine.id || event.version != definition.version;
        if (other || IsDryRun(event)) continue;
        const NodeIndex at = definition.machine.Find(event.prev_node);
        if (at == kNoNode) continue;
        if (event.kind == ChangeKind::kTimedOut) ++nodes[at].timed_out;
        if (event.kind == ChangeKind::kTransitioned && event.left_visit != 0) ++nodes[at].completed;
      }
      Same(who + " scheduled", stats.scheduled, view.stats.scheduled);
      Same(who + " running", stats.running, view.stats.running);
      Same(who + " paused", stats.paused, view.stats.paused);
      Same(who + " stopped", stats.stopped, view.stats.stopped);
      for (size_t i = 0; i < nodes.size(); ++i) {
        const std::string node = who + " node " + definition.machine.nodes[i].id;
        Same(node + " ready", nodes[i].ready, view.nodes[i].ready);
        Same(node + " claimed", nodes[i].claimed, view.nodes[i].claimed);
        Same(node + " waiting", nodes[i].waiting, view.nodes[i].waiting);
        Same(node + " completed", nodes[i].completed, view.nodes[i].completed);
        Same(node + " timed out", nodes[i].timed_out, view.nodes[i].timed_out);
      }
    }
  }

  const Machine& MachineOf(const Instance& instance) {
    return *world_.engine().reader().registry.Resolve(instance.ns, instance.machine,
                                                      instance.version);
  }

 private:
  static std::string Text(const Event& event) {
    return "record " + std::to_string(event.seq) + " kind " +
           std::to_string(static_cast<int>(event.kind)) + " of " + event.instance + " " +
           event.prev_node + " -" + event.transition + "-> " + event.node + " visit " +
           std::to_string(event.visit);
  }
  void Same(const std::string& what, uint64_t counted, uint64_t told) {
    Expect(counted == told, what + ": " + std::to_string(told) + " told, " +
                                std::to_string(counted) + " counted");
  }

  // A node is entered as often as its max_visits allows; then it is passed by, or it all ends.
  void Entered(const Instance& instance, const Event& next, const Node* node,
               std::map<std::string, uint32_t>& entries) {
    if (!node) return;
    if (next.kind == ChangeKind::kTransitioned && next.transition == kExhausted &&
        next.prev_node == node->id) {
      --entries[node->id];
      return;
    }
    const bool ends =
        next.kind == ChangeKind::kFinished || next.kind == ChangeKind::kCancelled;
    const uint32_t most = node->settings->max_visits;
    Expect(ends || most == 0 || entries[node->id] <= most,
           instance.id + " enters " + node->id + " more often than it may");
  }

  // Whether a work node is left for itself: tried again, held, or offered anew. `failed`: its
  // tries.
  bool Stays(const Node& node, const Event& event, uint32_t* failed) {
    if (node.kind != NodeKind::kWork || event.node != node.id) return false;
    if (event.transition == "retry" && !node.FindTransition("retry")) {
      *failed = 0;
      return true;
    }
    if (event.transition != "error") return false;
    const Edge* edge = node.FindTransition("error");
    if (!edge) {
      Expect(!event.error_kind.empty(), Text(event) + " fails without a kind");
      return true;
    }
    Expect(++*failed < node.settings->retry.limit, Text(event) + " is tried too often");
    return true;
  }

  void Path(const Instance& instance, const std::vector<Event>& history) {
    using enum ChangeKind;
    std::string node;
    uint64_t visit = 0;
    bool begun = false, stopped = false, paused = false;
    std::map<uint64_t, int> left;            // visit → reports accepted
    std::map<uint64_t, int> claimed, freed;  // by visit
    std::set<uint64_t> late;                 // since it was resumed last
    std::map<std::string, uint32_t> entries;
    const Node* entered = nullptr;  // by the event before
    uint32_t failed = 0;            // tries of the node where it stands
    for (const Event& event : history) {
      Entered(instance, event, std::exchange(entered, nullptr), entries);
      const std::string who = instance.id + " at " + node + ": " + Text(event);
      const bool resumed = event.kind == kResumed && stopped;
      if (resumed) {  // it goes on where it stood
        stopped = paused = false;
        late.clear();
        Expect(!begun || event.visit != 0 || !event.note.empty(), who + " goes on nowhere");
        node = event.node;
      }
      Expect(!stopped || event.kind == kLate, who + " after it had stopped");
      const auto* machine =
          world_.engine().reader().registry.Resolve(event.ns, event.machine, event.version);
      const NodeIndex at = machine->Find(node);
      switch (event.kind) {
        case kScheduled:
          Expect(!begun, who);
          break;
        case kStarted:
          Expect(!begun && event.visit == 1, who);
          Expect(event.node == machine->nodes[machine->start].id, who);
          begun = true;
          node = event.node;
          visit = event.visit;
          ++entries[node];
          break;
        case kTransitioned: {
          Expect(event.prev_node == node, who + " comes from elsewhere");
          const bool stays = at != kNoNode && Stays(machine->nodes[at], event, &failed);
          if (stays) {
            Expect(event.visit == visit + 1 && event.left_visit == visit, who + " skips a visit");
          } else if (node == kUpgradedNode) {
            Expect(event.visit == visit + 1, who);
            Expect(event.node == machine->nodes[machine->start].id, who);
          } else {
            const NodeIndex from = node == kTimeoutNode ? timed_out_at_ : at;
            Expect(from != kNoNode, who);
            const auto leads = [&](const Edge& edge) {
              return edge.transition == event.transition &&
                     machine->nodes[edge.targets.front()].id == event.node;
            };
            Expect(from != kNoNode && std::ranges::any_of(machine->nodes[from].transitions, leads),
                   who + " is no edge");
            const bool diverted = event.transition == kExhausted;
            Expect(event.visit == (diverted ? visit : visit + 1), who + " skips a visit");
          }
          Expect(!event.answer || event.left_visit != 0, who + " was reported and ends no visit");
          if (event.left_visit != 0) {
            Expect(event.left_visit == visit, who + " ends another visit");
            Expect(++left[event.left_visit] == 1, who + " ends a visit twice");
          }
          node = event.node;
          visit = event.visit;
          if (stays) break;
          failed = 0;
          ++entries[node];
          if (machine->Find(node) != kNoNode) entered = &machine->nodes[machine->Find(node)];
          break;
        }
        case kClaimed: {
          Expect(event.node == node && event.visit == visit && event.attempt > 0, who);
          // A claim that a crash lost is told when it is heard of again, with a note.
          Expect(!paused || !event.note.empty(), who + " while paused");
          const bool once = at != kNoNode && machine->nodes[at].AtMostOnce();
          Expect(!once || claimed[visit] == freed[visit], who + " is claimed twice");
          ++claimed[visit];
          break;
        }
        case kRelinquished:
          Expect(event.node == node && event.visit == visit, who);
          ++freed[visit];
          break;
        case kTimedOut:
          Expect(event.prev_node == node && event.visit == visit, who);
          if (at != kNoNode && machine->nodes[at].FindTransition(kTimeoutNode)) {
            timed_out_at_ = at;
            node = kTimeoutNode;
          }
          break;
        case kUpgraded:
          Expect(event.prev_node == node, who);
          if (begun) node = kUpgradedNode;
          entries.clear();
          break;
        case kAborted:
        case kCancelled:
          node = event.node;
          break;
        case kPaused: paused = true; break;
        case kResumed:
          paused = event.note.find("waits its turn") != std::string::npos;
          break;
        case kLate:
          Expect(stopped && late.insert(event.visit).second, who + " is kept twice");
          break;
        case kFinished:
          stopped = true;
          break;
        default:
          Expect(false, who + " is no change of an instance");
      }
    }
    Expect(!history.empty(), instance.id + " has a history");
    Expect(stopped == instance.Stopped(),
           instance.id + " and its history agree that it has stopped");
    if (instance.tokens.empty()) return;
    const std::string_view stands = NodeName(MachineOf(instance), instance.tokens.front().node);
    Expect(stands == node, instance.id + " stands at " + std::string(stands) +
                               ", its history ends at " + node);
    Expect(instance.last_visit == visit, instance.id + " counts its visits");
    Expect(stopped || instance.tokens.front().visit == visit,
           instance.id + " is at its last visit");
    Expect(stopped || paused == (instance.state == InstanceState::kPaused),
           instance.id + " and its history agree that it is paused");
    size_t listed = 0;
    for (const Claim& claim : instance.tokens.front().claims) listed += claim.attempt > 0;
    Expect(stopped || static_cast<size_t>(claimed[visit]) >= listed,
           instance.id + " has claims that its history does not tell of");
  }

  World& world_;
  const Ledger feed_;
  std::map<std::string, std::vector<const Event*>> told_;  // by instance
  std::map<std::string, Instance> instances_;
  NodeIndex timed_out_at_ = kNoNode;
  std::string problem_;
};

}  // namespace dfsmr
