#include "dsrv/cluster/keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <utility>

#include "dsrv/cluster/peers.h"
#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr auto kTryAgain = std::chrono::milliseconds(200);  // after something that failed

// For people: where the calls of a partition go. Empty: to this server itself.
std::string WayOf(const Route& route) {
  if (route.kind == Route::Kind::kHere) return {};
  if (route.kind == Route::Kind::kNobody) return "wait for an owner";
  return "go to server " + route.peer->id + " at " + route.peer->address;
}

std::string Count(size_t partitions) {
  return std::to_string(partitions) + (partitions == 1 ? " partition" : " partitions");
}

const ServerRow* Alive(const Roster::Seen& seen, const std::string& id) {
  const auto row = std::ranges::find(seen.servers, id, &ServerRow::id);
  return row == seen.servers.end() || row->dead ? nullptr : &*row;
}

}  // namespace

Keeper::Keeper(Roster& roster, const ServerRow& self, LeaseTime joined, Front& front,
               Outside outside)
    : roster_(roster),
      self_(self),
      front_(front),
      outside_(std::move(outside)),
      member_(self.id, self.address, joined) {}

Keeper::~Keeper() {
  if (!thread_.joinable()) return;
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Keeper::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Keeper::Run() {
  while (true) {
    const LeaseTime wait = Look();
    Lock lock(mutex_);
    changed_.WaitFor(lock, wait,
                     [this]() REQUIRES(mutex_) { return ended_ || look_ || !asked_.empty(); });
    look_ = false;
    std::vector<std::function<void()>> asked;
    asked.swap(asked_);
    const bool ended = ended_;
    lock.Unlock();
    for (const auto& what : asked) what();
    if (ended || gone_) return;
  }
}

LeaseTime Keeper::Look() {
  if (const int64_t pinged = pinged_) member_.NotePing(LeaseTime(pinged));
  const LeaseTime sent = LeaseTimeNow();
  const auto seen = roster_.Renew(self_.id, member_.Reached(sent), member_.leaving());
  const LeaseTime now = LeaseTimeNow();
  outside_.alive(member_.MayAnswer(now));
  if (!seen) {
    if (!failing_) spdlog::warn("the lease could not be renewed: {}", seen.error().message);
    failing_ = true;
    return kTryAgain;
  }
  if (failing_) spdlog::info("the lease is renewed again");
  failing_ = false;
  outside_.time(seen->now);
  Member::Todo todo = member_.Look(*seen, sent, now);
  answers_until_ = member_.answers_until().count();
  outside_.alive(member_.MayAnswer(now));
  if (!todo.end.empty()) outside_.end(todo.end);
  if (todo.rejoin) outside_.lost("this server was silent for too long, and was buried");
  if (!todo.drop.empty()) outside_.lost("another server has taken the partition");
  MeetPeers(*seen);
  const bool done = Act(todo, *seen);
  SetRoutes(*seen);
  if (todo.bury.empty() && todo.take.empty()) return todo.wait;
  return done ? LeaseTime::zero() : LeaseTime(kTryAgain);
}

// Once for each cause.
void Keeper::NoteVain(const std::string& what, const Error* why) {
  const std::string text = what + (why ? ": " + OneLine(why->message) : "");
  if (text == vain_) return;
  vain_ = text;
  if (why) spdlog::warn("{}", text);
}

bool Keeper::Bury(const std::string& id) {
  const auto buried = roster_.Bury(id);
  if (!buried) NoteVain("server " + id + " could not be buried", &buried.error());
  if (!buried || !*buried) return false;
  spdlog::warn("server {} was silent for {} s: it is buried", id, Seconds(kLease));
  Tell();
  return true;
}

bool Keeper::Take(const PartRow& part) {
  const auto held = roster_.Take(part, self_.id);
  if (!held) {
    NoteVain("partition " + std::to_string(part.id) + " could not be taken", &held.error());
  }
  if (!held || !*held) return false;
  PartRow mine = part;
  mine.held = **held;
  mine.owner = self_.id;
  member_.Took(part.id, mine.held.epoch);
  mine_[part.id] = {mine.held.epoch, LeaseTimeNow()};
  front_.meter().Took(!part.owner.empty() && part.owner != self_.id);
  spdlog::info("this server takes partition {}, under epoch {}", part.id, mine.held.epoch);
  outside_.took(mine);
  return true;
}

bool Keeper::Act(const Member::Todo& todo, const Roster::Seen& seen) {
  bool done = true;
  for (const std::string& id : todo.bury) done = Bury(id) && done;
  const LeaseTime until = LeaseTimeNow() + outside_.busy;
  for (const PartRow& part : todo.take) {
    done = Take(part) && done;
    if (LeaseTimeNow() >= until) break;
  }
  if (done) vain_.clear();
  if (todo.raise && roster_.Raise(*todo.raise)) {
    spdlog::info("rows may be of level {} from now on: all servers know it", *todo.raise);
  }
  gift_ = todo.give;
  if (gift_ && !member_.leaving() && Alive(seen, gift_->second)) outside_.give(*gift_);
  return done;
}

std::shared_ptr<Peer> Keeper::Meet(const ServerRow& row) {
  auto& peer = peers_[row.id];
  if (peer && LeaseTimeNow() - LeaseTime(peer->answered) < outside_.redial) return peer;
  const int told = peer ? peer->told.load() : -1;
  peer = std::make_shared<Peer>(row.id, row.address, outside_.dial(row.address));
  peer->told = told;
  return peer;
}

// Connects to those that have come, lets go of those that have gone, and sees who answers.
void Keeper::MeetPeers(const Roster::Seen& seen) {
  std::erase_if(peers_, [&seen](const auto& one) { return !Alive(seen, one.first); });
  auto sight = std::make_shared<Sight>();
  sight->seen = seen;
  sight->when = LeaseTimeNow();
  for (const ServerRow& row : seen.servers) {
    if (row.dead || row.id == self_.id) continue;
    const auto peer = Meet(row);
    peer->silent = seen.now - row.seen >= kSilent;
    sight->peers.push_back(peer);
    Ping(front_, peer, false, [peer](bool answers, const std::string& why) {
      if (peer->told.exchange(answers ? 1 : 0) == (answers ? 1 : 0)) return;
      if (answers) {
        spdlog::info("server {} answers at {}", peer->id, peer->address);
      } else {
        spdlog::warn("server {} does not answer at {}: {}", peer->id, peer->address, OneLine(why));
      }
    });
  }
  const Lock lock(mutex_);
  sight_ = std::move(sight);
}

Route Keeper::RouteOf(const PartRow& part) {
  if (part.owner != self_.id) {
    const auto peer = peers_.find(part.owner);
    if (peer == peers_.end()) return {};
    return {.kind = Route::Kind::kThere, .peer = peer->second};
  }
  const auto mine = mine_.find(part.id);
  if (mine == mine_.end() || !mine->second.inside || mine->second.epoch != part.held.epoch) {
    return {};
  }
  return {.kind = Route::Kind::kHere,
          .peer = {},
          .inside = mine->second.inside,
          .direct = mine->second.direct};
}

void Keeper::SetRoutes(const Roster::Seen& seen) {
  Front::Routes changed;
  std::map<std::string, size_t> told;  // what is to be logged, and of how many partitions
  for (const PartRow& part : seen.parts) {
    Route route = RouteOf(part);
    Route& before = routed_[part.id];
    if (route == before) continue;
    const std::string text = WayOf(route);
    if (text != WayOf(before)) ++told[text];  // else it is the same server, dialled anew
    before = route;
    changed.emplace(part.id, std::move(route));
  }
  for (const auto& [text, count] : told) {
    if (text.empty()) continue;
    spdlog::info("calls{} {}", seen.parts.size() == 1 ? "" : " for " + Count(count), text);
  }
  if (!changed.empty()) front_.SetRoutes(std::move(changed));
}

// That there is something to see.
void Keeper::Tell() {
  for (const auto& [id, peer] : peers_) Ping(front_, peer, true, [](bool, const std::string&) {});
}

void Keeper::Pinged(bool look) {
  pinged_ = LeaseTimeNow().count();
  if (!look) return;
  const Lock lock(mutex_);
  look_ = true;
  changed_.NotifyAll();
}

bool Keeper::Ask(std::function<void()> what, std::chrono::steady_clock::time_point until) {
  auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  {
    const Lock lock(mutex_);
    if (ended_) return false;
    asked_.push_back([what = std::move(what), done] {
      what();
      done->set_value();
    });
  }
  changed_.NotifyAll();
  return future.wait_until(until) == std::future_status::ready;
}

void Keeper::Serves(PartitionId partition, std::shared_ptr<grpc::GenericStub> inside,
                    std::shared_ptr<DirectServices> direct) {
  const Lock lock(mutex_);
  asked_.push_back([this, partition, inside = std::move(inside), direct = std::move(direct)] {
    const auto mine = mine_.find(partition);
    if (mine == mine_.end()) return;
    front_.meter().Serves(LeaseTimeNow() - mine->second.took);
    mine->second.inside = inside;
    mine->second.direct = direct;
  });
  changed_.NotifyAll();
}

bool Keeper::Give(const Gift& gift) {
  auto given = std::make_shared<std::atomic<bool>>(false);
  const bool asked = Ask(
      [this, gift, given] {
        const auto& [partition, to] = gift;
        const auto mine = mine_.find(partition);
        if (mine == mine_.end()) return;
        const auto gave = roster_.Give(partition, mine->second.epoch, self_.id, to);
        member_.Dropped(partition);
        mine_.erase(mine);
        *given = gave && *gave;
        if (*given) spdlog::info("partition {} is given to server {}", partition, to);
        Tell();
      },
      std::chrono::steady_clock::now() + std::chrono::seconds(5));
  return asked && *given;
}

std::optional<Keeper::Gift> Keeper::Leave(std::chrono::steady_clock::time_point until) {
  struct Seen {
    std::optional<Gift> gift;
    bool others = false;
  };
  while (true) {
    auto seen = std::make_shared<Seen>();
    const bool asked = Ask(
        [this, seen] {
          member_.Leave();
          Look();  // so that the row says it
          Look();  // what all compute of such a row
          seen->others = !mine_.empty() && !peers_.empty();
          const auto peer = gift_ ? peers_.find(gift_->second) : peers_.end();
          if (peer != peers_.end() && peer->second->answers) seen->gift = gift_;
        },
        until);
    if (!asked || seen->gift || !seen->others) return seen->gift;
    // Others are there, and have not been reached yet, or not by each other.
    if (std::chrono::steady_clock::now() + kTryAgain > until) return std::nullopt;
    std::this_thread::sleep_for(kTryAgain);
  }
}

void Keeper::Quit() {
  Ask(
      [this] {
        answers_until_ = 0;  // what it had may be another one's from here on
        (void)roster_.Leave(self_.id);
        Tell();
        gone_ = true;
      },
      std::chrono::steady_clock::now() + std::chrono::seconds(2));
}

Keeper::SightPtr Keeper::sight() const {
  const Lock lock(mutex_);
  return sight_;
}

void Keeper::LookFor(std::function<void(const SightPtr&)> then) {
  const Lock lock(mutex_);
  asked_.push_back([this, then = std::move(then)] {
    Look();
    then(sight());
  });
  changed_.NotifyAll();
}

}  // namespace dfsmr
