// A server whose store is shared with others: it keeps its lease, passes calls on, and serves the
// store itself while it owns its partition.
#pragma once

#include <functional>
#include <memory>

#include "dsrv/flags.h"
#include "dsrv/process.h"
#include "dsrv/served.h"
#include "storage/roster.h"

namespace dfsmr {

struct SharedStore {
  std::string name;  // for people
  std::unique_ptr<Roster> roster;
  // The store, for who owns its partition as the row says. Any thread.
  std::function<Result<Served::Opened>(const PartRow& mine)> open;
};

// Serves until a signal ends it, and returns the status with which the process ends. When it has
// lost what it served it does not clean up: the process starts anew, by `arguments`, with nothing
// in memory that could be told.
int RunShared(const Flags& flags, const ReadFlags& read,
              const std::function<Result<SharedStore>()>& open, char** arguments);

}  // namespace dfsmr
