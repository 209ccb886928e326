#include "dsrv/http/router.h"

#include <algorithm>

#include "dsrv/access/credentials.h"
#include "dsrv/http/gzip.h"
#include "dsrv/http/hook.h"
#include "dsrv/http/openapi.h"
#include "dsrv/http/stream.h"
#include "dsrv/http/unary.h"
#include "fsm/base/json.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

constexpr size_t kWorthPacking = 1024;
constexpr size_t kRequestId = 128;

std::string RequestIdOf(const Request& request) {
  const auto given = request.Header("x-request-id");
  const bool fine = given && !given->empty() && given->size() <= kRequestId &&
                    std::ranges::all_of(*given, [](char c) { return c >= 0x20 && c < 0x7f; });
  return fine ? std::string(*given) : RandomHex(8);
}

bool Has(std::string_view verbs, std::string_view verb) {
  while (!verbs.empty()) {
    const size_t comma = std::min(verbs.find(", "), verbs.size());
    if (verbs.substr(0, comma) == verb) return true;
    verbs.remove_prefix(std::min(comma + 2, verbs.size()));
  }
  return false;
}

}  // namespace

Router::Router(Options options, Inside& inside, const Pages& pages)
    : options_(std::move(options)), guard_(options_.guard), inside_(inside), pages_(pages) {}

Router::Route Router::RouteOf(const Request& request) const {
  std::string_view path = request.path;
  if (!options_.base.empty()) {
    if (!path.starts_with(options_.base)) return {};
    path.remove_prefix(options_.base.size());
    if (path.empty()) path = "/";
    if (path.front() != '/') return {};
  }
  if (path == "/healthz") return {Kind::kHealth};
  if (path == "/readyz") return {Kind::kReady};
  if (path == "/metrics" && options_.metrics) return {Kind::kMetrics};
  if (path == "/openapi.json") return {Kind::kOpenApi};
  if (path == "/v1/session") return {Kind::kSession};
  if (!EventsMethod(path).empty()) return {Kind::kEvents, nullptr, std::string(path)};
  constexpr std::string_view kHooks = "/hooks/";
  if (path.starts_with(kHooks)) {
    return {Kind::kHook, nullptr, std::string(path.substr(kHooks.size()))};
  }
  if (pages_.on()) {
    constexpr std::string_view kAssets = "/assets/";
    if (path.starts_with(kAssets)) {
      return {Kind::kAsset, nullptr, std::string(path.substr(kAssets.size()))};
    }
    const bool page = path == "/" || path == "/n" || path.starts_with("/n/") || path == "/access" ||
                      path == "/namespaces" || path == "/signin" || path == "/settings";
    if (page) return {Kind::kPage};
  }
  const auto* method = FindMethod(path.substr(std::min<size_t>(1, path.size())));
  if (!method || (!options_.compat && method->service()->full_name() == "DistributedFSMRunner")) {
    return {};
  }
  return {Kind::kMethod, method};
}

std::string_view Router::VerbsOf(const Route& route) const {
  switch (route.kind) {
    case Kind::kMethod:
      return OnlyReads(*route.method) && !Streams(*route.method) ? "GET, HEAD, POST" : "POST";
    case Kind::kSession:
      return "GET, HEAD, POST, DELETE";
    case Kind::kHook:
      return "POST";
    case Kind::kNone:
      return "";
    default:
      return "GET, HEAD";
  }
}

Response Router::RefuseBy(const Failure& failure, const Visitor& visitor) const {
  if (options_.refused) options_.refused(failure, visitor);
  return ToResponse(failure);
}

Response Router::Refuse(const Malformed& malformed, const Request& request, const Client& client) {
  Visitor visitor;
  visitor.client = client;
  visitor.request_id = RequestIdOf(request);
  Failure failure = BadRequest(malformed.status, malformed.message);
  if (malformed.status == 413) {
    failure = Failure::Of({Code::kInvalidArgument, Reason::kTooLarge, malformed.message}, 413);
  }
  Response response = RefuseBy(failure, visitor);
  response.Set("x-request-id", visitor.request_id);
  return response;
}

std::optional<Response> Router::RefusalOf(const Request& request, const Visitor& visitor,
                                          const Route& route) const {
  if (route.kind == Kind::kNone) {
    return RefuseBy(NoSuchMethod("there is nothing at " + Quoted(request.path) +
                                 ": calls are POST /dfsmr.v1.SERVICE/METHOD, see openapi.json"),
                    visitor);
  }
  const std::string_view verbs = VerbsOf(route);
  if (!Has(verbs, request.method)) {
    Response response =
        RefuseBy(BadRequest(405, Quoted(request.path) + " takes " + std::string(verbs) + ", not " +
                                     Quoted(request.method)),
                 visitor);
    response.Set("allow", std::string(verbs));
    return response;
  }
  if (route.kind != Kind::kMethod) return std::nullopt;
  if (route.method->client_streaming() && route.method->server_streaming()) {
    const bool work = NameOf(*route.method) == "dfsmr.v1.RunnerService/Work";
    return RefuseBy(
        Failure::Of({Code::kUnimplemented, Reason::kNone,
                     NameOf(*route.method) + " streams both ways, which takes gRPC" +
                         (work ? "; over HTTP a worker calls Report, whose `next` brings its next "
                                 "tasks"
                               : "")},
                    501),
        visitor);
  }
  return std::nullopt;
}

Handler::Plan Router::Look(const Request& request, const Client& client) {
  Plan plan;
  plan.visitor.client = client;
  const Route route = RouteOf(request);
  const bool open = route.kind == Kind::kPage || route.kind == Kind::kAsset ||
                    route.kind == Kind::kHealth || route.kind == Kind::kReady;
  auto visitor = guard_.Admit(request, client, open);
  if (visitor) plan.visitor = *std::move(visitor);
  plan.visitor.request_id = RequestIdOf(request);
  if (!visitor) {
    Error error = visitor.error();
    const int status = error.code == Code::kUnavailable ? 421 : 403;
    error.code = Code::kPermissionDenied;
    plan.refusal = RefuseBy(Failure::Of(error, status), plan.visitor);
  } else if (request.method == "OPTIONS" && !plan.visitor.origin.empty() &&
             route.kind != Kind::kNone) {
    plan.refusal = Preflight(plan.visitor, route);
  } else {
    plan.refusal = RefusalOf(request, plan.visitor, route);
  }
  plan.body_most = route.kind == Kind::kHook     ? kHookBody
                   : route.kind != Kind::kMethod ? 64 << 10
                   : Streams(*route.method)      ? UINT64_MAX
                                                 : limits::kMessage;
  return plan;
}

Response Router::Preflight(const Visitor&, const Route& route) const {
  Response response;
  response.status = 204;
  response.Set("access-control-allow-methods", std::string(VerbsOf(route)));
  response.Set("access-control-allow-headers",
               "authorization, content-type, content-encoding, connect-protocol-version, "
               "connect-timeout-ms, connect-accept-encoding, connect-content-encoding, "
               "traceparent, tracestate, x-request-id, last-event-id");
  response.Set("access-control-max-age", "7200");
  return response;
}

void Router::Dress(const Request& request, const Visitor& visitor, Response* response) {
  const auto missing = [&](std::string_view name) { return !Find(response->headers, name); };
  if (missing("x-request-id")) {
    response->Set("x-request-id", visitor.request_id.empty() ? RandomHex(8) : visitor.request_id);
  }
  response->Set("x-content-type-options", "nosniff");
  response->Set("referrer-policy", "no-referrer");
  response->Set("cross-origin-resource-policy", "same-origin");
  if (missing("cache-control")) response->Set("cache-control", "no-store");
  if (!visitor.origin.empty()) {
    response->Set("access-control-allow-origin", visitor.origin);
    response->Set("access-control-expose-headers",
                  "x-request-id, retry-after, trailer-dfsmr-reason");
    response->Set("vary", "origin");
  }
  const auto accepted = request.Header("accept-encoding");
  if (response->body.size() < kWorthPacking || !missing("content-encoding")) return;
  if (missing("vary")) response->Set("vary", "accept-encoding");
  if (!accepted || !Accepts(*accepted, "gzip")) return;
  response->body = Packed(response->body);
  response->Set("content-encoding", "gzip");
}

void Router::Serve(std::shared_ptr<Exchange> exchange) {
  const Route route = RouteOf(exchange->request);
  exchange->on_refused = [this](const Failure& failure, const Visitor& visitor) {
    if (options_.refused) options_.refused(failure, visitor);
  };
  switch (route.kind) {
    case Kind::kMethod:
      return Streams(*route.method) ? ServeStream(inside_, std::move(exchange), *route.method)
                                    : ServeUnary(inside_, std::move(exchange), *route.method);
    case Kind::kEvents:
      return ServeEvents(inside_, events_, std::move(exchange), EventsMethod(route.rest));
    case Kind::kSession:
      return ServeSession(options_.asks, inside_, std::move(exchange));
    case Kind::kOpenApi: {
      std::call_once(openapi_asked_,
                     [this] { openapi_ = OpenApi(options_.base, options_.compat); });
      Response response;
      response.Set("content-type", "application/json");
      response.body = openapi_;
      return exchange->Answer(std::move(response));
    }
    case Kind::kHook:
      return ServeHook(inside_, std::move(exchange), route.rest);
    case Kind::kHealth:
      return ServeHealth(*exchange, false);
    case Kind::kReady:
      return ServeHealth(*exchange, true);
    case Kind::kMetrics:
      return ServeMetrics(std::move(exchange));
    case Kind::kPage:
      return exchange->Answer(pages_.Page(exchange->request));
    case Kind::kAsset:
      if (auto asset = pages_.Asset(exchange->request, route.rest)) {
        return exchange->Answer(*std::move(asset));
      }
      [[fallthrough]];
    case Kind::kNone:
      return exchange->Answer(
          exchange->Refused(NoSuchMethod("there is nothing at " + Quoted(exchange->request.path))));
  }
}

void Router::ServeMetrics(std::shared_ptr<Exchange> exchange) const {
  options_.metrics(*exchange, [exchange](Response response) {
    exchange->Post([exchange, response = std::move(response)] { exchange->Answer(response); });
  });
}

void Router::ServeHealth(Exchange& exchange, bool ready) const {
  const Health health = options_.health();
  const bool well = health.turning && (!ready || health.serving);
  Response response;
  response.status = well ? 200 : 503;
  if (!well) response.Set("retry-after", "1");
  response.Set("content-type", "application/json");
  response.body = "{\"status\":" +
                  json::Quote(!health.turning            ? "stuck"
                              : ready && !health.serving ? "stopping"
                                                         : "ok") +
                  ",\"room\":" + json::Quote(health.room) + "}";
  exchange.Answer(std::move(response));
}

}  // namespace dfsmr::http
