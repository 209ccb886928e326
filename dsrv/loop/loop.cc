#include "dsrv/loop/loop.h"

#include <algorithm>

#include "fsm/base/limits.h"

namespace dfsmr {
namespace {

// With limits::kTurnItems, what one turn takes: enough for group commit, and little enough that
// what comes next need not wait for long, since it holds some three thousand items.
constexpr size_t kTurnBytes = 256 << 10;
// Less than this may be a few clients that load much at once, and wait for their answers.
constexpr size_t kCrowdBytes = 2 << 20;
constexpr size_t kFew = 64;
constexpr size_t kFewBytes = 8 << 20;
constexpr double kRemembered = 0.9;  // of the pace before, each turn

double ToSeconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

bool Mailbox::FullAt(Moment now) const {
  if (mail_.size() >= limits::kMailboxItems || bytes_ >= limits::kMailboxBytes) return true;
  const bool crowd = mail_.size() > limits::kTurnItems ||
                     bytes_ > (mail_.size() > kFew ? kCrowdBytes : kFewBytes);
  if (!crowd) return false;
  const double waiting = static_cast<double>(bytes_);
  return now - mail_.front().posted > limits::kMailboxWait ||
         (busy_bytes_ > 0 &&
          waiting * busy_seconds_ > ToSeconds(limits::kMailboxWait) * busy_bytes_);
}

bool Mailbox::Full() {
  const auto now = std::chrono::steady_clock::now();
  const Lock lock(mutex_);
  return FullAt(now);
}

bool Mailbox::Post(Mail mail) {
  mail.posted = std::chrono::steady_clock::now();
  bool first;
  {
    const Lock lock(mutex_);
    if (closed_ || (!mail.owed && FullAt(mail.posted))) return false;
    first = mail_.empty();
    bytes_ += mail.bytes;
    mail_.push_back(std::move(mail));
  }
  if (first) arrived_.NotifyOne();
  return true;
}

std::optional<Mailbox::Taken> Mailbox::Take(std::chrono::steady_clock::time_point until,
                                            const std::atomic<bool>* meanwhile) {
  Lock lock(mutex_);
  const bool busy = !mail_.empty();
  wakeable_ = meanwhile != nullptr;
  arrived_.WaitUntil(lock, until, [&]() REQUIRES(mutex_) {
    return closed_ || !mail_.empty() || (meanwhile && !*meanwhile);
  });
  wakeable_ = false;
  if (closed_ && mail_.empty()) return std::nullopt;
  const Moment now = std::chrono::steady_clock::now();
  if (left_over_) {  // the turn before was full: only such ones tell the pace of a crowd
    const auto took = std::min<std::chrono::nanoseconds>(now - taken_at_, limits::kMailboxWait);
    busy_seconds_ = busy_seconds_ * kRemembered + ToSeconds(took);
    busy_bytes_ = busy_bytes_ * kRemembered + taken_bytes_;
  } else if (!busy) {
    busy_seconds_ = busy_bytes_ = 0;
  }
  Taken taken;
  while (!mail_.empty() && taken.mail.size() < limits::kTurnItems && taken.bytes < kTurnBytes) {
    taken.bytes += mail_.front().bytes;
    taken.mail.push_back(std::move(mail_.front()));
    mail_.pop_front();
  }
  bytes_ -= taken.bytes;
  taken_at_ = now;
  taken_bytes_ = static_cast<double>(taken.bytes);
  left_over_ = !mail_.empty();
  return taken;
}

void Mailbox::Wake() {
  {
    const Lock lock(mutex_);
    if (!wakeable_) return;
  }
  arrived_.NotifyOne();
}

void Mailbox::Close() {
  {
    const Lock lock(mutex_);
    closed_ = true;
  }
  arrived_.NotifyOne();
}

Loop::Loop(Engine& engine, Store& store, Outside outside)
    : engine_(engine), store_(store), outside_(std::move(outside)) {
  committer_ = std::thread([this] { Commit(); });
  decider_ = std::thread([this] { Decide(); });
}

Loop::~Loop() { Stop(); }

void Loop::Stop() {
  mailbox_.Close();
  if (decider_.joinable()) decider_.join();
  if (committer_.joinable()) committer_.join();
}

// Nobody waits for room to come back: those who were refused ask again. So a server at rest need
// not look, and one that has slept looks before it does anything. In 10 ms no disk takes more than
// a part of the reserve; to look takes a microsecond or two.
void Loop::LookForRoom() {
  const auto now = std::chrono::steady_clock::now();
  if (!outside_.room || now < room_due_) return;
  room_due_ = now + std::chrono::milliseconds(10);
  engine_.SetRoom(outside_.room());
}

Loop::Taken Loop::TakeMail(const std::atomic<bool>* meanwhile) {
  // At most a minute at a time: the wall clock that deadlines are in may be set.
  const Duration wait = std::clamp<Duration>(engine_.NextDeadline() - outside_.clock(),
                                             Duration::zero(), std::chrono::minutes(1));
  return mailbox_.Take(std::chrono::steady_clock::now() + wait, meanwhile);
}

// Decides what came, and gives the answers that need no commit.
void Loop::Pass(const Taken& taken, Timestamp now, StageClock* clock) {
  LookForRoom();
  if (!taken) engine_.Flush();
  if (taken) {
    for (const Mailbox::Mail& one : taken->mail) one.deadline < now ? one.drop() : one.run(engine_);
  }
  engine_.Work();
  clock->Lap(Meter::kDecideUs);
  // What was decided on a store that cannot be read is neither written nor told.
  if (engine_.broken()) outside_.fail(*engine_.broken());
  for (auto& tell : engine_.TakeAnswers()) tell();
  clock->Lap(Meter::kReplyUs);
}

// False: it was the last one.
bool Loop::DecideTurn(StageClock* clock) {
  Taken taken = TakeMail(nullptr);
  Timestamp now = outside_.clock();
  engine_.BeginTurn(now, outside_.entropy());
  size_t items = 0;
  size_t bytes = 0;
  while (true) {
    Pass(taken, now, clock);
    if (!taken) return false;
    items += taken->mail.size();
    bytes += taken->bytes;
    // While the last turn is written this one has to wait, and a larger batch costs less for each
    // of what is in it. A large one goes on by itself: then it is encoded meanwhile. What the
    // engine does by itself is bounded, too, and goes on in the next turn.
    if (!writing_ || items >= limits::kTurnItems || bytes >= kTurnBytes ||
        engine_.TurnRecords() >= limits::kTurnItems || engine_.WorkLeft()) {
      return true;
    }
    taken = TakeMail(&writing_);
    if (taken && taken->mail.empty() && !writing_) return true;
    now = outside_.clock();
    engine_.ResumeTurn(now, outside_.entropy());
  }
}

void Loop::Decide() {
  StageClock clock(meter_);
  bool more = true;
  while (more) {
    more = DecideTurn(&clock);
    Turn turn = engine_.EndTurn();
    clock.Lap(Meter::kEncodeUs);
    meter_.Add(Meter::kTurns, 1);
    HandOver(std::move(turn));
  }
  const Lock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void Loop::HandOver(Turn turn) {
  if (turn.batch->empty() && turn.after.empty()) {
    // Nothing to write and nobody waits: but later turns may only be committed after this one.
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
      auto written = store_.Write(engine_.partition(), engine_.epoch(), *turn.batch);
      if (!written) {
        outside_.fail(written.error());
        return;
      }
      meter_.AddCommit(*turn.batch, begin);
      clock.Lap(Meter::kCommitUs);
    }
    engine_.Committed(turn.number);
    if (!turn.feed->empty()) {
      meter_.Add(Meter::kRecords, turn.records());
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
