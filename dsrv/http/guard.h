// Who may speak to the door at all, before anything is looked up: what a browser says of the page
// that asks, and what a proxy says of the client behind it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/http/message.h"
#include "fsm/base/result.h"

namespace dfsmr::http {

// Addresses that begin with the same bits; those of IPv4 are written as IPv6.
struct AddressRange {
  std::array<uint8_t, 16> address{};
  int bits = 128;
  bool Holds(const std::array<uint8_t, 16>& one) const;
};
// "10.0.0.0/8", "::1".
Result<AddressRange> ToAddressRange(const std::string& text);

struct GuardOptions {
  bool loopback = true;               // only this machine reaches the listener
  bool secure = false;                // by TLS
  std::vector<std::string> hosts;     // further names of this server
  std::vector<std::string> origins;   // whose pages may call with a bearer token
  std::vector<AddressRange> proxies;  // that are believed
};

// Who is at the other end of a connection.
struct Client {
  std::string peer;     // as gRPC writes it: "ipv4:127.0.0.1:4711"
  std::string address;  // "127.0.0.1"
  bool secure = false;
  std::string certificate;  // its common name; empty: it showed none
};

// What the guard has found out about one request.
struct Visitor {
  Client client;           // that behind the proxy
  std::string origin;      // an allowed one of another site, which CORS headers name; else empty
  bool own_page = false;   // a page of this server asks: then the cookie counts
  std::string request_id;  // by which the client and we know the request
};

// The name of the cookie that holds a session's secret. Browsers keep other servers from setting
// one of the first name, which takes TLS.
inline std::string_view SessionCookie(bool secure) { return secure ? "__Host-dfsmr" : "dfsmr"; }

// What stands in front of every route.
class Guard {
 public:
  explicit Guard(GuardOptions options) : options_(std::move(options)) {}

  // The error's code is kPermissionDenied, and kUnavailable where the request is not for this
  // server (421). `open`: pages, assets and health are served whoever asks.
  Result<Visitor> Admit(const Request& request, const Client& client, bool open) const;

 private:
  bool KnownProxy(const std::string& address) const;
  bool OwnHost(std::string_view host) const;

  const GuardOptions options_;
};

}  // namespace dfsmr::http
