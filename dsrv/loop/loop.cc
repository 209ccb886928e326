#include "dsrv/loop/loop.h"

#include <algorithm>

#include "fsm/base/limits.h"

namespace dfsmr {

Loop::Loop(Engine& engine, Store& store, Mailbox& mailbox, Outside outside)
    : engine_(engine),
      store_(store),
      outside_(std::move(outside)),
      mailbox_(mailbox),
      stands_(engine.clock()) {
  committer_ = std::thread([this] { Commit(); });
  decider_ = std::thread([this] { Decide(); });
}

Loop::~Loop() { Stop(); }

void Loop::Stop() {
  mailbox_.Close();
  if (decider_.joinable()) decider_.join();
  if (committer_.joinable()) committer_.join();
}

// Nothing waits for room to come back: callers that were refused ask again. So a server at rest
// need not look, and a server that has slept looks before it does anything. In 10 ms no disk takes
// more than a part of the reserve; a look takes a microsecond or two.
void Loop::LookForRoom() {
  const auto now = std::chrono::steady_clock::now();
  if (!outside_.room || now < room_due_) return;
  room_due_ = now + std::chrono::milliseconds(10);
  engine_.SetRoom(outside_.room());
}

// At most a minute at a time: the wall clock that deadlines are in may be set.
Duration Loop::WaitForMail() const {
  if (target_ || (outside_.virtual_clock && engine_.WorkLeft())) return Duration::zero();
  const Timestamp next = outside_.virtual_clock ? engine_.NextChore() : engine_.NextDeadline();
  return std::clamp<Duration>(next - outside_.clock(), Duration::zero(), std::chrono::minutes(1));
}

Loop::Taken Loop::TakeMail(const std::atomic<bool>* meanwhile) {
  Taken taken = mailbox_.Take(std::chrono::steady_clock::now() + WaitForMail(), meanwhile);
  if (taken && !taken->mail.empty()) {
    const auto now = std::chrono::steady_clock::now();
    for (const Mailbox::Mail& one : taken->mail) meter_.AddWait(now - one.posted);
  }
  return taken;
}

Timestamp Loop::Now() const {
  return outside_.virtual_clock ? stands_.load(std::memory_order_relaxed) : outside_.clock();
}

// Decides what came, and gives the answers that need no commit.
void Loop::Pass(const Taken& taken, Timestamp real, StageClock* clock) {
  LookForRoom();
  if (!taken) engine_.Flush();
  if (taken) {
    for (const Mailbox::Mail& one : taken->mail)
      one.deadline < real ? one.drop() : one.run(engine_);
  }
  engine_.Work();
  if (outside_.virtual_clock) StepClock();
  clock->Lap(Meter::kDecideUs);
  // What was decided on a store that cannot be read is neither written nor answered.
  if (engine_.broken()) outside_.fail(*engine_.broken());
  for (auto& tell : engine_.TakeAnswers()) tell();
  clock->Lap(Meter::kReplyUs);
}

// False: it was the last turn.
bool Loop::DecideTurn(StageClock* clock) {
  Taken taken = TakeMail(nullptr);
  Timestamp real = outside_.clock();
  engine_.BeginTurn(outside_.virtual_clock ? stands_.load() : real, outside_.entropy(), real);
  size_t items = 0;
  size_t bytes = 0;
  while (true) {
    Pass(taken, real, clock);
    if (!taken) return false;
    items += taken->mail.size();
    bytes += taken->bytes;
    // While the turn before is written this one has to wait, so it takes what comes meanwhile: in a
    // larger batch each item costs less. A full turn takes no more, and is encoded meanwhile. Work
    // that the engine has left over goes on in the next turn.
    if (!writing_ || items >= limits::kTurnItems || bytes >= Mailbox::kTurnBytes ||
        engine_.TurnRecords() >= limits::kTurnItems || engine_.WorkLeft()) {
      return true;
    }
    taken = TakeMail(&writing_);
    if (taken && taken->mail.empty() && !writing_) return true;
    real = outside_.clock();
    engine_.ResumeTurn(outside_.virtual_clock ? stands_.load() : real, outside_.entropy(), real);
  }
}

// After a pass: has the clock show the next time at which something is due. It stays as long as
// there is something left to do at this one.
void Loop::StepClock() {
  while (target_ || BeginAdvance()) {
    if (engine_.WorkLeft()) return;
    const Timestamp next = engine_.NextStep();
    if (engine_.clock() < *target_) {
      stands_ = std::clamp(next, engine_.clock(), *target_);
      return;
    }
    EndAdvance(
        Arrival{engine_.clock(), engine_.NextEvent(), engine_.timers_fired() - fired_before_});
  }
}

// False: the clock is not told to go anywhere.
bool Loop::BeginAdvance() {
  while (!advances_.empty()) {
    Result<Timestamp> target =
        halted_ ? Result<Timestamp>(*halted_) : advances_.front().target(engine_);
    if (target) {
      target_ = *target;
      fired_before_ = engine_.timers_fired();
      return true;
    }
    EndAdvance(target.error());
  }
  return false;
}

void Loop::EndAdvance(Result<Arrival> arrival) {
  engine_.AfterCommit([done = std::move(advances_.front().done), arrival] { done(arrival); });
  advances_.pop_front();
  target_.reset();
}

void Loop::HaltClock(Error why) {
  halted_ = std::move(why);
  stands_ = engine_.clock();
  while (!advances_.empty()) EndAdvance(*halted_);
}

void Loop::Decide() {
  StageClock clock(meter_);
  bool more = true;
  while (more) {
    more = DecideTurn(&clock);
    Turn turn = engine_.EndTurn();
    clock.Lap(Meter::kEncodeUs);
    clock.EndTurn();
    HandOver(std::move(turn));
  }
  const Lock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void Loop::HandOver(Turn turn) {
  if (turn.batch->empty() && turn.after.empty()) {
    // There is nothing to write and no answer waits. But turns are committed in their order.
    const Lock lock(mutex_);
    if (!turn_) engine_.Committed(turn.number);
    return;
  }
  Lock lock(mutex_);
  changed_.Wait(lock, [this]() REQUIRES(mutex_) { return !turn_; });
  turn_ = std::move(turn);
  writing_ = true;
  changed_.NotifyAll();
}

void Loop::Commit() {
  StageClock clock(meter_);
  while (true) {
    Lock lock(mutex_);
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return turn_ || ended_; });
    if (!turn_) return;
    const Turn& turn = *turn_;  // only this thread takes it away: it may be read without the lock
    lock.Unlock();
    if (!turn.batch->empty()) {
      const auto begin = std::chrono::steady_clock::now();
      auto written = store_.Write(engine_.reader().partition, engine_.epoch(), *turn.batch);
      if (!written) {
        outside_.fail(written.error());
        return;
      }
      meter_.AddCommit(*turn.batch, begin);
      clock.Lap(Meter::kCommitUs);
    }
    engine_.Committed(turn.number);
    if (!turn.feed->empty()) {
      meter_.AddRecords(turn.records());
      outside_.publish(turn.feed);
    }
    if (turn.feed_start) outside_.trimmed(turn.feed_start);
    for (auto& tell : turn.after) tell();
    clock.Lap(Meter::kReplyUs);
    lock.Relock();
    turn_.reset();
    writing_ = false;
    changed_.NotifyAll();
    lock.Unlock();
    mailbox_.Wake();
  }
}

}  // namespace dfsmr
