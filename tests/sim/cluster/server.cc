#include "tests/sim/cluster/server.h"

#include <algorithm>

#include "storage/rows/instance.h"

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LeaseTime kTimeLimit = seconds(3);  // of what is asked of the database
constexpr LeaseTime kTryAgain = milliseconds(200);
constexpr LeaseTime kTick = milliseconds(20);
constexpr LeaseTime kForOwner = seconds(2);
constexpr LeaseTime kForWay = seconds(1);
constexpr LeaseTime kGrace = seconds(10);
constexpr uint64_t kLife = 7;

Error Unreachable() {
  return {Code::kUnavailable, Reason::kStoreFailed, "the database did not answer"};
}

}  // namespace

Server::Server(Cluster& cluster, int number)
    : cluster_(cluster),
      number_(number),
      address_("host" + std::to_string(number) + ":3004"),
      entropy_(cluster.network.random().Next()) {}

Server::~Server() = default;

// The process ------------------------------------------------------------------------------------

LeaseTime Server::Clock() const { return offset_ + cluster_.network.now() * pace_ / 1'000; }

LeaseTime Server::InWorld(LeaseTime own) const { return own * 1'000 / pace_; }

std::function<void()> Server::Mine(std::function<void()> what) {
  return [this, process = process_, what = std::move(what)] {
    if (!runs_ || process != process_) return;
    if (!paused()) return what();
    cluster_.network.At(paused_until_, Mine(what));
  };
}

void Server::Later(LeaseTime after, std::function<void()> what) {
  cluster_.network.In(after, Mine(std::move(what)));
}

void Server::Start() {
  Random& random = cluster_.network.random();
  ++process_;
  runs_ = true;
  leaving_ = false;
  paused_until_ = LeaseTime{};
  in_answer_.reset();
  offset_ = seconds(random.Below(100'000));
  const auto span = static_cast<size_t>(2 * cluster_.pace + 1);
  pace_ = 1'000 - cluster_.pace + static_cast<int64_t>(random.Below(span));
  shown_ = Timestamp{};
  store_time_ = cluster_.store_time() + microseconds(random.Below(10'000'000'000));  // a wild clock
  store_time_at_ = Clock();
  Join();
}

void Server::Kill() {
  if (!runs_) return;
  for (auto& [number, one] : std::exchange(tries_, {})) one.call->done(End::kUnknown, nullptr);
  for (auto& one : std::exchange(waiting_, {})) one.call->done(End::kNotDone, nullptr);
  Lose("killed");
  member_.reset();
  runs_ = false;
  ++process_;
  // The others see the connection end.
  for (auto& other : cluster_.servers) {
    if (!other || other.get() == this) continue;
    Server* const peer = other.get();
    cluster_.network.In(cluster_.network.Delay(), peer->Mine([peer, gone = number_] {
      std::vector<Try> lost;
      for (auto it = peer->tries_.begin(); it != peer->tries_.end();) {
        if (it->second.number != gone) {
          ++it;
          continue;
        }
        lost.push_back(it->second);
        it = peer->tries_.erase(it);
      }
      for (Try& one : lost) peer->LoseTry(one);
    }));
  }
}

void Server::Terminate() {
  if (!runs_ || leaving_ || !member_) return;
  leaving_ = true;
  leave_looks_ = 0;
  member_->Leave();
  Later(kGrace, [this] { Kill(); });
  Look();
}

// The roster -------------------------------------------------------------------------------------

void Server::Befall() {
  const InAnswer what = *std::exchange(in_answer_, std::nullopt);
  ++cluster_.hits[what.cut ? "a server is cut off while an answer is on its way"
                           : "a server is paused while an answer is on its way"];
  if (!what.cut) return Pause(cluster_.network.now() + what.span);
  cluster_.network.Cut(number_, -1);
  cluster_.network.In(what.span, [this] { cluster_.network.Mend(number_, -1); });
}

template <typename T>
void Server::Ask(Way way, std::function<Result<T>()> ask, std::function<void(Result<T>)> then) {
  Network& network = cluster_.network;
  auto done = std::make_shared<bool>(false);
  auto answer = [done, then = std::move(then)](Result<T> result) {
    if (*done) return;
    *done = true;
    then(std::move(result));
  };
  const size_t dice = network.random().Below(100);
  const auto percent = static_cast<size_t>(way.lost);
  const bool late = way.late > 0 && network.random().Chance(way.late);
  const LeaseTime there = network.Delay();
  if (!network.Reaches(number_) || dice < percent) {
    ++cluster_.hits["asked of the database in vain"];
  } else if (dice < 2 * percent) {
    ++cluster_.hits["done by the database, and never answered"];
    network.In(there, [ask] { (void)ask(); });
  } else if (dice < 3 * percent || late) {
    ++cluster_.hits["done by the database long after it was asked"];
    // At times just when it is asked again.
    const LeaseTime after = network.random().Chance(50)
                             ? LeaseTime(microseconds(network.random().Below(20'000)))
                             : LeaseTime(milliseconds(network.random().Below(40'000)));
    network.In(kTimeLimit + after, [ask] { (void)ask(); });
  } else {
    auto result = std::make_shared<std::optional<Result<T>>>();
    auto deliver = Mine([answer, result] { answer(**result); });
    network.In(there, [this, ask, result, deliver, back = network.Delay(), process = process_] {
      *result = ask();
      constexpr bool kRenewal = std::is_same_v<T, Roster::Seen>;
      const bool befalls = in_answer_ && process == process_ && (kRenewal || !in_answer_->renewal);
      if (befalls) Befall();
      if (cluster_.network.Reaches(number_)) cluster_.network.In(back, deliver);
    });
  }
  Later(kTimeLimit, [answer] { answer(Unreachable()); });
}

void Server::Join() {
  id_ = "s" + std::to_string(number_) + "-" + std::to_string(++starts_);
  member_.reset();
  const LeaseTime sent = Clock();
  Ask<Ok>(
      ToRoster(),
      [&cluster = cluster_, row = ServerRow{.id = id_, .address = address_, .version = "sim"},
       before = Roster::LivingAt(*cluster_.database.roster().Renew("", false, false), address_)] {
        return cluster.database.Join(row, before, cluster.network.now());
      },
      [this, sent](const Result<Ok>& joined) {
        if (!joined) return Join();
        member_.emplace(id_, address_, sent);
        if (leaving_) member_->Leave();
        looking_ = false;
        Look();
      });
}

void Server::Look() {
  if (!member_) return;
  if (looking_) {
    look_again_ = true;
    return;
  }
  looking_ = true;
  ++look_number_;
  if (pinged_) member_->NotePing(*pinged_);
  const LeaseTime sent = Clock();
  Ask<Roster::Seen>(
      ToRoster(),
      [&cluster = cluster_, id = id_, reached = member_->Reached(sent),
       leaving = member_->leaving()] {
        return cluster.database.Renew(id, reached, leaving, cluster.network.now());
      },
      [this, sent](const Result<Roster::Seen>& seen) { Looked(seen, sent); });
}

void Server::Looked(const Result<Roster::Seen>& seen, LeaseTime sent) {
  if (!seen) return Rest(kTryAgain);
  store_time_ = seen->now;
  store_time_at_ = Clock();
  Member::Todo todo = member_->Look(*seen, sent, Clock());
  if (!todo.end.empty()) return cluster_.wrong(id_ + " ends itself: " + todo.end);
  seen_ = *seen;
  if (todo.rejoin) {
    ++cluster_.hits["a server finds itself buried"];
    Lose("buried");
    return Join();
  }
  if (!todo.drop.empty()) Lose("another server has the partition");
  for (const ServerRow& row : seen_.servers) {
    if (!row.dead && row.id != id_) PingTo(row.id, false);
  }
  give_to_ = todo.give ? todo.give->second : "";
  Act(std::move(todo), 0);
}

void Server::PingTo(const std::string& id, bool look) {
  const int to = NumberOf(id);
  if (!cluster_.network.Through(number_, to)) return;
  Server* const peer = cluster_.servers[static_cast<size_t>(to)].get();
  if (!peer || !peer->runs_) return;
  cluster_.network.In(cluster_.network.Delay(), peer->Mine([peer, look] { peer->Ping(look); }));
}

void Server::Ping(bool look) {
  pinged_ = Clock();
  if (look) Look();
}

void Server::TellAll() {
  for (const ServerRow& row : seen_.servers) {
    if (!row.dead && row.id != id_) PingTo(row.id, true);
  }
}

// One thing after the other, as the keeper's one thread does them.
void Server::Act(Member::Todo todo, size_t at) {
  if (at < todo.bury.size()) {
    const std::string whom = todo.bury[at];
    return Ask<bool>(
        ToAct(),
        [&cluster = cluster_, whom] {
          return cluster.database.Bury(whom, cluster.network.now());
        },
        [this, todo = std::move(todo), at](const Result<bool>& buried) {
          if (buried && *buried) {
            ++cluster_.hits["a silent server is buried"];
            TellAll();
          }
          Act(todo, at + 1);
        });
  }
  if (at < todo.bury.size() + todo.take.size()) {
    const PartRow part = todo.take[at - todo.bury.size()];
    return Ask<std::optional<Holding>>(
        ToAct(),
        [&database = cluster_.database, part, id = id_] { return database.Take(part, id); },
        [this, todo = std::move(todo), at](const Result<std::optional<Holding>>& held) {
          if (held && *held) Took(**held);
          Act(todo, at + 1);
        });
  }
  SetRoute();
  if (todo.give && !leaving_ && !giving_ && epoch_) HandOver(todo.give->second);
  if (leaving_ && ++leave_looks_ >= 2) {
    if (!epoch_) return Quit();
    if (!giving_) HandOver(give_to_);
  }
  Rest(todo.bury.empty() && todo.take.empty() ? InWorld(todo.wait) : LeaseTime::zero());
}

void Server::Quit() {
  Roster& roster = cluster_.database.roster();
  Ask<Ok>(
      ToRoster(), [&roster, id = id_] { return roster.Leave(id); },
      [this](const Result<Ok>&) {
        ++cluster_.hits["a server leaves in order"];
        TellAll();
        Kill();
      });
}

void Server::Rest(LeaseTime wait) {
  looking_ = false;
  if (std::exchange(look_again_, false) || leaving_) wait = std::min<LeaseTime>(wait, kTick);
  Later(wait, [this, number = look_number_] {
    if (number == look_number_) Look();
  });
}

int Server::NumberOf(const std::string& id) { return std::atoi(id.c_str() + 1); }

// Where calls go. What is under way with another server than before is lost.
void Server::SetRoute() {
  const PartRow& part = seen_.parts.front();
  const auto row = std::ranges::find(seen_.servers, part.owner, &ServerRow::id);
  const bool alive = row != seen_.servers.end() && !row->dead;
  owner_ = alive ? part.owner : "";
  owner_epoch_ = part.held.epoch;
  std::vector<Try> lost;
  for (auto it = tries_.begin(); it != tries_.end();) {
    if (it->second.at == owner_) {
      ++it;
      continue;
    }
    lost.push_back(it->second);
    it = tries_.erase(it);
  }
  for (Try& one : lost) LoseTry(one);
}

// The partition ----------------------------------------------------------------------------------

void Server::Took(const Holding& held) {
  ++cluster_.hits["a partition is taken"];
  cluster_.note(id_ + " takes the partition under epoch " + std::to_string(held.epoch) +
                " after commit " + std::to_string(held.seq));
  if (engine_) Lose("taken anew");
  member_->Took(0, held.epoch);
  epoch_ = held.epoch;
  ++holding_;
  pump_at_ = LeaseTime::max();
  door_ = std::make_unique<Door>(cluster_.database, cluster_.network.random(), held,
                                 cluster_.stale_reads);
  Later(milliseconds(20 + cluster_.network.random().Below(180)), [this, number = holding_] {
    if (number == holding_) Open();
  });
}

void Server::Open() {
  auto engine = Engine::Open(*door_, cluster_.options, Time());
  if (!engine) return cluster_.wrong("the engine does not open: " + engine.error().message);
  engine_ = *std::move(engine);
  if (engine_->last_seq() != door_->known().feed) {
    cluster_.wrong("the engine begins after record " + std::to_string(engine_->last_seq()) +
                   ", but the feed ends at " + std::to_string(door_->known().feed));
  }
  pool_ = std::make_unique<Pool>(0);
  changes_ = std::make_unique<Changes>(
      *door_, FeedEnd{0, engine_->last_seq(), kLife}, *pool_,
      [](const Event& event, PartitionId) { return std::to_string(event.seq); });
  serving_ = true;
  giving_ = false;
  Look();
  PumpAt(cluster_.network.now());
}

void Server::Lose(const std::string& why) {
  if (epoch_) cluster_.note(id_ + " loses the partition: " + why);
  if (given_ && (writing_ || next_ || !inside_.empty())) {
    cluster_.wrong(id_ + " gives the partition away, and has not told all that it decided");
  }
  if (member_) member_->Dropped(0);
  epoch_.reset();
  ++holding_;
  ++attempt_;
  serving_ = giving_ = given_ = false;
  mail_.clear();
  const auto inside = std::exchange(inside_, {});
  for (const CallPtr& call : inside) {
    call->done(call->reads_only ? End::kNotDone : End::kUnknown, nullptr);
  }
  changes_.reset();
  pool_.reset();
  writing_.reset();
  next_.reset();
  engine_.reset();
  door_.reset();
}

void Server::HandOver(const std::string& to) {
  ++cluster_.hits["a partition is handed over"];
  giving_ = true;
  stopped_ = false;
  hand_to_ = to;
  PumpAt(cluster_.network.now());
}

// All that was decided is written and told: now it can be given.
void Server::GiveSoon() {
  if (given_) return;
  if (/*mutant cluster-gives-unwritten*/ !giving_ || !stopped_ || writing_ || next_ ||
      !inside_.empty() /*end*/) {
    return;
  }
  given_ = true;
  Ask<bool>(
      ToAct(),
      [&database = cluster_.database, epoch = *epoch_, id = id_, to = hand_to_] {
        return database.Give(epoch, id, to);
      },
      [this, number = holding_](const Result<bool>&) {
        if (number != holding_) return;
        Lose("given to " + hand_to_);
        TellAll();
        Look();
      });
}

// The loop ---------------------------------------------------------------------------------------

Timestamp Server::Time() {
  const auto since = std::chrono::duration_cast<Duration>(Clock() - store_time_at_);
  shown_ = std::max(shown_, store_time_ + since);
  return shown_;
}

void Server::Post(CallPtr call) {
  inside_.push_back(call);
  mail_.push_back(std::move(call));
  PumpAt(cluster_.network.now());
}

void Server::PumpAt(LeaseTime when) {
  if (when >= pump_at_) return;
  pump_at_ = when;
  cluster_.network.At(when, Mine([this, number = holding_] {
                        if (number != holding_ || pump_at_ > cluster_.network.now()) return;
                        pump_at_ = LeaseTime::max();
                        if (engine_ && !next_ && !given_) Decide();
                      }));
}

void Server::Decide() {
  engine_->BeginTurn(Time(), entropy_ += 0x9e3779b97f4a7c15ull);
  while (!mail_.empty()) {
    const CallPtr call = std::move(mail_.front());
    mail_.pop_front();
    call->run({id_, giving_ && stopped_, *engine_, *changes_, *door_},
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
    return Lose("broken");
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
void Server::Rewind() {
  GiveSoon();
  if (!engine_ || next_) return;
  const Duration wait =
      std::clamp<Duration>(engine_->NextDeadline() - Time(), microseconds(200), seconds(60));
  PumpAt(cluster_.network.now() + wait);
}

void Server::Write(Turn turn) {
  writing_ = std::move(turn);
  if (writing_->batch->empty())
    return Later(LeaseTime::zero(), [this, n = ++attempt_] {
      if (n == attempt_) Written(Fate::kDone);
    });
  const Holding& known = door_->known();
  commit_ = {.number = ++cluster_.commits,
             .server = id_,
             .before = known,
             .feed = writing_->feed->empty() ? known.feed : writing_->feed->back().last,
             .batch = writing_->batch,
             .pages = writing_->feed};
  in_doubt_ = false;
  Send();
}

void Server::Send() {
  Ask<bool>(
      ToRows(),
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

void Server::Doubt() {
  ++cluster_.hits["a commit is in doubt, or refused"];
  Ask<PartRow>(
      ToRows(),
      [&database = cluster_.database] { return Result<PartRow>(database.part()); },
      [this, number = ++attempt_](const Result<PartRow>& row) {
        if (number != attempt_) return;
        if (!row) return /*mutant cluster-silence-is-success*/ Doubt() /*end*/;
        const Fate fate = FateOf(commit_.before, in_doubt_, row->held);
        fate == Fate::kNotYet ? Send() : Written(fate);
      });
}

// What became of a commit is what the database knows.
void Server::Written(Fate fate) {
  const bool asked = writing_ && !writing_->batch->empty();
  const bool applied = asked && cluster_.database.Applied(commit_.number);
  if (asked && fate == Fate::kDone && !applied) {
    cluster_.wrong("a commit of " + id_ + " counts as done, and is not");
  }
  if (asked && fate == Fate::kSuperseded && applied) {
    cluster_.wrong("a commit of " + id_ + " counts as refused, and is done");
  }
  switch (fate) {
    case Fate::kDone:
      break;
    case Fate::kBroken:
      cluster_.wrong("somebody else commits under this epoch");
      return Lose("broken");
    default:
      ++cluster_.hits[fate == Fate::kUnknown ? "what became of a commit stays unknown"
                                             : "a commit of a former owner is refused"];
      return Lose("a commit was refused");
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

// The front --------------------------------------------------------------------------------------

void Server::Take(CallPtr call) {
  if (!runs_) return call->done(End::kNotDone, nullptr);
  Route({std::move(call), cluster_.network.now()});
}

bool Server::Here() const {
  return serving_ && !giving_ && owner_ == id_ && epoch_ && owner_epoch_ == *epoch_;
}

void Server::Route(Waiting waiting) {
  const LeaseTime waited = cluster_.network.now() - waiting.since;
  LeaseTime patience = kForOwner;
  if (owner_ == id_) {
    if (Here() && MayAnswer()) return Post(std::move(waiting.call));
    if (Here()) patience = kForWay;
  } else if (!owner_.empty()) {
    const int to = NumberOf(owner_);
    Server* const peer = cluster_.servers[static_cast<size_t>(to)].get();
    if (peer && peer->runs_ && cluster_.network.Through(number_, to)) {
      return PassOn(waiting, to);
    }
    patience = kForWay;
  }
  if (waited >= patience || waited > 2 * kForOwner) {
    ++cluster_.hits["a call finds nobody"];
    return waiting.call->done(End::kNotDone, nullptr);
  }
  Await(std::move(waiting));
}

// Tries again, in the order in which they came.
void Server::Await(Waiting waiting) {
  waiting_.push_back(std::move(waiting));
  Later(kTick, [this] {
    if (waiting_.empty()) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    Route(std::move(next));
  });
}

void Server::PassOn(const Waiting& waiting, int number) {
  const CallPtr& call = waiting.call;
  ++cluster_.hits["a call is passed on"];
  const uint64_t mine = ++last_try_;
  tries_.emplace(mine, Try{call, owner_, number, waiting.since});
  Server* const peer = cluster_.servers[static_cast<size_t>(number)].get();
  // The answer takes the same way back.
  auto back = [this, mine, number](End end, std::function<void()> tell) {
    if (!cluster_.network.Through(number, number_)) return;
    cluster_.network.In(cluster_.network.Delay(), Mine([this, mine, end, tell] {
                          const auto found = tries_.find(mine);
                          if (found == tries_.end()) return;
                          const CallPtr asked = found->second.call;
                          const LeaseTime since = found->second.since;
                          tries_.erase(found);
                          if (end != End::kNotMine) return asked->done(end, tell);
                          ++cluster_.hits["a call comes to one that is not the owner"];
                          Look();
                          if (cluster_.network.now() - since > 2 * kForOwner)
                            return asked->done(End::kNotDone, nullptr);
                          Await({asked, since});
                        }));
  };
  // It is for that process, as long as that has the partition.
  auto run = [this, run = call->run, meant = owner_](const Owner& owner, Reply reply) {
    if (owner.id != meant) cluster_.wrong("a call to " + meant + " is run by " + owner.id);
    if (owner.hands_over) cluster_.wrong(owner.id + " runs a call while it hands over");
    run(owner, std::move(reply));
  };
  auto passed = std::make_shared<const Call>(
      Call{.reads_only = call->reads_only, .run = run, .done = back});
  cluster_.network.In(cluster_.network.Delay(),
                      peer->Mine([peer, passed, at = owner_] { peer->TakePassedOn(passed, at); }));
  // Its deadline.
  Later(seconds(10), [this, mine] {
    const auto found = tries_.find(mine);
    if (found == tries_.end()) return;
    const Try lost = found->second;
    tries_.erase(found);
    lost.call->done(lost.call->reads_only ? End::kNotDone : End::kUnknown, nullptr);
  });
}

// Nobody knows what the server did that had it. What only reads is asked again.
void Server::LoseTry(const Try& lost) {
  ++cluster_.hits["a call is lost with its owner"];
  if (/*mutant cluster-lost-call-repeated*/ lost.call->reads_only /*end*/) return Take(lost.call);
  lost.call->done(End::kUnknown, nullptr);
}

void Server::TakePassedOn(const CallPtr& call, const std::string& receiver) {
  if (/*mutant cluster-passed-on-anyhow*/ receiver != id_ || !Here() /*end*/) {
    return call->done(End::kNotMine, nullptr);
  }
  if (MayAnswer()) return Post(call);
  call->done(End::kNotDone, nullptr);
}

// Nothing is told without the lease; what waits for it goes out with the next renewal, or is lost
// with the partition.
void Server::Tell(const CallPtr& call, std::function<void()> tell) {
  const auto inside = std::ranges::find(inside_, call);
  if (inside == inside_.end()) return;
  if (/*mutant cluster-front-tells-anyway*/ !MayAnswer() /*end*/) {
    ++cluster_.hits["an answer waits for the lease"];
    return Later(kTick, [this, call, tell] { Tell(call, tell); });
  }
  inside_.erase(inside);
  const PartRow part = cluster_.database.part();
  if (part.owner != id_ || !epoch_ || part.held.epoch != *epoch_) {
    cluster_.wrong(id_ + " answers, but the partition belongs to " + part.owner);
  }
  if (!cluster_.database.HasLease(id_, cluster_.network.now())) {
    cluster_.wrong(id_ + " answers, and its lease is over");
  }
  call->done(End::kAnswered, std::move(tell));
  if (!giving_) return;
  Later(LeaseTime::zero(), [this, number = holding_] {  // not while a turn is being decided
    if (number == holding_) GiveSoon();
  });
}

}  // namespace dfsmr::cluster_sim
