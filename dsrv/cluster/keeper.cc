#include "dsrv/cluster/keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <utility>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr auto kTryAgain = std::chrono::milliseconds(200);  // after something that failed

const PartRow* WholeOf(const Roster::Seen& seen) {
  const auto part = std::ranges::find(seen.parts, kWhole, &PartRow::id);
  return part == seen.parts.end() ? nullptr : &*part;
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
  SetRoute(*seen);
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
  epoch_ = mine.held.epoch;
  took_ = LeaseTimeNow();
  front_.meter().Took(!part.owner.empty() && part.owner != self_.id);
  inside_.reset();
  spdlog::info("this server takes partition {}, under epoch {}", part.id, mine.held.epoch);
  outside_.took(mine);
  return true;
}

bool Keeper::Act(const Member::Todo& todo, const Roster::Seen& seen) {
  bool done = true;
  for (const std::string& id : todo.bury) done = Bury(id) && done;
  for (const PartRow& part : todo.take) done = Take(part) && done;
  if (done) vain_.clear();
  if (todo.raise && roster_.Raise(*todo.raise)) {
    spdlog::info("rows may be of level {} from now on: all servers know it", *todo.raise);
  }
  give_to_ = todo.give ? todo.give->second : "";
  if (todo.give && !member_.leaving() && Alive(seen, give_to_)) outside_.give(give_to_);
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

void Keeper::SetRoute(const Roster::Seen& seen) {
  const PartRow* const part = WholeOf(seen);
  Route route;
  std::string name;
  if (part && part->owner == self_.id) {
    if (inside_ && epoch_ == part->held.epoch) {
      route = {.kind = Route::Kind::kHere, .inside = inside_};
      name = "here";
    }
  } else if (part && peers_.contains(part->owner)) {
    route = {.kind = Route::Kind::kThere, .peer = peers_[part->owner]};
    name = part->owner;
  }
  if (name == routed_ && route.peer == routed_to_) return;
  routed_to_ = route.peer;
  if (name == std::exchange(routed_, name)) {
    // The same server, dialled anew.
  } else if (route.kind == Route::Kind::kThere) {
    spdlog::info("calls go to server {} at {}", route.peer->id, route.peer->address);
  } else if (route.kind == Route::Kind::kNobody) {
    spdlog::info("calls wait for an owner");
  }
  front_.SetRoute(std::move(route));
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

void Keeper::Serves(std::shared_ptr<grpc::GenericStub> inside) {
  const Lock lock(mutex_);
  asked_.push_back([this, inside = std::move(inside)] {
    front_.meter().Serves(LeaseTimeNow() - took_);
    inside_ = inside;
  });
  changed_.NotifyAll();
}

bool Keeper::Give(const std::string& to) {
  auto given = std::make_shared<std::atomic<bool>>(false);
  const bool asked = Ask(
      [this, to, given] {
        if (!epoch_) return;
        inside_.reset();
        const auto gave = roster_.Give(kWhole, *epoch_, self_.id, to);
        member_.Dropped(kWhole);
        epoch_.reset();
        *given = gave && *gave;
        if (*given) spdlog::info("the partition is given to server {}", to);
        Tell();
      },
      std::chrono::steady_clock::now() + std::chrono::seconds(5));
  return asked && *given;
}

std::string Keeper::Leave(std::chrono::steady_clock::time_point until) {
  struct Seen {
    std::string to;
    bool others = false;
  };
  while (true) {
    auto seen = std::make_shared<Seen>();
    const bool asked = Ask(
        [this, seen] {
          member_.Leave();
          Look();  // so that the row says it
          Look();  // what all compute of such a row
          seen->others = epoch_ && !peers_.empty();
          if (peers_.contains(give_to_) && peers_[give_to_]->answers) seen->to = give_to_;
        },
        until);
    if (!asked || !seen->to.empty() || !seen->others) return seen->to;
    // Others are there, and have not been reached yet, or not by each other.
    if (std::chrono::steady_clock::now() + kTryAgain > until) return "";
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

std::shared_ptr<const Keeper::Sight> Keeper::sight() const {
  const Lock lock(mutex_);
  return sight_;
}

}  // namespace dfsmr
