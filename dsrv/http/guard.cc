#include "dsrv/http/guard.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "fsm/base/names.h"

namespace dfsmr::http {
namespace {

std::optional<std::array<uint8_t, 16>> ToAddress(const std::string& text) {
  std::array<uint8_t, 16> address{};
  if (inet_pton(AF_INET6, text.c_str(), address.data()) == 1) return address;
  address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, text.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

// The last item of a list that a proxy has added to.
std::string_view LastOf(std::string_view list) {
  const size_t comma = list.rfind(',');
  return Trimmed(comma == list.npos ? list : list.substr(comma + 1));
}

std::string_view WithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == host.npos || host.ends_with(']')) return host;
  return host.substr(0, colon);
}

// "example.org" of "Example.org:443" under https; the port stays where it is not the scheme's own.
std::string HostPort(std::string_view host, bool secure) {
  std::string lower = Lower(host);
  const std::string_view own = secure ? ":443" : ":80";
  if (lower.ends_with(own)) lower.resize(lower.size() - own.size());
  return lower;
}

std::string OriginOf(std::string_view host, bool secure) {
  return (secure ? "https://" : "http://") + HostPort(host, secure);
}

// As a browser writes it, which leaves the scheme's own port out.
std::string PlainOrigin(std::string_view origin) {
  return HostPort(origin, Lower(origin).starts_with("https://"));
}

Error NotAllowed(std::string message) {
  return {Code::kPermissionDenied, Reason::kNotAllowed, std::move(message)};
}

}  // namespace

bool AddressRange::Holds(const std::array<uint8_t, 16>& one) const {
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> bit % 8;
    if ((address[byte] & mask) != (one[byte] & mask)) return false;
  }
  return true;
}

Result<AddressRange> ToAddressRange(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string bits = text.substr(std::min(slash + 1, text.size()));
  const auto address = ToAddress(text.substr(0, slash));
  const bool four = text.find(':') == text.npos;
  const int most = four ? 32 : 128;
  const bool digits = slash == text.size() || (!bits.empty() && bits.size() <= 3 &&
                                               bits.find_first_not_of("0123456789") == bits.npos);
  const int given = bits.empty() || !digits ? most : std::stoi(bits);
  if (!address || !digits || given > most) {
    return Error{Code::kInvalidArgument, Reason::kNone,
                 Quoted(text) + " is not ADDRESS or ADDRESS/BITS, such as 10.0.0.0/8"};
  }
  return AddressRange{*address, four ? given + 96 : given};
}

bool Guard::KnownProxy(const std::string& address) const {
  const auto one = ToAddress(address);
  return one && std::ranges::any_of(options_.proxies,
                                    [&](const AddressRange& range) { return range.Holds(*one); });
}

// The port is any: tunnels and containers give the listener another one.
bool Guard::OwnHost(std::string_view host) const {
  const std::string name = Lower(WithoutPort(host));
  const auto is = [&](std::string_view known) { return Lower(known) == name; };
  const bool listed = std::ranges::any_of(options_.hosts, is);
  if (!options_.loopback) return !name.empty() && (options_.hosts.empty() || listed);
  return listed || name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

Result<Visitor> Guard::Admit(const Request& request, const Client& client, bool open) const {
  Visitor visitor;
  visitor.client = client;
  std::string host(request.Header("host").value_or(""));
  if (!options_.proxies.empty() && KnownProxy(client.address)) {
    if (const auto given = request.Header("x-forwarded-host")) host = LastOf(*given);
    if (const auto given = request.Header("x-forwarded-proto")) {
      visitor.client.secure = Lower(LastOf(*given)) == "https";
    }
    // The last that no known proxy has written.
    std::string_view list = request.Header("x-forwarded-for").value_or("");
    while (!list.empty()) {
      const std::string last(LastOf(list));
      const auto address = ToAddress(last);
      if (!address) break;
      visitor.client.address = last;
      visitor.client.peer = (last.find(':') == last.npos ? "ipv4:" : "ipv6:") + last;
      if (!KnownProxy(last)) break;
      const size_t comma = list.rfind(',');
      list = comma == list.npos ? std::string_view() : list.substr(0, comma);
    }
  }
  if (!OwnHost(host)) {
    return Error{Code::kUnavailable, Reason::kNotAllowed,
                 "the request is for host " + Quoted(host) +
                     ", which is not this server's: use localhost, or add --http-host NAME"};
  }
  const auto origin = request.Header("origin");
  const auto is_origin = [&](const std::string& one) {
    return PlainOrigin(one) == PlainOrigin(*origin);
  };
  const bool own = origin && PlainOrigin(*origin) == OriginOf(host, visitor.client.secure);
  const bool known = origin && !own && std::ranges::any_of(options_.origins, is_origin);
  const auto site = request.Header("sec-fetch-site");
  visitor.own_page = own || (site == "same-origin" && !origin);
  if (known) visitor.origin = *origin;
  if (open || known) return visitor;
  if (origin && !own) {
    return NotAllowed("the page's origin " + Quoted(*origin) +
                      " is not this server's: add --http-origin, and its pages may call with a "
                      "bearer token");
  }
  if (site && site != "same-origin" && site != "none") {
    return NotAllowed("a page of another site asks (Sec-Fetch-Site: " + Quoted(*site) +
                      "), and only this server's own pages may");
  }
  return visitor;
}

}  // namespace dfsmr::http
