// The HTTP door of this server: its flags made into a listener, and the listener joined to the
// services.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dsrv/calls/backend.h"
#include "dsrv/calls/webhooks.h"
#include "dsrv/flags.h"
#include "dsrv/http/door.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/pages.h"
#include "dsrv/http/router.h"
#include "dsrv/metrics/collector.h"

namespace dfsmr {

// One that is off does nothing.
class Web {
 public:
  // Fails when the address is given by its flag and cannot be had.
  static Result<std::unique_ptr<Web>> Listen(const Flags& flags);
  ~Web();

  std::string address() const;  // "localhost:3005", or "off"

  // `server` has started; it, `backend`, `store` and `audit` (null: there is none) outlive this.
  // `room` may be asked from any thread.
  void Serve(grpc::Server& server, const Backend& backend, const RocksStore& store,
             const Audit* audit, std::function<Room()> room);

  // The server stops: what is under way is answered, and nothing follows it.
  void Drain();
  void AwaitAnswers(std::chrono::steady_clock::time_point until);

 private:
  explicit Web(const Flags& flags) : flags_(flags) {}
  bool Turning();
  void TakeHook(const http::Exchange& exchange, const std::string& ns, const std::string& path,
                std::function<void(http::Response)> done);
  void TakeScrape(const http::Exchange& exchange, std::function<void(http::Response)> done);
  http::GuardOptions ToGuard() const;

  const Flags flags_;
  const Backend* backend_ = nullptr;
  WebhookDoor hooks_;
  std::unique_ptr<metrics::Collector> collector_;
  std::unique_ptr<http::Inside> inside_;
  std::unique_ptr<http::Pages> pages_;
  std::unique_ptr<http::Router> router_;
  std::unique_ptr<http::Door> door_;  // null: off
  std::atomic<bool> draining_{false};
  // When the deciding thread was asked to turn, and has not yet; 0: it has.
  std::shared_ptr<std::atomic<int64_t>> asked_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace dfsmr
