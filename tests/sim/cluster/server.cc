#include "tests/sim/cluster/server.h"

#include <algorithm>

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr LeaseTime kTryAgain = milliseconds(200);
constexpr LeaseTime kForOwner = seconds(2);
constexpr LeaseTime kForWay = seconds(1);
constexpr LeaseTime kLastWord = milliseconds(500);
constexpr LeaseTime kGrace = seconds(10);
constexpr LeaseTime kToldByThen = milliseconds(500);

}  // namespace

Server::Server(Cluster& cluster, int number)
    : cluster_(cluster),
      number_(number),
      address_("host" + std::to_string(number) + ":3004"),
      process_(cluster, number) {
  for (PartitionId id = 0; id < cluster.options.partitions; ++id) {
    parts_.try_emplace(id, *this, process_, cluster, id);
  }
}

Server::~Server() = default;

void Server::Start() {
  process_.Begin();
  leaving_ = false;
  pinged_.reset();
  gift_.reset();
  give_ = false;
  found_until_ = LeaseTime{};
  owners_.assign(parts_.size(), {});
  Join();
}

void Server::Kill() {
  if (!runs()) return;
  for (auto& [number, one] : std::exchange(tries_, {})) one.call->done(End::kUnknown, nullptr);
  for (auto& one : std::exchange(waiting_, {})) one.call->done(End::kNotDone, nullptr);
  for (auto& [id, part] : parts_) part.Drop("the process has ended");
  member_.reset();
  process_.End();
  // The others see the connection end.
  for (auto& other : cluster_.servers) {
    if (!other || other.get() == this) continue;
    Server* const peer = other.get();
    cluster_.network.In(cluster_.network.Delay(), peer->process_.Mine([peer, gone = number_] {
      std::vector<uint64_t> lost;
      for (const auto& [mine, one] : peer->tries_) {
        if (one.number == gone) lost.push_back(mine);
      }
      for (const uint64_t mine : lost) peer->LoseTry(mine);
    }));
  }
}

void Server::Lose(const std::string& why) {
  cluster_.note(id_ + " loses all that it has: " + why);
  if (held() > 1) ++cluster_.hits["a server loses several partitions at once"];
  Kill();
  if (leaving_) return;
  ++cluster_.hits["a server that has lost something starts anew"];
  const LeaseTime pause = milliseconds(120 + cluster_.network.random().Below(400));
  cluster_.network.In(pause, [this, ended = process_.number()] {
    if (!runs() && ended == process_.number()) Start();
  });
}

void Server::Terminate() {
  if (!runs() || leaving_ || !member_) return;
  leaving_ = true;
  leave_looks_ = 0;
  if (held() > 1) ++cluster_.hits["a server that owns several partitions is to end"];
  member_->Leave();
  process_.Later(kGrace, [this] { Kill(); });
  Look();
}

size_t Server::share() const {
  return static_cast<size_t>(
      std::ranges::count_if(parts_, [](const auto& part) { return part.second.serves(); }));
}

size_t Server::held() const {
  return static_cast<size_t>(
      std::ranges::count_if(parts_, [](const auto& part) { return part.second.held(); }));
}

// The keeper -------------------------------------------------------------------------------------

void Server::Join() {
  id_ = "s" + std::to_string(number_) + "-" + std::to_string(++starts_);
  member_.reset();
  const LeaseTime sent = process_.Clock();
  process_.Ask<Ok>(
      process_.ToRoster(),
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
  const LeaseTime sent = process_.Clock();
  process_.Ask<Roster::Seen>(
      process_.ToRoster(),
      [&cluster = cluster_, id = id_, reached = member_->Reached(sent),
       leaving = member_->leaving()] {
        return cluster.database.Renew(id, reached, leaving, cluster.network.now());
      },
      [this, sent](const Result<Roster::Seen>& seen) { Looked(seen, sent); });
}

void Server::Looked(const Result<Roster::Seen>& seen, LeaseTime sent) {
  if (!seen) return Rest(kTryAgain);
  process_.Follow(seen->now);
  Member::Todo todo = member_->Look(*seen, sent, process_.Clock());
  if (!todo.end.empty()) return cluster_.wrong(id_ + " ends itself: " + todo.end);
  seen_ = *seen;
  if (todo.rejoin) {
    ++cluster_.hits["a server finds itself buried"];
    return Lose("buried");
  }
  if (!todo.drop.empty()) return Lose("another server has the partition");
  for (const ServerRow& row : seen_.servers) {
    if (!row.dead && row.id != id_) PingTo(row.id, false);
  }
  acts_since_ = process_.Clock();
  Act(std::move(todo), 0);
}

void Server::PingTo(const std::string& id, bool look) {
  const int to = NumberOf(id);
  if (!cluster_.network.Through(number_, to)) return;
  Server* const peer = cluster_.servers[static_cast<size_t>(to)].get();
  if (!peer || !peer->runs()) return;
  cluster_.network.In(cluster_.network.Delay(),
                      peer->process_.Mine([peer, look] { peer->Ping(look); }));
}

void Server::Ping(bool look) {
  pinged_ = process_.Clock();
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
    return process_.Ask<bool>(
        process_.ToAct(),
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
    return process_.Ask<std::optional<Holding>>(
        process_.ToAct(),
        [&database = cluster_.database, part, id = id_] { return database.Take(part, id); },
        [this, todo = std::move(todo), at, part](const Result<std::optional<Holding>>& held) {
          if (held && *held) Took(part.id, **held);
          const bool renews = process_.Clock() - acts_since_ >= kRenewal;
          Act(todo, renews ? todo.bury.size() + todo.take.size() : at + 1);
        });
  }
  SetRoutes();
  if (leaving_ && ++leave_looks_ >= 2 && MayQuit()) return Quit();
  GiveNext(todo);
  Rest(todo.bury.empty() && todo.take.empty() ? process_.InWorld(todo.wait) : LeaseTime::zero());
}

void Server::Took(PartitionId partition, const Holding& holding) {
  ++cluster_.hits["a partition is taken"];
  cluster_.note(id_ + " takes partition " + std::to_string(partition) + " under epoch " +
                std::to_string(holding.epoch) + " after commit " + std::to_string(holding.seq));
  Part& part = parts_.at(partition);
  if (part.held()) cluster_.wrong(id_ + " takes what it has");
  member_->Took(partition, holding.epoch);
  part.Take(holding);
  if (held() > 1) ++cluster_.hits["a server owns several partitions"];
}

// What it has passed on is answered by way of it.
bool Server::MayQuit() const {
  return held() == 0 && tries_.empty() && waiting_.empty() &&
         cluster_.network.now() >= found_until_;
}

void Server::Quit() {
  Roster& roster = cluster_.database.roster();
  process_.Ask<Ok>(
      process_.ToRoster(), [&roster, id = id_] { return roster.Leave(id); },
      [this](const Result<Ok>&) {
        ++cluster_.hits["a server leaves in order"];
        TellAll();
        Kill();
      });
}

void Server::Rest(LeaseTime wait) {
  looking_ = false;
  if (give_) return Give();
  if (std::exchange(look_again_, false) || leaving_) wait = std::min<LeaseTime>(wait, kTick);
  process_.Later(wait, [this, number = look_number_] {
    if (number == look_number_) Look();
  });
}

int Server::NumberOf(const std::string& id) { return std::atoi(id.c_str() + 1); }

// Where calls go. What is under way with another server than before is lost, unless that has a last
// word soon.
void Server::SetRoutes() {
  for (const PartRow& part : seen_.parts) {
    const auto row = std::ranges::find(seen_.servers, part.owner, &ServerRow::id);
    const bool alive = row != seen_.servers.end() && !row->dead;
    owners_[part.id] = {alive ? part.owner : "", part.held.epoch};
  }
  for (auto& [mine, one] : tries_) {
    if (one.at == owners_[one.call->partition].by || std::exchange(one.lost, true)) continue;
    process_.Later(kLastWord, [this, lost = mine] { LoseTry(lost); });
  }
}

// Gifts ------------------------------------------------------------------------------------------

// One after the other: what is not given yet serves on.
void Server::GiveNext(const Member::Todo& todo) {
  if (/*mutant cluster-gives-several*/ gift_.has_value() /*end*/) return;
  if (leaving_ && leave_looks_ < 2) return;  // what all compute of such a row it knows then
  if (todo.give) return HandOver(todo.give->first, todo.give->second);
  if (!leaving_) return;
  const auto part = std::ranges::find_if(parts_, [](auto& one) { return one.second.serves(); });
  if (part != parts_.end()) HandOver(part->first, "");
}

void Server::HandOver(PartitionId partition, const std::string& to) {
  Part& given = parts_.at(partition);
  if (!given.serves()) return;
  ++cluster_.hits["a partition is handed over"];
  for (const auto& [id, part] : parts_) {
    if (!part.giving()) continue;
    cluster_.wrong(id_ + " begins to give partition " + std::to_string(partition) +
                   " before partition " + std::to_string(id) + " is given");
  }
  gift_ = Gift{partition, to, RanBeside(partition)};
  given.HandOver();
}

uint64_t Server::RanBeside(PartitionId partition) const {
  uint64_t ran = 0;
  for (const auto& [id, part] : parts_) ran += id == partition ? 0 : part.ran();
  return ran;
}

// Between two looks.
void Server::Give() {
  give_ = looking_;
  if (looking_) return;
  looking_ = true;
  process_.Ask<bool>(
      process_.ToAct(),
      [&database = cluster_.database, partition = gift_->partition, to = gift_->to, id = id_,
       epoch = parts_.at(gift_->partition).epoch()] {
        return database.Give(partition, epoch, id, to);
      },
      [this](const Result<bool>& given) { Given(given && *given); });
}

void Server::Given(bool surely) {
  looking_ = false;
  const auto [partition, to, ran] = *gift_;
  if (!surely) {
    ++cluster_.hits["a server does not know whether it has given a partition"];
    return Lose("nobody knows whether partition " + std::to_string(partition) + " was given to " +
                to);
  }
  if (RanBeside(partition) > ran) ++cluster_.hits["a partition is given while others go on"];
  member_->Dropped(partition);
  /*mutant cluster-others-lost-with-gift*/ parts_.at(partition).Drop("given to " + to); /*end*/
  /*mutant cluster-gives-once*/ gift_.reset(); /*end*/
  found_until_ = cluster_.network.now() + kToldByThen;
  TellAll();
  Look();
}

// The front --------------------------------------------------------------------------------------

void Server::Take(CallPtr call) {
  if (!runs()) return call->done(End::kNotDone, nullptr);
  Route({std::move(call), cluster_.network.now()});
}

bool Server::Here(PartitionId partition) const {
  const Part& part = parts_.at(partition);
  const Owned& owned = owners_[partition];
  return part.serves() && !part.giving() && owned.by == id_ && owned.epoch == part.epoch();
}

void Server::Post(CallPtr call) {
  const PartitionId partition = /*mutant cluster-posted-to-another*/ call->partition /*end*/;
  parts_.at(partition).Post(std::move(call));
}

void Server::Route(Waiting waiting) {
  const PartitionId partition = waiting.call->partition;
  const std::string& owner = owners_[partition].by;
  const LeaseTime waited = cluster_.network.now() - waiting.since;
  LeaseTime patience = kForOwner;
  if (owner == id_) {
    if (Here(partition) && MayAnswer()) return Post(std::move(waiting.call));
    if (Here(partition)) patience = kForWay;
    if (parts_.at(partition).giving()) ++cluster_.hits["a call waits while its partition is given"];
  } else if (!owner.empty()) {
    const int to = NumberOf(owner);
    Server* const peer = cluster_.servers[static_cast<size_t>(to)].get();
    if (peer && peer->runs() && cluster_.network.Through(number_, to)) {
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
  process_.Later(kTick, [this] {
    if (waiting_.empty()) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    Route(std::move(next));
  });
}

void Server::PassOn(const Waiting& waiting, int number) {
  const CallPtr& call = waiting.call;
  const std::string& owner = owners_[call->partition].by;
  ++cluster_.hits["a call is passed on"];
  const uint64_t mine = ++last_try_;
  tries_.emplace(mine, Try{call, owner, number, waiting.since, false});
  Server* const peer = cluster_.servers[static_cast<size_t>(number)].get();
  // The answer takes the same way back.
  auto back = [this, mine, number](End end, std::function<void()> tell) {
    if (!cluster_.network.Through(number, number_)) return;
    cluster_.network.In(cluster_.network.Delay(), process_.Mine([this, mine, end, tell] {
                          Answered(mine, end, tell);
                        }));
  };
  // It is for that process, as long as that has the partition.
  auto run = [this, run = call->run, meant = owner](const Owner& by, Reply reply) {
    if (by.id != meant) cluster_.wrong("a call to " + meant + " is run by " + by.id);
    if (by.hands_over) cluster_.wrong(by.id + " runs a call while it hands over");
    run(by, std::move(reply));
  };
  auto passed = std::make_shared<const Call>(Call{.partition = call->partition,
                                                  .reads_only = call->reads_only,
                                                  .run = run,
                                                  .done = back});
  cluster_.network.In(cluster_.network.Delay(), peer->process_.Mine([peer, passed, at = owner] {
                        peer->TakePassedOn(passed, at);
                      }));
  // Its deadline.
  process_.Later(seconds(10), [this, mine] {
    const auto found = tries_.find(mine);
    if (found == tries_.end()) return;
    const Try lost = found->second;
    tries_.erase(found);
    lost.call->done(lost.call->reads_only ? End::kNotDone : End::kUnknown, nullptr);
  });
}

void Server::Answered(uint64_t number, End end, std::function<void()> tell) {
  const auto found = tries_.find(number);
  if (found == tries_.end()) return;
  const CallPtr asked = found->second.call;
  const LeaseTime since = found->second.since;
  tries_.erase(found);
  if (end != End::kNotMine) return asked->done(end, std::move(tell));
  ++cluster_.hits["a call comes to one that is not the owner"];
  Look();
  if (cluster_.network.now() - since > 2 * kForOwner) return asked->done(End::kNotDone, nullptr);
  Await({asked, since});
}

// Nobody knows what the server did that had it. What only reads is asked again.
void Server::LoseTry(uint64_t number) {
  const auto found = tries_.find(number);
  if (found == tries_.end()) return;
  const CallPtr call = found->second.call;
  tries_.erase(found);
  ++cluster_.hits["a call is lost with its owner"];
  if (/*mutant cluster-lost-call-repeated*/ call->reads_only /*end*/) return Take(call);
  call->done(End::kUnknown, nullptr);
}

void Server::TakePassedOn(const CallPtr& call, const std::string& receiver) {
  if (/*mutant cluster-passed-on-anyhow*/ receiver != id_ || !Here(call->partition) /*end*/) {
    return call->done(End::kNotMine, nullptr);
  }
  if (MayAnswer()) return Post(call);
  call->done(End::kNotDone, nullptr);
}

}  // namespace dfsmr::cluster_sim
