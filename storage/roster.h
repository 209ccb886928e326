// Which servers share a store, and which of them owns each partition: a few rows beside the data.
//
// A server holds a lease: a row with the time at which it was last heard of. It renews that time; a
// server that has been silent for kLease may be buried by any other one, for good: a row that is
// dead is never alive again. A partition belongs to the server that its row names, under an epoch
// that rises with each owner. What is taken from a buried server cannot be written by it any more,
// since the store refuses writes under an earlier epoch.
//
// All times are the store's own, so that the servers' clocks do not matter.
//
// One thread at a time. Every method may fail with kUnavailable: then nobody knows whether it was
// done, and the same may be asked again. What decides on these rows is in dsrv/cluster/member.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/base/time.h"
#include "storage/store.h"

namespace dfsmr {

// After so long without a renewal a server may be buried.
inline constexpr Duration kLease = std::chrono::seconds(10);
// After so long it is called silent: it has missed a renewal at least.
inline constexpr Duration kSilent = std::chrono::seconds(4);

// A partition, as its owner holds it.
struct Holding {
  Epoch epoch = 0;
  uint64_t seq = 0;   // commits of it so far, by whomever
  uint64_t feed = 0;  // the last record of its feed
  friend bool operator==(const Holding&, const Holding&) = default;
};

struct ServerRow {
  std::string id;       // made at each start, never used again
  std::string address;  // where the others reach it
  std::string version;
  uint32_t level = 0;  // the highest level of rows that it can read and write
  Timestamp started;
  Timestamp seen;
  bool reached = false;  // another one has reached it at its address
  bool leaving = false;  // it gives away what it has, and takes nothing
  bool dead = false;     // buried, or gone by itself
  friend bool operator==(const ServerRow&, const ServerRow&) = default;
};

inline constexpr uint16_t kAsMade = 0;  // as many partitions as the store was made of
inline constexpr uint16_t kMadeOf = 16;  // of how many it is made where nothing else is asked for

struct PartRow {
  PartitionId id = 0;
  Holding held;
  std::string owner;  // a server's id; empty: nobody's
  Timestamp since;    // it is the owner's
  friend bool operator==(const PartRow&, const PartRow&) = default;
};

struct ClusterRow {
  uint32_t format = 0;
  uint32_t level = 0;       // of the rows; no server writes rows of a later one
  uint16_t partitions = 0;  // for good
  uint64_t life = 0;        // another one once the store was restored
  std::string secret;       // 32 bytes; servers prove to each other that they know it
  std::string moved;        // where the store went; empty: it is here
  friend bool operator==(const ClusterRow&, const ClusterRow&) = default;
};

// Of the store, for people.
struct StoreFacts {
  std::string kind;        // "postgresql"
  std::string database;    // its version
  std::string durability;  // "synchronous", "single" (no standby), "asynchronous"
};

class Roster {
 public:
  struct Seen {
    Timestamp now;       // as of the rows
    bool alive = false;  // the renewal counts. False: this server is dead; the rows are there
    ClusterRow cluster;
    std::vector<ServerRow> servers;  // by id; those that have been dead for long may be missing
    std::vector<PartRow> parts;      // by id
  };

  // Those that live at an address: who comes before one that joins there.
  static std::vector<std::string> LivingAt(const Seen& seen, const std::string& address) {
    std::vector<std::string> living;
    for (const ServerRow& one : seen.servers) {
      if (!one.dead && one.address == address) living.push_back(one.id);
    }
    return living;
  }

  virtual ~Roster() = default;

  // Makes the rows when there are none, for so many partitions (kAsMade: kMadeOf); of several at
  // once, one does. kFailedPrecondition: there are rows, of another number of partitions (the
  // message names both), or of a format that this version does not know.
  virtual Result<ClusterRow> Open(uint16_t partitions) = 0;

  virtual StoreFacts Facts() const = 0;

  // Adds a server that is alive as of now, and buries those `before` it: all that lived at its
  // address when it looked. While any other one lives there it does not join: who asked is gone by
  // then, and this is its successor. Of `self` the times and flags do not count. Asked again with
  // the same id it changes nothing.
  virtual Result<Ok> Join(const ServerRow& self, const std::vector<std::string>& before) = 0;

  // Says that `self` is alive, unless it is dead, and looks around: one round trip.
  virtual Result<Seen> Renew(const std::string& self, bool reached, bool leaving) = 0;

  // Whether `server` is dead now: it was, or it has been silent for kLease and was buried.
  virtual Result<bool> Bury(const std::string& server) = 0;

  // Makes `self` the owner of a partition under the next epoch, if the row still has the owner and
  // the epoch of `seen`, and that owner is nobody, `self`, or dead, and `self` is alive. nullopt:
  // it is not so. What it returns has every commit that was ever made under an earlier epoch.
  virtual Result<std::optional<Holding>> Take(const PartRow& seen, const std::string& self) = 0;

  // Gives a partition that `self` owns under `epoch` to `server`, or to nobody, under the next
  // epoch. The last commit under `epoch` has returned. False: it was not `self`'s.
  virtual Result<bool> Give(PartitionId partition, Epoch epoch, const std::string& self,
                            const std::string& server) = 0;

  // `self` is gone of its own accord: dead as of now. What it still owns may be taken.
  virtual Result<Ok> Leave(const std::string& self) = 0;

  // The level of the rows is at least this from now on.
  virtual Result<Ok> Raise(uint32_t level) = 0;
};

}  // namespace dfsmr
