// Clients that make every call until it is answered, and keep what they were told: the load of the
// kill loop, and the ledger that its audit goes by.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/chaos/server.h"

namespace dfsmr::chaos {

// The machine `route`, whose node b runs at most once, and plans that use all that plans can.
extern const char kDefinitions[];
constexpr int kSpawned = 5;
constexpr int kKids = 3;
constexpr int kEvents = 3;

// What clients were told.
struct Ledger {
  struct Accepted {
    std::string instance;
    uint64_t left = 0;   // the visit that was reported
    uint64_t visit = 0;  // the one that was entered
    std::string prev_node;
    std::string transition;
    std::string node;
    std::string event;  // that the task brought
    int64_t number = -1;  // of that event
    int64_t by = 0;       // the output that was sent
    std::string input;    // the task's
  };
  struct Cancelled {
    std::string instance;
    bool forced = false;
  };
  std::vector<std::string> started;
  std::vector<Accepted> accepted;
  std::vector<Cancelled> cancelled;
  std::vector<std::pair<std::string, uint64_t>> handed;  // at-most-once visits: instance, visit
  std::vector<std::pair<std::string, uint64_t>> given_back;  // of them, acknowledged or tried
  std::map<std::pair<std::string, int>, int> events_sent;  // instance, number -> times
  uint64_t calls = 0;
  uint64_t unknown = 0;  // calls that a crash left without an answer

  void Append(Ledger&& other);
};

// What a follower of the feed saw: a hash for each record, across all its reconnections.
struct Watched {
  std::vector<uint64_t> hashes;  // of record 1, 2, ...
  uint64_t resumed = 0;
};

uint64_t HashOf(const v1::Change& change);

class Crew {
 public:
  Crew(const Dsrv& server, uint64_t seed, Findings* findings);
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  // Nothing new is started from now on; what runs is worked off.
  void StopStarting() { starting_ = false; }
  // Ends all clients. Their ledgers are whole: no call is left without its answer unless the server
  // is gone for good.
  void Stop();
  Ledger& ledger() { return ledger_; }
  const std::vector<Watched>& watched() const { return watched_; }
  uint64_t accepted() const { return accepted_; }

 private:
  class Client;
  void Run(const std::string& role, int number);
  void Watch(std::size_t number);

  const Dsrv& server_;
  const uint64_t seed_;
  Findings& findings_;
  std::atomic<bool> starting_ = true;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> live_ = 0;
  std::atomic<uint64_t> accepted_ = 0;
  std::atomic<int64_t> serial_ = 0;  // of outputs
  std::mutex mutex_;
  Ledger ledger_;                  // of those that have ended
  std::deque<std::string> recent_;  // instances that may be cancelled or sent events
  std::deque<std::string> to_send_events_;
  std::vector<Watched> watched_;
  std::vector<std::thread> threads_;
};

}  // namespace dfsmr::chaos
