// The rows of the store against what the model knows, and what a crash leaves of both.
#include <algorithm>

#include "tests/sim/compare.h"
#include "tests/sim/model/model.h"

namespace dfsmr::model {
namespace {

std::string TextOf(const std::optional<Durations::Range>& may, std::optional<Duration> is) {
  return std::to_string(is ? is->count() : 0) + " us instead of " +
         (may ? std::to_string(may->from.count()) + " to " + std::to_string(may->to.count())
              : "none");
}

}  // namespace

Life Model::LifeOf(const Row& stored) const {
  const Instance& row = stored.instance;
  Life life;
  const auto known = lives_.find(row.id);
  if (known != lives_.end()) life = known->second;
  life.id = row.id;
  life.machine = row.machine;
  life.version = row.version;
  life.state = row.state;
  life.result = row.result;
  life.priority = row.priority;
  life.params = stored.spec.params;
  life.start_at = row.start_at;
  life.start_before = row.start_before;
  life.ended_at = row.end_time;
  life.hold = row.waits.Has(Wait::kHold);
  life.opaque = only_follows_ || row.plan || row.parent_step || row.provenance || life.opaque;
  life.after = row.after;
  life.cancel_requested = row.Cancelling();
  life.stuck = row.waits.Has(Wait::kStuck);
  life.last_visit = row.last_visit;
  life.stands.clear();
  life.expected.clear();
  life.paused = row.state == InstanceState::kPaused;
  if (life.opaque) return life;
  life.entries.clear();
  for (const auto& [node, entries] : row.entries) life.entries[node] = entries;
  life.resumable = row.resumable;
  life.left.clear();
  const auto fill = [&](const Token& token, Stand& stand) {
    const std::string node(NodeName(MachineOf(life), token.node));
    stand = {node, token.visit, token.state, token.attempt, token.params};
    if (token.late) stand.late = rules::ReportOf(row, token.visit, *token.late);
    stand.tries = TriesOf(token);
    stand.ready_at = stand.ready_by = now_;
    stand.since = token.available_at;
    stand.earliest = stand.latest = token.available_at;
    for (const Claim& claim : token.claims) {
      Claimed& one = stand.claims.emplace_back(
          Claimed{claim.id, claim.attempt, claim.deadline, claim.timed_out, claim.given_back});
      one.untold = claim.given_back && claim.ended;
      one.retry = claim.retry;
      one.worker = claim.worker;
      if (claim.sampled != Duration()) one.outlasted = claim.claim_time + claim.sampled;
      life.claimed_at[claim.id] = claim.claim_time;
    }
  };
  for (const Token& token : row.tokens) fill(token, life.stands[token.visit]);
  for (const auto& [key, token] : row.tokens.left()) fill(token, life.left[token.visit]);
  return life;
}

// `exact`: the row was written after all that the model has seen of the instance.
void Model::CompareOne(const Row& stored, bool exact) {
  const Instance& row = stored.instance;
  const auto known = lives_.find(row.id);
  if (known == lives_.end()) {
    return Expect(row.plan || !row.parent.empty(), row.id + " was never started");
  }
  if (known->second.adopt) {
    known->second = LifeOf(stored);
    known->second.adopt = false;
  }
  const Life& life = known->second;
  if (life.opaque) {
    const bool followed = resumed_ && !row.parent.empty();  // children are resumed with theirs
    return Expect(!life.cancel_requested || followed || row.Cancelling() || row.Stopped(),
                  row.id + " was cancelled, and does not know");
  }
  const Life other = LifeOf(stored);
  const std::string difference = DifferenceOf(life, other, exact, now_);
  Expect(difference.empty(), difference);
}

void Model::Compare(const Rows& rows) {
  for (const auto& [id, row] : rows) CompareOne(row, /*exact=*/true);
  for (const auto& [id, life] : lives_) {
    const bool there = rows.contains(id);
    Expect(there || Expired(life), id + " is gone");
    // Once a second the server looks for what has expired.
    Expect(!there || !Expired(life, std::chrono::seconds(3)), id + " has outlived its retention");
  }
}

void Model::CompareFeed(const std::vector<Event>& stored, uint64_t first) {
  if (now_ < reached_) return;  // the clock has gone back: what was dropped is not old any more
  feed_.Compare(stored, first, now_);
}

// What GetMachine shows of how long work takes: nothing without a sample.
void Model::CompareMachines(const std::vector<MachineView>& views) {
  const auto same = [](const std::optional<Durations::Range>& may, std::optional<Duration> shown) {
    return may ? shown && may->Holds(*shown) : !shown;
  };
  for (const MachineView& view : views) {
    const Machine& machine = view.definition->machine;
    const bool known = machine.IsPlain() && Followed(machine.id);
    for (size_t i = 0; known && i < view.nodes.size(); ++i) {
      const Node& node = machine.nodes[i];
      const NodeStats& shown = view.nodes[i];
      const TimeoutPolicy& policy = node.settings->timeout;
      const std::string where = " of " + machine.id + " at " + node.id + " is ";
      if (node.kind != NodeKind::kWork) continue;
      const auto p50 = durations_.Quantile(machine.id, node.id, 50);
      const auto p95 = durations_.Quantile(machine.id, node.id, 95);
      Expect(same(p50, shown.p50), "the p50" + where + TextOf(p50, shown.p50));
      Expect(same(p95, shown.p95), "the p95" + where + TextOf(p95, shown.p95));
      if (policy.AtMostOnce()) continue;
      const auto now = durations_.Timeout(machine.id, node.id, policy, /*retry=*/false,
                                          {shown.claimed, ClaimsAt(machine.id, node.id)});
      Expect(same(now, shown.timeout_now), "the timeout" + where + TextOf(now, shown.timeout_now));
    }
  }
}

// Claims that live, of all versions.
size_t Model::ClaimsAt(const std::string& machine, const std::string& node) const {
  size_t claims = 0;
  for (const auto& [id, life] : lives_) {
    if (life.machine != machine) continue;
    for (const auto& [visit, stand] : life.stands) {
      if (stand.node != node) continue;
      claims += static_cast<size_t>(std::ranges::count_if(stand.claims, &Claimed::Live));
    }
  }
  return claims;
}

bool Model::Followed(const std::string& machine) const {
  return std::ranges::none_of(lives_, [&](const auto& named) {
    return named.second.machine == machine && named.second.opaque;
  });
}

// All that the server had not written is forgotten: claims that the feed has not told of, and what
// was not durable of the rest.
void Model::Crashed(const std::vector<Event>& events, std::set<std::string> unknown,
                    const Rows& rows, const std::vector<const Machine*>& defined, Timestamp latest,
                    Timestamp now) {
  now_ = std::max(now_, latest);
  unheard_ = unheard_ || !events.empty() || !unknown.empty();
  AdoptDefinitions(defined, !events.empty());
  feed_.Tell(events, /*unheard=*/true);
  durations_.Learn(events);
  for (const Event& event : events) {
    if (IsDry(event)) continue;
    unknown.insert(event.instance);
    if (event.answer) lives_[event.instance].answers[event.answer->claim] = *event.answer;
    if (event.note == "resumed with force") VoidLost(lives_[event.instance]);
  }
  for (auto& [id, life] : lives_) {
    // One that came too late, of a call that nobody heard of, may have told how long work took.
    const auto calls = unknown.contains(id) ? life.claimed_at : decltype(life.claimed_at)();
    for (const auto& [claim, at] : calls) ReportedLate(life, claim);
    for (const Expected& one : life.expected) {
      for (auto& [visit, stand] : life.stands) {
        stand.attempts -= static_cast<uint32_t>(
            std::erase_if(stand.claims, [&](const Claimed& c) { return c.id == one.claim; }));
      }
    }
    life.expected.clear();
    const auto row = rows.find(id);
    bool heard = row != rows.end() && !unknown.contains(id);
    for (const auto& one : life.after) heard = heard && !unknown.contains(one.instance);
    if (heard) CompareOne(row->second, /*exact=*/false);
  }
  Adopt(rows, unknown);
  waiters_.clear();
  queues_.clear();
  open_breakers_.clear();
  attempts_.clear();
  closed_now_.clear();
  stopping_ = false;
  now_ = now;  // it may be earlier than before: what lies ready does so since then
  for (auto& [id, life] : lives_) {
    for (auto& [visit, stand] : life.stands) stand.ready_at = stand.ready_by = now;
  }
}

void Model::AdoptDefinitions(const std::vector<const Machine*>& defined, bool unheard) {
  std::map<std::string, std::vector<Machine>> machines;
  for (const Machine* machine : defined) machines[machine->id].push_back(*machine);
  for (const auto& [id, versions] : machines) {
    const size_t known = machines_[id].size();
    Expect(versions.size() == known || (unheard && versions.size() > known),
           id + " has other versions after a crash");
  }
  machines_ = std::move(machines);
}

void Model::Adopt(const Rows& rows, const std::set<std::string>& unknown) {
  std::map<std::string, Life> lives;
  for (const auto& [id, row] : rows) {
    Life life = LifeOf(row);
    for (const auto& [text, handed] : handed_) {
      if (handed.instance != id || handed.once || voided_.contains(text)) continue;
      for (auto* stands : {&life.stands, &life.left}) {
        const auto at = stands->find(handed.visit);
        if (at == stands->end() || at->second.Find(handed.id)) continue;
        at->second.lost.insert(handed.id);
      }
    }
    life.unheard = life.unheard || unknown.contains(id);
    lives[id] = std::move(life);
  }
  for (const auto& [id, life] : lives_) {
    const bool may = Expired(life) || unknown.contains(id);
    Expect(lives.contains(id) || may || life.opaque, id + " is gone after a crash");
  }
  lives_ = std::move(lives);
}

void Model::Hold(const std::vector<Task>& tasks) {
  for (const Task& task : tasks) {
    handed_[task.claim] = {task.instance, task.visit, task.claim_id, task.deadline == kNever};
  }
}

}  // namespace dfsmr::model
