// Which request goes where, and what all answers have in common.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "dsrv/http/events.h"
#include "dsrv/http/exchange.h"
#include "dsrv/http/failure.h"
#include "dsrv/http/guard.h"
#include "dsrv/http/inside.h"
#include "dsrv/http/interface.h"
#include "dsrv/http/pages.h"
#include "dsrv/http/session.h"

namespace dfsmr::http {

class Router final : public Handler {
 public:
  struct Health {
    bool turning = true;  // the deciding thread does
    bool serving = true;  // calls are taken
    std::string room = "ample";
  };
  struct Options {
    std::string base;  // in front of all routes: "" or "/PATH"
    GuardOptions guard;
    bool compat = true;  // the original service is served
    bool asks = false;   // calls for tokens
    std::function<Health()> health;
    // GET /metrics; `done` gets the answer from any thread. Null: there is nothing there.
    std::function<void(const Exchange&, std::function<void(Response)> done)> metrics;
    // A request that the door itself has refused.
    std::function<void(const Failure&, const Visitor&)> refused;
  };
  // All of them outlive the router.
  Router(Options options, Inside& inside, const Pages& pages);

  Plan Look(const Request& request, const Client& client) override;
  void Serve(std::shared_ptr<Exchange> exchange) override;
  Response Refuse(const Malformed& malformed, const Request& request,
                  const Client& client) override;
  void Dress(const Request& request, const Visitor& visitor, Response* response) override;

 private:
  enum class Kind {
    kNone,
    kMethod,
    kSession,
    kEvents,
    kHook,
    kOpenApi,
    kHealth,
    kReady,
    kMetrics,
    kPage,
    kAsset
  };
  struct Route {
    Kind kind = Kind::kNone;
    const MethodDescriptor* method = nullptr;
    std::string rest;  // an asset's name, a webhook's path, or the path
  };
  Route RouteOf(const Request& request) const;
  std::string_view VerbsOf(const Route& route) const;
  std::optional<Response> RefusalOf(const Request& request, const Visitor& visitor,
                                    const Route& route) const;
  Response Preflight(const Visitor& visitor, const Route& route) const;
  void ServeMetrics(std::shared_ptr<Exchange> exchange) const;
  void ServeHealth(Exchange& exchange, bool ready) const;
  Response RefuseBy(const Failure& failure, const Visitor& visitor) const;

  const Options options_;
  const Guard guard_;
  Inside& inside_;
  const Pages& pages_;
  EventCache events_;
  std::once_flag openapi_asked_;
  std::string openapi_;
};

}  // namespace dfsmr::http
