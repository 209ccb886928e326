// The HTTP door of this server: its flags made into a listener, and the listener joined to the
// services.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dsrv/calls/backend.h"
#include "dsrv/flags.h"
#include "dsrv/http/door.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/pages.h"
#include "dsrv/http/router.h"
#include "dsrv/metrics/cluster.h"
#include "dsrv/metrics/collector.h"
#include "fsm/base/mutex.h"
#include "storage/place.h"

namespace dfsmr {

// One that is off does nothing.
class Web {
 public:
  // Fails when the address is given by its flag and cannot be had.
  static Result<std::unique_ptr<Web>> Listen(const Flags& flags);
  ~Web();

  std::string address() const;  // "localhost:3005", or "off"

  // `server` has started, and outlives this. `serving`: whether health says so; any thread.
  void Serve(grpc::Server& server, std::function<bool()> serving);
  // What a door needs besides calls.
  struct Behind {
    std::shared_ptr<const void> owner;  // all of it lives as long; null: longer than the door
    const Backend& backend;
    const RocksStore* store = nullptr;         // null: the rows are elsewhere
    const Audit* audit = nullptr;              // null: there is no trail
    std::function<Room()> room;                // any thread
    const otlp::Exporter* exporter = nullptr;  // null: spans go nowhere
  };
  // Where servers share the store: what a scrape shows of them, also without Bind. Any thread. Call
  // it before the others.
  using Counts = std::function<std::shared_ptr<const metrics::ClusterCounts>()>;
  void Share(Counts counts) { counts_ = std::move(counts); }
  // From now on `behind` is scraped. Any thread.
  void Bind(Behind behind);
  void Unbind(PartitionId partition);

  // The server stops: what is under way is answered, and nothing follows it.
  void Drain();
  void AwaitAnswers(std::chrono::steady_clock::time_point until);

 private:
  // Made of what is behind the door, for as long as somebody uses it.
  struct Bound {
    Behind behind;
    std::unique_ptr<metrics::Collector> collector;
  };
  using BoundPtr = std::shared_ptr<const Bound>;
  struct Scraped;

  explicit Web(const Flags& flags) : flags_(flags) {}
  // Null: another server has it.
  BoundPtr bound() const {
    const Lock lock(mutex_);
    const auto home = bound_.find(kHome);
    return home == bound_.end() ? nullptr : home->second;
  }
  std::vector<BoundPtr> AllBound() const;
  bool Turning();
  void TakeScrape(const http::Exchange& exchange, std::function<void(http::Response)> done);
  void Scrape(std::vector<BoundPtr> all, const http::Exchange& exchange,
              std::function<void(http::Response)> done);
  void ScrapeAlone(const http::Exchange& exchange, std::function<void(http::Response)> done);
  // What the process knows by itself. Not bound to the life of this.
  std::function<std::string()> ProcessText(metrics::Sees sees, metrics::Form form) const;
  http::GuardOptions ToGuard() const;

  const Flags flags_;
  const Timestamp start_time_ =
      std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
  Counts counts_;  // null: the store is this server's alone
  mutable Mutex mutex_;
  std::map<PartitionId, BoundPtr> bound_ GUARDED(mutex_);
  std::unique_ptr<http::Inside> inside_;
  std::unique_ptr<http::Pages> pages_;
  std::unique_ptr<http::Router> router_;
  std::unique_ptr<http::Door> door_;  // null: off
  std::atomic<bool> draining_{false};
  // When the deciding thread was asked to turn, and has not yet; 0: it has.
  std::shared_ptr<std::atomic<int64_t>> asked_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace dfsmr
