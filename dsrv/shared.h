// A server whose store is shared with others: it keeps its lease, passes calls on, and serves the
// partitions of the store that it owns.
#pragma once

#include <functional>
#include <memory>

#include "dsrv/flags.h"
#include "dsrv/process.h"
#include "dsrv/served.h"
#include "storage/roster.h"

namespace dfsmr {

// What operators should know of a store in a database.
struct StoreUse {
  uint64_t fenced = 0;  // commits that were refused: another server owns the partition
  uint64_t idle = 0;    // connections
  uint64_t busy = 0;
};

// All but the roster: any thread.
struct SharedStore {
  std::string name;  // for people
  // What the next process should know of the database, when this one executes itself.
  std::function<std::string()> known;
  std::unique_ptr<Roster> roster;
  // The store, for who owns this partition as the row says.
  std::function<Result<Served::Opened>(const PartRow& mine)> open;
  // For how long the oldest read or write under way has waited.
  std::function<Duration()> waits;
  // What waits for the store fails, now and from now on.
  std::function<void()> give_up;
  std::function<StoreUse()> use;
};

using StoreOpener = std::function<Result<SharedStore>(const std::string& known)>;

// Serves until a signal ends it, and returns the status with which the process ends. When it has
// lost what it served it does not clean up: the process starts anew, by `arguments`, with nothing
// in memory that could be told. `open` is given what the process before knew of the database;
// empty: there was none.
int RunShared(const Flags& flags, const ReadFlags& read, const StoreOpener& open, char** arguments);

}  // namespace dfsmr
