// One simulated cluster: two to five servers over one database of one to eight partitions, clients
// that ask any of them, and whatever can go wrong with servers, network, clocks and the database's
// answers. What clients were told is compared with what the database knows; in the end all is well
// again, and all finishes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cluster/server.h"

namespace dfsmr::cluster_sim {

class ClusterSim {
 public:
  ClusterSim(uint64_t seed, bool trace);

  // The first thing that was found wrong; empty: all is well.
  std::string Run();

  const std::map<std::string, uint64_t>& hits() const { return cluster_.hits; }
  const std::vector<Database::Ledger>& ledgers() const { return database_.ledgers(); }
  uint64_t commits() const { return database_.commits(); }

 private:
  struct Watcher {
    PartitionId partition = 0;
    uint64_t seq = 0;
    bool reads = false;
  };

  void Wrong(const std::string& what);
  void Note(const std::string& what);
  bool Good() const { return problem_.empty(); }
  static uint16_t DrawPartitions(uint64_t seed);
  static EngineOptions Options(uint16_t partitions);
  Timestamp StoreTime() const;
  void Let(LeaseTime pass);

  // What goes wrong.
  void Plan();
  void Faults();
  void Fault();
  void Heal();
  void StartAll();
  void Calm();
  void TakeByHand();
  void CheckShares(const std::string& when);
  Server* AnyRunning();

  // Who asks.
  void Clients();
  void Ask(Call call);
  void Send(const CallPtr& call);
  PartitionId PlaceOf(const std::string& id) const;
  PartitionId AnyPartition();
  bool AllDefined() const;
  void Define(PartitionId partition, const std::string& source);
  void Start(const std::string& id, const std::string& machine, int tries);
  void Poll(PartitionId partition);
  void Receive(const std::vector<Task>& tasks);
  void Report(const Task& task, const std::string& transition, int tries);
  void Read(const std::string& id);
  void Watch(size_t which);
  void Release(const std::string& id);

  // In the end.
  void Finish();
  void CheckAll();
  void CheckRows(PartitionId partition);

  Random random_;
  const bool trace_;
  const uint16_t partitions_;
  Network network_;
  Database database_;
  Duration leapt_{};     // the database's clock
  Duration furthest_{};  // that it ever has
  Cluster cluster_;
  std::string problem_;

  int kills_ = 0, pauses_ = 0, cuts_ = 0, outages_ = 0, ends_ = 0, leaps_ = 0;
  bool finishing_ = false;
  bool calm_ = false;  // nothing goes wrong; partitions only move
  size_t size_ = 0;
  uint64_t starts_ = 0;
  std::vector<uint32_t> versions_;               // of "plain", acknowledged, by partition
  std::map<std::string, std::string> wanted_;    // id → machine
  std::set<std::string> started_;                // acknowledged
  std::map<std::string, std::string> accepted_;  // acknowledged: instance and claim → transition
  std::set<std::pair<std::string, uint64_t>> told_;  // visits that run at most once
  std::vector<Task> hands_;
  std::vector<Watcher> watchers_;                // some for each partition
};

}  // namespace dfsmr::cluster_sim
