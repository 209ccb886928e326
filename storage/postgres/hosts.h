// Which of a database's hosts has the store. After a failover two of them may take writes: the
// standby that was promoted, and the former primary, once its machine is back. PostgreSQL begins a
// new timeline with each promotion, so of hosts that are the same system the one of the latest
// timeline has the store, and nothing of an earlier one is ever used again.
//
// Of databases that are not PostgreSQL itself nothing is known of timelines: the first host that
// takes writes is used.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fsm/base/mutex.h"
#include "storage/postgres/address.h"
#include "storage/postgres/connection.h"

namespace dfsmr {

// Any thread.
class PgHosts {
 public:
  // What an operator should know: `bad`, or that it is well again.
  using Tell = std::function<void(bool bad, const std::string& what)>;

  // `known`: what known() has returned in a process before this one; empty: nothing is known.
  PgHosts(PgAddress address, const std::string& known, Tell tell);

  // Connects to the host that has the store: the one that had it, or after any connection was lost
  // the best of all, which are asked at once, for 3 s at most. Connections to the one before are
  // lost then. kUnavailable: no host takes writes, or only former primaries do; the message says
  // why, host by host.
  Result<std::unique_ptr<PgConnection>> Connect();

  // The latest timeline so far, for the next process.
  std::string known() const;

 private:
  using Opened = Result<std::unique_ptr<PgConnection>>;

  Opened Open(int host) const;
  std::optional<std::unique_ptr<PgConnection>> OpenChosen();
  std::vector<Opened> OpenAll() const;
  Opened Best(std::vector<Opened> all) REQUIRES(asking_);
  void TellOf(const std::string& former) REQUIRES(asking_);
  // Takes note of its timeline. False: a later one is known.
  bool Accept(const PgConnection& connection);

  const PgAddress address_;
  const Tell tell_;
  const PgChoice choice_ = std::make_shared<std::atomic<int>>(kNoHost);
  Mutex asking_;  // all hosts: one thread at a time
  std::string told_ GUARDED(asking_);
  std::optional<Error> nobody_ GUARDED(asking_);  // as last asked
  std::atomic<uint64_t> rounds_ = 0;
  mutable Mutex mutex_;
  PgTimeline known_ GUARDED(mutex_);
};

}  // namespace dfsmr
