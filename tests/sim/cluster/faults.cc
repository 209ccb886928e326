// Of the simulated cluster: what goes wrong, until all is well again, and partitions only move.
#include <algorithm>

#include "tests/sim/cluster/cluster_sim.h"

namespace dfsmr::cluster_sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

// What goes wrong --------------------------------------------------------------------------------

void ClusterSim::Plan() {
  size_ = 2 + random_.Below(4);
  for (size_t i = 0; i < size_; ++i) {
    cluster_.servers.push_back(std::make_unique<Server>(cluster_, static_cast<int>(i)));
  }
  const auto weight = [this](int percent, int most) {
    return random_.Chance(percent) ? 1 + static_cast<int>(random_.Below(most)) : 0;
  };
  kills_ = weight(50, 4);
  pauses_ = weight(50, 4);
  cuts_ = weight(50, 4);
  outages_ = weight(30, 1);
  ends_ = weight(50, 3);
  leaps_ = weight(30, 1);
  cluster_.lost_commits = weight(60, 8);
  cluster_.lost_renewals = weight(40, 6);
  cluster_.late_acts = weight(40, 40);
  cluster_.stale_reads = weight(50, 40);
  cluster_.pace = weight(50, 40);
  if (cluster_.stale_reads > 0) database_.KeepPasts(1 + random_.Below(8));
}

void ClusterSim::Faults() {
  if (finishing_) return;
  network_.In(milliseconds(300 + random_.Below(4'000)), [this] {
    if (finishing_) return;
    Fault();
    Faults();
  });
}

Server* ClusterSim::AnyRunning() {
  std::vector<Server*> running;
  for (auto& server : cluster_.servers) {
    if (server->runs() && !server->process().paused()) running.push_back(server.get());
    if (server->share() == 0) continue;
    running.insert(running.end(), 2, server.get());  // most is to see there
  }
  return running.empty() ? nullptr : random_.Of(running);
}

void ClusterSim::Fault() {
  for (auto& server : cluster_.servers) {  // what has ended comes back, sooner or later
    if (!server->runs() && random_.Chance(40)) {
      Note("server " + std::to_string(server->number()) + " starts");
      ++cluster_.hits["a server starts"];
      server->Start();
    }
  }
  Server* const one = AnyRunning();
  const int all = kills_ + pauses_ + cuts_ + outages_ + ends_ + leaps_;
  if (!one || all == 0) return;
  int dice = static_cast<int>(random_.Below(static_cast<size_t>(all)));
  const int number = one->number();
  const LeaseTime some = random_.Chance(60) ? LeaseTime(milliseconds(random_.Below(3'000)))
                                         : LeaseTime(milliseconds(random_.Below(30'000)));
  if ((dice -= kills_) < 0) {
    Note(one->id() + " is killed");
    ++cluster_.hits["a server is killed"];
    one->Kill();
  } else if ((dice -= pauses_) < 0) {
    Note(one->id() + " is paused");
    ++cluster_.hits["a server is paused"];
    const LeaseTime longer = milliseconds(11'000 + random_.Below(15'000));
    const Process::InAnswer befalls{random_.Chance(70) ? longer : some, random_.Chance(40),
                                   random_.Chance(40)};
    if (random_.Chance(50)) return one->process().Befalls(befalls);
    one->process().Pause(network_.now() + some);
  } else if ((dice -= ends_) < 0) {
    Note(one->id() + " is to end");
    one->Terminate();
  } else if ((dice -= leaps_) < 0) {
    const auto by = static_cast<int64_t>(random_.Below(7'200'000'000)) - 3'600'000'000;
    ++cluster_.hits["the database's clock leaps"];
    Note("the database's clock leaps");
    leapt_ += Duration(by);
    furthest_ = std::max(furthest_, leapt_);
    database_.roster().SetClock(StoreTime());
  } else if ((dice -= outages_) < 0) {
    ++cluster_.hits["the database is away"];
    Note("the database is away");
    for (int i = 0; i < static_cast<int>(size_); ++i) {
      network_.Cut(i, -1);
      network_.In(some, [this, i] { network_.Mend(i, -1); });
    }
  } else {
    const int to = static_cast<int>(random_.Below(size_ + 2)) - 2;
    const int from = to == number ? -1 : to;
    ++cluster_.hits[from < 0 ? "a server is cut from the database" : "two servers are cut apart"];
    Note(one->id() + " is cut from " + std::to_string(from));
    const auto cut = [&](int a, int b) {
      network_.Cut(a, b);
      network_.In(some, [this, a, b] { network_.Mend(a, b); });
    };
    if (from < 0) return cut(number, -1);
    cut(number, from);
    if (random_.Chance(70)) cut(from, number);
  }
}

// All is well ------------------------------------------------------------------------------------

// From now on nothing goes wrong any more; an owner is there soon.
void ClusterSim::Heal() {
  Note("all is well");
  finishing_ = true;
  network_.MendAll();
  LeaseTime awake = network_.now();
  cluster_.lost_commits = cluster_.lost_renewals = 0;
  cluster_.late_acts = cluster_.stale_reads = 0;
  cluster_.well = true;
  database_.KeepPasts(0);
  for (auto& server : cluster_.servers) {
    server->process().Befalls(std::nullopt);
    awake = std::max(awake, server->process().paused_until());
  }
  Let(awake + seconds(11) - network_.now());  // those that were to end have ended
  // Those that have ended come back only then: somebody else has what they had.
  if (!AnyRunning()) cluster_.servers.front()->Start();
  // What was due by a clock that has gone back since is due when it has come there again.
  const bool leaps = leapt_ != furthest_;
  leapt_ = furthest_;
  Let(seconds(leaps ? 26 : 16));
  if (Good()) CheckShares("16 s after all was well");
}

void ClusterSim::StartAll() {
  for (auto& server : cluster_.servers) {
    if (!server->runs()) server->Start();
  }
}

// Each partition is somebody's, and nobody has more than what is just.
void ClusterSim::CheckShares(const std::string& when) {
  size_t owners = 0;
  for (auto& server : cluster_.servers) owners += server->runs() && !server->leaving() ? 1 : 0;
  for (auto& server : cluster_.servers) {
    if (!server->runs() || server->leaving()) continue;
    const size_t least = partitions_ / owners;
    const size_t most = (partitions_ + owners - 1) / owners;
    if (server->share() >= least && server->share() <= most) continue;
    Wrong(server->id() + " serves " + std::to_string(server->share()) + " of " +
          std::to_string(partitions_) + " partitions, as one of " + std::to_string(owners) + ", " +
          when);
  }
  for (PartitionId id = 0; id < partitions_; ++id) {
    const auto serves = [id](const auto& server) { return server->serves(id); };
    const auto serving = std::ranges::count_if(cluster_.servers, serves);
    if (serving == 1) continue;
    Wrong(std::to_string(serving) + " servers serve partition " + std::to_string(id) + " " + when);
  }
}

// Those that had ended are back, and get their shares; one ends in order. No call fails by that.
void ClusterSim::Calm() {
  if (partitions_ == 1) return StartAll();
  Note("partitions only move");
  network_.Calm(true);
  calm_ = true;
  StartAll();
  finishing_ = false;
  Clients();
  Let(seconds(10));
  if (Good()) CheckShares("10 s after the last one started");
  random_.Of(cluster_.servers)->Terminate();
  Let(seconds(6));
  finishing_ = true;
  if (Good()) CheckShares("6 s after one was to end");
  Let(seconds(5));  // what is under way
  calm_ = false;
  if (Good()) TakeByHand();
  network_.Calm(false);
  StartAll();
}

// A partition is taken from its owner, who hears of it when it looks next.
void ClusterSim::TakeByHand() {
  const PartitionId partition = AnyPartition();
  const PartRow taken = database_.part(partition);
  const std::string what = "partition " + std::to_string(partition) + " of " + taken.owner;
  Note(what + " is taken by hand");
  ++cluster_.hits["a partition is taken by hand"];
  (void)database_.Give(partition, taken.held.epoch, taken.owner, "");
  if (random_.Chance(50)) {  // it decides something before
    std::string id = "late";
    while (PlaceOf(id) != partition) id += "r";
    Start(id, "plain", 0);
  }
  Let(seconds(3));
  for (auto& server : cluster_.servers) {
    if (server->id() == taken.owner && server->serves(partition)) {
      Wrong(what + " is served 3 s after it was taken by hand");
    }
  }
  Let(seconds(12));
  if (Good()) CheckShares("15 s after one was taken by hand");
}

}  // namespace dfsmr::cluster_sim
