// Who is given which work, in which order, and that nobody waits for work that is there.
#include <algorithm>
#include <tuple>

#include "fsm/base/json.h"
#include "tests/sim/model/model.h"

namespace dfsmr::model {

// Agents are written out in the machines that it follows.
bool Model::Matches(const Wish& wish, const Life& life, const Stand& stand) const {
  const Filter& filter = wish.filter;
  const Node& node = NodeAt(life, stand);
  const RunsOn& runs_on = node.settings->runs_on;
  for (const std::string& word : runs_on.capabilities) {
    if (std::ranges::count(filter.capabilities, word) == 0) return false;
  }
  const auto same = [](const std::string& wanted, const std::string& is) {
    return wanted.empty() || wanted == is;
  };
  return same(runs_on.agent, wish.worker) && same(filter.machine, life.machine) &&
         same(filter.node, stand.node) && same(filter.action, node.settings->action) &&
         same(filter.queue, node.settings->queue);
}

// It is ready, nobody has paused it, and no new version has left it behind. While a breaker is not
// closed it decides when retries are handed out.
bool Model::MayHandOut(const Life& life, const Stand& stand) const {
  if (life.opaque || life.state != InstanceState::kRunning) return false;
  if (stand.state != TokenState::kReady || LeftBehind(life.machine, life.version)) return false;
  return !stand.TimedOutBefore() || !open_breakers_.contains(life.machine);
}

// Node priority and instance priority add up.
int64_t Model::PriorityOf(const Life& life, const Stand& stand) const {
  return int64_t{NodeAt(life, stand).settings->priority} + life.priority;
}

void Model::CheckOrder(const Task& task, const Life& given, const Stand& stand, const Wish& wish) {
  const Filter& filter = wish.filter;
  for (const auto& [id, life] : lives_) {
    for (const auto& [visit, other] : life.stands) {
      if (&other == &stand || !MayHandOut(life, other) || !Matches(wish, life, other)) continue;
      const int64_t more = PriorityOf(life, other) - PriorityOf(given, stand);
      Expect(more <= 0,
             task.instance + " is handed out before " + id + ", which has a higher priority");
      const bool one_queue = life.machine == given.machine &&
                             (!filter.machine.empty() || other.node == stand.node) &&
                             life.version == given.version;
      Expect(more != 0 || !one_queue || other.SinceTo() >= stand.SinceFrom(),
             task.instance + " is handed out before " + id + ", which is older");
    }
  }
}

// A fixed timeout is what it says, and a percentile what the attempts so far give.
void Model::CheckDeadline(const Task& task, const Life& life, const Stand& stand) {
  const TimeoutPolicy& policy = NodeAt(life, stand).settings->timeout;
  if (policy.AtMostOnce()) {
    return Expect(task.deadline == kNever, "work that runs at most once has a deadline");
  }
  if (!Followed(life.machine)) return;
  const auto may = durations_.Timeout(life.machine, stand.node, policy, stand.TimedOutBefore(),
                                      {0, ClaimsAt(life.machine, stand.node) + 1});
  // It may have been claimed in another pass of the turn.
  constexpr Duration kPasses = std::chrono::milliseconds(200);
  Expect(task.deadline >= now_ + may.from - kPasses && task.deadline <= now_ + may.to + kPasses,
         "the deadline of " + task.instance + " at " + task.node + " is not its node's: " +
             std::to_string(Micros(task.deadline) - Micros(now_)) + " us from now instead of " +
             std::to_string(may.from.count()) + " to " + std::to_string(may.to.count()));
}

void Model::HandOut(const Task& task, const Wish& wish, uint64_t stream) {
  const auto known = lives_.find(task.instance);
  if (known == lives_.end() || known->second.opaque) {
    NoteAttempt(task.machine, {task.claim_id, now_, true, true});
    if (known != lives_.end()) CheckStep(task, known->second);
    if (stream != 0) waiters_[stream].blind = true;
    return;
  }
  Life& life = known->second;
  while (Explain(life)) {
  }
  Stand* const at = life.At(task.visit);
  if (at) RulesOf(life).MakeReady(*at, now_ + kSlack);
  const bool ready =
      at && at->state == TokenState::kReady && life.state == InstanceState::kRunning;
  Expect(ready, "a task of " + task.instance + " is handed out in visit " +
                    std::to_string(task.visit) + ", where it is not ready");
  if (!ready) return;
  Stand& stand = *at;
  const Node& node = NodeAt(life, stand);
  Expect(task.node == stand.node && task.machine == life.machine && task.version == life.version &&
             task.action == node.settings->action && task.queue == node.settings->queue,
         "a task of " + task.instance + " says another node, machine, version, action or queue");
  Expect(task.attempt == stand.attempts + 1, "attempt " + std::to_string(task.attempt) + " of " +
                                                 task.instance + " is handed out after " +
                                                 std::to_string(stand.attempts));
  Expect(task.node_params == stand.params && task.spec && task.spec->params == life.params,
         "a task of " + task.instance + " holds other params");
  Expect(task.tries == stand.tries && task.tries_limit == node.settings->retry.limit &&
             task.run_timeout == node.settings->bounds.run_timeout,
         "a task of " + task.instance + " counts its tries wrongly");
  CheckDeadline(task, life, stand);
  Expect(Matches(wish, life, stand), task.instance + " is handed out to another filter");
  CheckOrder(task, life, stand, wish);
  Claimed claim{.id = task.claim_id, .deadline = task.deadline, .stream = stream};
  claim.worker = wish.worker;
  NoteAttempt(life.machine, {claim.id, now_, stand.TimedOutBefore(), false});
  RulesOf(life).Claim(stand, claim);
  Match(life);
}

// Nodes take turns: no two tasks in a row are of one while another has work of their priority.
void Model::CheckTurns(const Wish& wish, const std::vector<Task>& tasks) {
  using Line = std::tuple<int64_t, std::string, uint32_t, std::string>;
  const auto line = [&](const Life& life, const Stand& stand) {
    return Line{PriorityOf(life, stand), life.machine, life.version, stand.node};
  };
  Line last;
  for (const Task& task : tasks) {
    const auto known = lives_.find(task.instance);
    const bool followed = known != lives_.end() && !known->second.opaque;
    const Stand* given = followed ? known->second.At(task.visit) : nullptr;
    const Line before = std::exchange(last, given ? line(known->second, *given) : Line());
    for (const auto& [id, other] : lives_) {
      for (const auto& [visit, at] : other.stands) {
        const bool same = given && last == before;
        if (!same || !MayHandOut(other, at) || !Matches(wish, other, at)) continue;
        const Line its = line(other, at);
        Expect(its == last || std::get<0>(its) != std::get<0>(last) ||
                   !NodeAt(other, at).settings->runs_on.agent.empty(),
               task.instance + " is handed out, and it is the turn of " + id);
      }
    }
  }
}

bool Model::HasWork(const Wish& wish, std::string* which) const {
  for (const auto& [id, life] : lives_) {
    if (NextOf(id) == ChangeKind::kClaimed) continue;  // it is handed out in this turn
    for (const auto& [visit, stand] : life.stands) {
      if (!MayHandOut(life, stand) || !Matches(wish, life, stand)) continue;
      *which = id + " at " + stand.node;
      return true;
    }
  }
  return false;
}

size_t Model::InHand(uint64_t stream) const {
  size_t count = 0;
  for (const auto& [id, life] : lives_) {
    for (const auto& [visit, stand] : life.stands) {
      for (const Claimed& claim : stand.claims) count += claim.Live() && claim.stream == stream;
    }
  }
  return count;
}

void Model::CheckWaiters() {
  std::string which;
  for (const auto& [id, waiter] : waiters_) {
    if (waiter.draining || stopping_ || waiter.blind) continue;
    if (waiter.stream && InHand(id) >= waiter.room) continue;
    const bool work = HasWork(waiter.wish, &which);
    Expect(!work, std::string(waiter.stream ? "a stream with room" : "a poll") + " waits, and " +
                      which + " is ready");
  }
}

void Model::Poll(const PollArgs& args, uint64_t waiter, bool waits,
                 const std::vector<Task>& tasks) {
  std::string which;
  const Wish wish{args.filter, args.worker};
  if (waits) {
    waiters_[waiter] = {.wish = wish, .room = static_cast<size_t>(args.max_tasks)};
    return;
  }
  for (const Task& task : tasks) HandOut(task, wish, 0);
  if (args.filter.machine.empty() && !only_follows_ && problem_.empty()) CheckTurns(wish, tasks);
  const auto most = static_cast<size_t>(args.max_tasks);
  Expect(tasks.size() <= most, "a poll is given more than it asked for");
  const bool more = !stopping_ && tasks.size() < most && HasWork(wish, &which);
  Expect(!more,
         "a poll is given " + std::to_string(tasks.size()) + " tasks, and " + which + " is ready");
}

void Model::EndPoll(uint64_t waiter) {
  const auto it = waiters_.find(waiter);
  if (it != waiters_.end() && !it->second.stream) waiters_.erase(it);
}

void Model::Open(uint64_t waiter, const Filter& filter, const std::string& worker,
                 size_t capacity) {
  waiters_[waiter] = {.wish = {filter, worker}, .room = capacity, .stream = true};
}

void Model::Drain(uint64_t waiter) { waiters_[waiter].draining = true; }

// What a closed stream has in hand goes back, but for what runs at most once.
void Model::Close(uint64_t waiter) {
  waiters_.erase(waiter);
  for (auto& [id, life] : lives_) {
    for (auto& [visit, stand] : std::map(life.stands)) {
      for (const Claimed& claim : stand.claims) {
        if (!claim.Live() || claim.stream != waiter) continue;
        MoveOn(life);
        if (!life.stands.contains(visit)) break;
        if (NodeAt(life, stand).AtMostOnce()) continue;
        std::string node;
        (void)RulesOf(life).Relinquish({true, true, visit, claim.id}, &node);
        Match(life);
      }
    }
  }
}

// `perhaps`: nobody knows whether they arrived; what runs at most once stays claimed then.
void Model::Undelivered(const std::vector<Task>& tasks, bool perhaps) {
  for (auto task = tasks.rbegin(); task != tasks.rend(); ++task) {
    const auto known = lives_.find(task->instance);
    if (known == lives_.end() || known->second.opaque) continue;
    Life& life = known->second;
    MoveOn(life);
    Stand* const at = life.At(task->visit);
    const Claimed* const claim = at ? at->Find(task->claim_id) : nullptr;
    if (!claim || !claim->Live() || (perhaps && NodeAt(life, *at).AtMostOnce())) continue;
    voided_.insert(task->claim);
    NoteGivenBack(task->claim_id);
    // The feed tells of a claim that it has told of, and of no other.
    const bool told = std::ranges::none_of(
        life.expected, [&](const Expected& one) { return one.claim == task->claim_id; });
    const bool ends = NextOf(life.id) == ChangeKind::kRelinquished;
    const auto now = claimed_now_.find(task->claim_id);
    const bool another = told && !ends && now != claimed_now_.end();
    if (another) queues_[life.id].push_front(now->second);  // it is of the claim that came after
    RulesOf(life).Unclaim(*at, task->claim_id, told && !another);
    Match(life);
  }
}

void Model::StopHandingOut() {
  stopping_ = true;
  waiters_.clear();
}

// Claims are numbered in the order in which they are made.
void Model::Serve(std::vector<Served> served, std::vector<Served>* late) {
  for (Served one : *late) {
    one.late = true;
    served.push_back(std::move(one));
  }
  for (const Served& one : served) {  // the time between two tries may be over
    const auto known = lives_.find(one.task.instance);
    if (known == lives_.end() || known->second.opaque) continue;
    Stand* const at = known->second.At(one.task.visit);
    if (at) RulesOf(known->second).MakeReady(*at, now_ + kSlack);
  }
  std::set<uint64_t> later;  // polls that are answered in a later pass, with all of their tasks
  for (const Served& one : *late) {
    const auto waiter = waiters_.find(one.waiter);
    const bool poll = waiter != waiters_.end() && !waiter->second.stream;
    if (poll && !Fits(one, waiter->second)) later.insert(one.waiter);
  }
  std::ranges::sort(served, {}, [](const Served& one) { return one.task.claim_id; });
  for (const Served& one : served) {
    if ((one.late && later.contains(one.waiter)) || !ServeOne(one)) continue;
    std::erase_if(*late, [&](const Served& other) { return other.task.claim == one.task.claim; });
  }
}

// Whether it may have been handed out just now.
bool Model::Fits(const Served& served, const Waiter& waiter) {
  const auto known = lives_.find(served.task.instance);
  if (known == lives_.end()) return false;  // it starts in a later pass, or is a plan's child
  Life& life = known->second;
  if (life.opaque) return true;
  const Stand* const at = life.At(served.task.visit);
  const bool ready = at && at->attempts + 1 == served.task.attempt &&
                     at->state == TokenState::kReady && life.state == InstanceState::kRunning;
  return ready && (!waiter.stream || waiter.blind || InHand(served.waiter) < waiter.room);
}

// False: it is handed out in a later pass of this turn.
bool Model::ServeOne(const Served& served) {
  const auto it = waiters_.find(served.waiter);
  if (it == waiters_.end()) {
    Expect(served.late, "somebody who does not wait is given a task");
    return false;
  }
  const Waiter is = it->second;
  if (served.late && !Fits(served, is)) {
    it->second.blind = it->second.blind || !lives_.contains(served.task.instance);
    return false;
  }
  HandOut(served.task, is.wish, is.stream ? served.waiter : 0);
  const bool room = is.stream ? is.blind || InHand(served.waiter) <= is.room : is.room > 0;
  Expect(room, "somebody is given more than there was room for");
  if (is.stream) return true;
  --it->second.room;
  if (served.last) waiters_.erase(it);
  return true;
}

}  // namespace dfsmr::model
