// The feed: what is predicted must be what it tells, and what it tells besides must be due.
#include <algorithm>

#include "tests/sim/model/model.h"

namespace dfsmr::model {
namespace {

std::string Text(const Event& event) {
  return "kind " + std::to_string(static_cast<int>(event.kind)) + " of " + event.instance + " v" +
         std::to_string(event.version) + " " + event.prev_node + " -" + event.transition + "-> " +
         event.node + " visit " + std::to_string(event.visit) + " attempt " +
         std::to_string(event.attempt) + " left " + std::to_string(event.left_visit) + " " +
         event.params + " " + event.note + " " + event.client;
}

bool SameSample(const Life& life, const Lasted& expected, const Event& event,
                const Event::Sample& told) {
  const auto at = life.claimed_at.find(expected.claim);
  if (at == life.claimed_at.end()) return true;  // of before a crash
  const Duration took = expected.until.value_or(event.time) - at->second;
  const Duration replaces = expected.replaces ? *expected.replaces - at->second : Duration();
  return told.node == expected.node && told.censored == expected.censored &&
         told.retry == expected.retry && told.took == took && told.replaces == replaces;
}

}  // namespace

void Model::BeginTurn(const std::vector<Event>& events, std::set<std::string> cancelled) {
  ++turn_;
  cancelled_now_ = std::move(cancelled);
  touched_.clear();
  claimed_now_.clear();
  feed_.Tell(events, /*unheard=*/false);
  durations_.Learn(events);
  for (const Event& event : events) {
    if (IsDry(event)) continue;
    if (event.kind == ChangeKind::kBreakerOpened) open_breakers_.insert(event.machine);
    if (event.kind == ChangeKind::kBreakerClosed) closed_now_.insert(event.machine);
    if (event.kind == ChangeKind::kBreakerOpened || event.kind == ChangeKind::kBreakerClosed) {
      breakers_.push_back(event);
    }
    if (event.instance.empty()) continue;
    touched_.insert(event.instance);
    queues_[event.instance].push_back(event);
  }
}

void Model::Clock(Timestamp now, Timestamp until) {
  now_ = std::max(now_, now);
  reached_ = std::max(reached_, now_);
  until_ = until;
}

// Matching ---------------------------------------------------------------------------------------

// What ends an attempt tells when it began, and nothing else does.
static bool BeganThen(const Life& life, const Expected& expected, const Event& event) {
  ClaimId ended;
  if (event.kind == ChangeKind::kRelinquished) ended = expected.claim;
  const bool reported = event.kind == ChangeKind::kTransitioned && !event.samples.empty() &&
                        !event.samples.front().censored;
  if ((reported || event.kind == ChangeKind::kTimedOut) && !expected.samples.empty()) {
    ended = expected.samples.front().claim;
  }
  if (ended == ClaimId()) return event.begin_time == Timestamp();
  const auto at = life.claimed_at.find(ended);
  return at == life.claimed_at.end() || at->second == event.begin_time;
}

std::string Model::Difference(Life& life, const Expected& expected, const Event& event) const {
  const Event& want = expected.event;
  const bool told = want.kind == ChangeKind::kFinished || want.kind == ChangeKind::kTransitioned;
  const bool note = !told || event.note.starts_with(want.note);
  const bool params = want.kind != ChangeKind::kTransitioned || want.params == event.params;
  const bool same = want.kind == event.kind && want.machine == event.machine &&
                    want.version == event.version && want.prev_node == event.prev_node &&
                    want.node == event.node && want.transition == event.transition &&
                    want.visit == event.visit && want.attempt == event.attempt &&
                    want.left_visit == event.left_visit && want.answer == event.answer &&
                    expected.client.value_or(event.client) == event.client &&
                    BeganThen(life, expected, event) && !event.about && !event.package;
  if (!same || !note || !params)
    return "the feed tells " + Text(event) + " instead of " + Text(want);
  bool samples = expected.samples.size() == event.samples.size();
  for (size_t i = 0; samples && i < event.samples.size(); ++i) {
    samples = SameSample(life, expected.samples[i], event, event.samples[i]);
  }
  return samples ? "" : "how long attempts took is learned wrongly at " + Text(event);
}

void Model::Matched(Life& life, const Expected& expected, const Event& event) {
  if (event.kind == ChangeKind::kClaimed) {
    life.claimed_at[expected.claim] = event.time;
    claimed_now_[expected.claim] = event;
  }
  for (size_t i = 0; i < event.samples.size(); ++i) {
    if (event.samples[i].censored) {
      cut_short_[expected.samples[i].claim] = {event.machine, event.samples[i]};
    }
  }
  if (event.kind == ChangeKind::kRelinquished) NoteGivenBack(expected.claim);
  if (event.kind == ChangeKind::kFinished) life.ended_at = event.time;
  // Where it was cancelled, if that came with it.
  auto& stands = life.left.contains(expected.enters) ? life.left : life.stands;
  const auto entered = stands.find(expected.enters);
  if (expected.enters == 0 || entered == stands.end()) return;
  Stand& stand = entered->second;
  const Duration off = event.time - stand.since;
  stand.since = event.time;
  if (stand.latest != kNever) {
    stand.earliest += off;
    stand.latest += off;
  }
}

ChangeKind Model::NextOf(const std::string& id) const {
  const auto queue = queues_.find(id);
  return queue == queues_.end() || queue->second.empty() ? ChangeKind::kNone
                                                         : queue->second.front().kind;
}

// As far as both go.
void Model::Match(Life& life) {
  auto& queue = queues_[life.id];
  while (!queue.empty() && !life.expected.empty() && problem_.empty()) {
    const ChangeKind next = life.expected.front().event.kind;
    const std::string difference = Difference(life, life.expected.front(), queue.front());
    // A claim that the feed has not told of yet may be taken back in this turn, untold.
    if (!difference.empty() && next == ChangeKind::kClaimed) return;
    Expect(difference.empty(), difference);
    Matched(life, life.expected.front(), queue.front());
    life.expected.pop_front();
    queue.pop_front();
  }
}

// By itself --------------------------------------------------------------------------------------

void Model::Follow(Life& life) {
  auto& queue = queues_[life.id];
  for (const Event& event : queue) FollowPlan(life, event);
  queue.clear();
}

void Model::Work() {
  bool more = true;
  while (more && problem_.empty()) {  // one thing may lead to another, of another instance
    more = false;
    for (auto& [id, queue] : queues_) {
      const auto known = lives_.find(id);
      if (queue.empty() || known == lives_.end()) continue;  // its start comes later in this turn
      const size_t before = queue.size();
      if (known->second.opaque) Follow(known->second);
      while (!known->second.opaque && Explain(known->second)) {
      }
      more = more || queue.size() < before;
    }
  }
}

// The next thing that the feed tells of an instance, if nobody has asked for it: applied, when the
// contract allows it by now. False: there is none, or it comes later in this turn.
bool Model::Explain(Life& life) {
  Match(life);
  const auto& queue = queues_[life.id];
  if (queue.empty() || !problem_.empty()) return false;
  const Event event = queue.front();
  if (event.time >= until_ && until_ > now_) return false;
  switch (event.kind) {
    case ChangeKind::kUpgraded:
    case ChangeKind::kAborted:
    case ChangeKind::kCancelled:
      if (life.Stopped() || !LeftBehind(life.machine, life.version)) return false;
      MoveOn(life);
      return true;
    case ChangeKind::kTimedOut: {
      Stand* const at = life.At(event.visit);
      if (!at) return false;
      for (Claimed& claim : at->claims) {
        if (!claim.Live() || claim.attempt != event.attempt) continue;
        if (claim.deadline > now_ + kSlack) return false;
        RulesOf(life).TimeOut(*at, claim);
        return true;
      }
      return false;
    }
    case ChangeKind::kTransitioned: {
      Stand* const left = life.At(event.left_visit);
      if (!left || event.answer) return false;
      Stand& stand = *left;
      if (RulesOf(life).IsWork(stand)) {
        if (event.error_kind != "unclaimed" || life.state != InstanceState::kRunning) return false;
        RulesOf(life).MakeReady(stand, now_ + kSlack);
        const Duration timeout = NodeAt(life, stand).settings->bounds.ready_timeout;
        const bool due = timeout > Duration() && stand.ready_at + timeout <= now_ + kSlack;
        if (stand.state != TokenState::kReady || !due) return false;
        RulesOf(life).Unclaimed(stand);
        return true;
      }
      if (stand.state != TokenState::kWaiting || stand.earliest > now_ + kSlack) return false;
      RulesOf(life).EndWait(stand);
      return true;
    }
    case ChangeKind::kStarted:
    case ChangeKind::kFinished: {
      const InstanceState before = life.state;
      StartDue(life);
      if (life.state == before) Prerequisites(life);
      return life.state != before;
    }
    default:
      return false;
  }
}

// What should have happened by now, and has not.
void Model::Overdue(const Life& life) {
  if (life.Stopped()) return;
  for (const auto& [visit, stand] : life.stands) {
    const std::string where = life.id + " at " + stand.node;
    for (const Claimed& claim : stand.claims) {
      Expect(!claim.Live() || claim.deadline > now_, "a claim of " + where + " is not timed out");
    }
    Expect(stand.state != TokenState::kWaiting || stand.latest > now_, where + " waits for ever");
    const Duration timeout = NodeAt(life, stand).settings->bounds.ready_timeout;
    const bool lies = timeout > Duration() && stand.state == TokenState::kReady &&
                      life.state == InstanceState::kRunning && !stand.TimedOutBefore();
    Expect(!lies || stand.ready_by + timeout + kSlack > now_, where + " lies ready for ever");
  }
  if (!life.stands.empty() || life.state != InstanceState::kScheduled) return;
  const bool may = !life.hold && life.after.empty();
  Expect(!may || life.start_at > now_, life.id + " is due and does not begin");
  Expect(life.start_before >= now_, life.id + " is too late and does not stop");
}

void Model::EndPass(bool served) {
  for (auto& [id, life] : lives_) {
    if (life.opaque) continue;
    for (auto& [visit, stand] : life.stands) {
      if (stand.latest <= now_) RulesOf(life).MakeReady(stand, now_);
    }
    Overdue(life);
  }
  if (served) CheckWaiters();
  CheckOpenBreakers();
}

void Model::EndTurn() {
  for (const auto& [id, queue] : queues_) {
    if (queue.empty() || lives_.contains(id)) continue;
    Life& life = lives_[id];  // a plan has started it, or a hook
    life.id = id;
    life.opaque = true;
    life.machine = queue.front().machine;
  }
  Work();
  for (auto& [id, life] : lives_) Prerequisites(life);
  until_ = kNever;
  Work();
  for (auto& [id, queue] : queues_) {
    // Handed out to somebody who was not told, as its stream was closed meanwhile; or in a pass
    // that cannot be told from what they were told. It was ready, and that is all that is known.
    if (!queue.empty() && queue.front().kind == ChangeKind::kClaimed) {
      Life& life = lives_.at(id);
      const Stand* const at = life.At(queue.front().visit);
      life.adopt = at && at->state == TokenState::kReady &&
                   at->attempts + 1 == queue.front().attempt;
      if (life.adopt) queue.clear();
    }
    Expect(queue.empty(),
           "nobody asked for this, nor was it due: " + (queue.empty() ? "" : Text(queue.front())));
  }
  queues_.clear();
  // The feed may tell of a claim within a second; of anything else at once.
  for (const auto& [id, life] : lives_) {
    for (const Expected& one : life.expected) {
      Expect(one.event.kind == ChangeKind::kClaimed, "the feed does not tell " + Text(one.event));
    }
  }
  feed_.EndTurn();
  for (const Event& event : std::exchange(breakers_, {})) CheckBreaker(event);
  for (const std::string& machine : std::exchange(closed_now_, {})) open_breakers_.erase(machine);
}

}  // namespace dfsmr::model
