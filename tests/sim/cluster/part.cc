#include "tests/sim/cluster/part.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster/server.h"

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kLife = 7;

}  // namespace

Part::Part(Server& server, Process& process, Cluster& cluster, PartitionId id)
    : server_(server), process_(process), cluster_(cluster), id_(id) {}

std::string Part::Name() const { return "partition " + std::to_string(id_); }

void Part::Later(LeaseTime after, std::function<void()> what) {
  process_.Later(after, [this, number = holding_, what = std::move(what)] {
    if (number == holding_) what();
  });
}

// Taken and lost ---------------------------------------------------------------------------------

void Part::Take(const Holding& held) {
  epoch_ = held.epoch;
  ++holding_;
  pump_at_ = LeaseTime::max();
  door_ = std::make_unique<Door>(cluster_.database, cluster_.network.random(), id_, held,
                                 cluster_.stale_reads);
  Later(milliseconds(20 + cluster_.network.random().Below(180)), [this] { Open(); });
}

void Part::Open() {
  EngineOptions options = cluster_.options;
  options.partition = id_;
  auto engine = Engine::Open(*door_, options, process_.Time());
  if (!engine) return cluster_.wrong("the engine does not open: " + engine.error().message);
  engine_ = *std::move(engine);
  if (engine_->last_seq() != door_->known().feed) {
    cluster_.wrong("the engine of " + Name() + " begins after record " +
                   std::to_string(engine_->last_seq()) + ", but the feed ends at " +
                   std::to_string(door_->known().feed));
  }
  pool_ = std::make_unique<Pool>(0);
  changes_ = std::make_unique<Changes>(
      *door_, FeedEnd{id_, engine_->last_seq(), kLife}, *pool_,
      [](const Event& event, PartitionId) { return std::to_string(event.seq); });
  serving_ = true;
  giving_ = false;
  server_.Look();
  PumpAt(cluster_.network.now());
}

void Part::Drop(const std::string& why) {
  if (!epoch_) return;
  cluster_.note(server_.id() + " has lost " + Name() + ": " + why);
  if (given_ && (writing_ || next_ || !inside_.empty())) {
    cluster_.wrong(server_.id() + " gives " + Name() +
                   " away, and has not told all that it decided");
  }
  epoch_.reset();
  ++holding_;
  ++attempt_;
  serving_ = giving_ = given_ = false;
  LoseInside();
  changes_.reset();
  pool_.reset();
  writing_.reset();
  next_.reset();
  engine_.reset();
  door_.reset();
}

void Part::LoseInside() {
  mail_.clear();
  for (const CallPtr& call : std::exchange(inside_, {})) {
    call->done(call->reads_only ? End::kNotDone : End::kUnknown, nullptr);
  }
}

void Part::HandOver() {
  giving_ = true;
  stopped_ = false;
  PumpAt(cluster_.network.now());
}

// All that was decided is written and told: now it can be given.
void Part::GiveSoon() {
  if (given_) return;
  if (/*mutant cluster-gives-unwritten*/ !giving_ || !stopped_ || writing_ || next_ ||
      !inside_.empty() /*end*/) {
    return;
  }
  given_ = true;
  server_.Give();
}

// The loop ---------------------------------------------------------------------------------------

void Part::Post(CallPtr call) {
  inside_.push_back(call);
  mail_.push_back(std::move(call));
  PumpAt(cluster_.network.now());
}

void Part::PumpAt(LeaseTime when) {
  if (when >= pump_at_) return;
  pump_at_ = when;
  Later(when - cluster_.network.now(), [this] {
    if (pump_at_ > cluster_.network.now()) return;
    pump_at_ = LeaseTime::max();
    if (engine_ && !next_ && !given_) Decide();
  });
}

void Part::Decide() {
  engine_->BeginTurn(process_.Time(), process_.Entropy());
  while (!mail_.empty()) {
    const CallPtr call = std::move(mail_.front());
    mail_.pop_front();
    ++ran_;
    call->run({server_.id(), id_, giving_ && stopped_, *engine_, *changes_, *door_},
              [this, call](std::function<void()> tell) { Tell(call, std::move(tell)); });
  }
  if (giving_ && !stopped_) {
    engine_->StopHandingOut();
    engine_->Flush();
    stopped_ = true;
  }
  engine_->Work();
  if (engine_->broken()) {
    cluster_.wrong("the engine gave up on a sound store: " + engine_->broken()->message);
    return server_.Lose("broken");
  }
  for (auto& tell : engine_->TakeAnswers()) tell();
  Turn turn = engine_->EndTurn();
  if (turn.batch->empty() && turn.after.empty()) {
    if (!writing_) engine_->Committed(turn.number);
  } else if (writing_) {
    next_ = std::move(turn);
    return;
  } else {
    Write(std::move(turn));
  }
  Rewind();
}

// The next turn, when there is something to do.
void Part::Rewind() {
  GiveSoon();
  if (!engine_ || next_) return;
  const Duration wait = std::clamp<Duration>(engine_->NextDeadline() - process_.Time(),
                                             microseconds(200), seconds(60));
  PumpAt(cluster_.network.now() + wait);
}

void Part::Write(Turn turn) {
  writing_ = std::move(turn);
  if (writing_->batch->empty()) {
    return process_.Later(LeaseTime::zero(), [this, n = ++attempt_] {
      if (n == attempt_) Written(Fate::kDone);
    });
  }
  const Holding& known = door_->known();
  commit_ = {.number = ++cluster_.commits,
             .server = server_.id(),
             .partition = id_,
             .before = known,
             .feed = writing_->feed->empty() ? known.feed : writing_->feed->back().last,
             .batch = writing_->batch,
             .pages = writing_->feed};
  in_doubt_ = false;
  Send();
}

void Part::Send() {
  process_.Ask<bool>(
      process_.ToRows(),
      [&database = cluster_.database, commit = commit_] {
        return Result<bool>(database.Apply(commit));
      },
      [this, number = ++attempt_](const Result<bool>& applied) {
        if (number != attempt_) return;
        if (applied && *applied) return Written(Fate::kDone);
        in_doubt_ = /*mutant cluster-doubt-forgotten*/ in_doubt_ || !applied /*end*/;
        Doubt();
      });
}

void Part::Doubt() {
  ++cluster_.hits["a commit is in doubt, or refused"];
  process_.Ask<PartRow>(
      process_.ToRows(),
      [&database = cluster_.database, id = id_] { return Result<PartRow>(database.part(id)); },
      [this, number = ++attempt_](const Result<PartRow>& row) {
        if (number != attempt_) return;
        if (!row) return /*mutant cluster-silence-is-success*/ Doubt() /*end*/;
        const Fate fate = FateOf(commit_.before, in_doubt_, row->held);
        fate == Fate::kNotYet ? Send() : Written(fate);
      });
}

// What became of a commit is what the database knows.
void Part::Audit(Fate fate) const {
  if (!writing_ || writing_->batch->empty()) return;
  const bool applied = cluster_.database.Applied(commit_.number);
  if (fate == Fate::kDone && !applied) {
    cluster_.wrong("a commit of " + server_.id() + " counts as done, and is not");
  }
  if (fate == Fate::kSuperseded && applied) {
    cluster_.wrong("a commit of " + server_.id() + " counts as refused, and is done");
  }
}

void Part::Written(Fate fate) {
  Audit(fate);
  switch (fate) {
    case Fate::kDone:
      break;
    case Fate::kBroken:
      cluster_.wrong("somebody else commits under this epoch");
      return server_.Lose("broken");
    default:
      ++cluster_.hits[fate == Fate::kUnknown ? "what became of a commit stays unknown"
                                             : "a commit of a former owner is refused"];
      return server_.Lose("a commit was refused");
  }
  const Turn turn = *std::move(writing_);
  writing_.reset();
  if (!turn.batch->empty()) {
    door_->Knows({commit_.before.epoch, commit_.before.seq + 1, commit_.feed});
  }
  engine_->Committed(turn.number);
  /*mutant cluster-feed-not-told*/ if (!turn.feed->empty())
    changes_->Publish(turn.feed); /*end*/
  if (turn.feed_start) changes_->Trim(turn.feed_start);
  for (const auto& tell : turn.after) tell();
  if (next_) {
    Turn next = *std::move(next_);
    next_.reset();
    Write(std::move(next));
  }
  Rewind();
}

// Whether the database says so, too.
bool Part::IsMine() const {
  const PartRow& row = cluster_.database.part(id_);
  return row.owner == server_.id() && epoch_ && row.held.epoch == *epoch_;
}

// Nothing is told without the lease; what waits for it goes out with the next renewal, or is lost
// with the partition.
void Part::Tell(const CallPtr& call, std::function<void()> tell) {
  const auto inside = std::ranges::find(inside_, call);
  if (inside == inside_.end()) return;
  if (/*mutant cluster-front-tells-anyway*/ !server_.MayAnswer() /*end*/) {
    ++cluster_.hits["an answer waits for the lease"];
    return process_.Later(kTick, [this, call, tell] { Tell(call, tell); });
  }
  inside_.erase(inside);
  if (!IsMine()) {
    cluster_.wrong(server_.id() + " answers, but " + Name() + " belongs to " +
                   cluster_.database.part(id_).owner);
  }
  if (!cluster_.database.HasLease(server_.id(), cluster_.network.now())) {
    cluster_.wrong(server_.id() + " answers, and its lease is over");
  }
  call->done(End::kAnswered, std::move(tell));
  if (giving_) Later(LeaseTime::zero(), [this] { GiveSoon(); });  // not while a turn is decided
}

}  // namespace dfsmr::cluster_sim
