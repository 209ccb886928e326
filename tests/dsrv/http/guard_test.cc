// Who may speak to the door: hosts, origins, sites and proxies.
#include "dsrv/http/guard.h"

#include <doctest/doctest.h>

#include "dsrv/http/gzip.h"
#include "dsrv/http/url.h"

namespace dfsmr::http {
namespace {

const Client kHere{.peer = "ipv4:127.0.0.1:5", .address = "127.0.0.1"};

Request With(Headers headers) {
  Request request;
  request.headers = std::move(headers);
  return request;
}
// 200, or the status of the refusal.
int Status(const Guard& guard, Headers headers, bool open = false) {
  auto visitor = guard.Admit(With(std::move(headers)), kHere, open);
  if (visitor) return 200;
  return visitor.error().code == Code::kUnavailable ? 421 : 403;
}

}  // namespace

TEST_CASE("a loopback listener answers to its own names only, with any port") {
  const Guard guard({.hosts = {"Console.test"}});
  for (const char* host : {"localhost", "localhost:3005", "LOCALHOST:1", "127.0.0.1:3005", "[::1]",
                           "[::1]:3005", "console.test:80"}) {
    CHECK(Status(guard, {{"host", host}}) == 200);
  }
  for (const char* host : {"", "evil.test", "localhost.evil.test", "127.0.0.2", "evil.test:3005"}) {
    CHECK(Status(guard, {{"host", host}}) == 421);
  }
  CHECK(Status(guard, {}) == 421);
}

TEST_CASE("elsewhere any name will do, until some are given") {
  CHECK(Status(Guard({.loopback = false}), {{"host", "any.test"}}) == 200);
  CHECK(Status(Guard({.loopback = false}), {}) == 421);
  const Guard named({.loopback = false, .hosts = {"ops.test"}});
  CHECK(Status(named, {{"host", "ops.test:3005"}}) == 200);
  CHECK(Status(named, {{"host", "localhost"}}) == 421);
}

TEST_CASE("pages of other origins and sites are refused, but where everybody is served") {
  const Guard guard({.origins = {"https://ops.test"}});
  const auto ask = [&](Headers more, bool open = false) {
    more.emplace_back("host", "localhost:3005");
    return Status(guard, more, open);
  };
  CHECK(ask({{"origin", "http://localhost:3005"}}) == 200);
  CHECK(ask({{"origin", "https://localhost:3005"}}) == 403);  // another scheme
  CHECK(ask({{"origin", "http://localhost:3006"}}) == 403);
  CHECK(ask({{"origin", "null"}}) == 403);
  CHECK(ask({{"origin", "https://ops.test"}}) == 200);
  CHECK(ask({{"origin", "https://ops.test"}, {"sec-fetch-site", "cross-site"}}) == 200);
  // A browser leaves the scheme's own port out, whoever else may write it.
  CHECK(Status(Guard({.origins = {"HTTPS://Ops.test:443"}}),
               {{"host", "localhost"}, {"origin", "https://ops.test"}}) == 200);
  CHECK(Status(Guard({.origins = {"https://ops.test:80"}}),
               {{"host", "localhost"}, {"origin", "https://ops.test"}}) == 403);
  CHECK(ask({{"sec-fetch-site", "same-origin"}}) == 200);
  CHECK(ask({{"sec-fetch-site", "none"}}) == 200);
  CHECK(ask({{"sec-fetch-site", "same-site"}}) == 403);
  CHECK(ask({{"sec-fetch-site", "cross-site"}}) == 403);
  CHECK(ask({{"sec-fetch-site", "cross-site"}}, true) == 200);
  CHECK(ask({{"origin", "https://evil.test"}}, true) == 200);
}

TEST_CASE("the cookie counts for own pages only") {
  const Guard guard({.origins = {"https://ops.test"}});
  const auto own = [&](Headers more) {
    more.emplace_back("host", "localhost:3005");
    auto visitor = guard.Admit(With(more), kHere, true);
    return visitor && visitor->own_page;
  };
  CHECK(own({{"sec-fetch-site", "same-origin"}}));
  CHECK(own({{"origin", "http://localhost:3005"}}));
  CHECK(!own({}));
  CHECK(!own({{"sec-fetch-site", "none"}}));
  CHECK(!own({{"origin", "https://ops.test"}, {"sec-fetch-site", "same-origin"}}));
  CHECK(!own({{"origin", "https://evil.test"}, {"sec-fetch-site", "same-origin"}}));
}

TEST_CASE("what a known proxy says of its client counts, and of others it does not") {
  const Headers headers = {{"host", "inner:1"},
                           {"x-forwarded-host", "ops.test"},
                           {"x-forwarded-proto", "https"},
                           {"x-forwarded-for", "6.6.6.6, 9.9.9.9, 127.0.0.7"},
                           {"origin", "https://ops.test"}};
  const Guard trusting({.hosts = {"ops.test"}, .proxies = {*ToAddressRange("127.0.0.0/8")}});
  auto visitor = trusting.Admit(With(headers), kHere, false);
  REQUIRE(visitor);
  CHECK(visitor->own_page);
  CHECK(visitor->client.secure);
  CHECK(visitor->client.peer == "ipv4:9.9.9.9");  // what stands in front of it anybody may write
  CHECK(Status(Guard({.hosts = {"ops.test"}}), headers) == 421);
}

TEST_CASE("ranges of addresses") {
  CHECK(ToAddressRange("10.0.0.0/8"));
  CHECK(ToAddressRange("::1"));
  for (const char* bad : {"", "ten", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "::1/129"}) {
    CHECK(!ToAddressRange(bad));
  }
}

TEST_CASE("queries, base64 and gzip are read as they are written") {
  const auto query = ReadQuery("a=1&b=%7B%22x%22%3A+1%7D&a=&c");
  REQUIRE(query);
  CHECK((*query)[1] == std::pair<std::string, std::string>("b", "{\"x\": 1}"));
  CHECK(query->size() == 4);
  CHECK(!ReadQuery("a=%4"));
  CHECK(!ReadQuery("a=%zz"));
  for (const std::string text : {"", "a", "ab", "abc", "abcd", "\xff\xfe\x00x"}) {
    CHECK(FromBase64(ToBase64(text, true)) == text);
    CHECK(FromBase64(ToBase64(text, false)) == text);
  }
  CHECK(!FromBase64("a"));
  CHECK(!FromBase64("a*=="));
  bool too_large = false;
  const std::string plain(100'000, 'x');
  CHECK(Unpacked(Packed(plain), 100'000, &too_large) == plain);
  CHECK(!Unpacked(Packed(plain), 99'999, &too_large));
  CHECK(too_large);
  CHECK(!Unpacked(Packed(plain).substr(0, 50), 100'000, &too_large));
  CHECK(!Unpacked("no gzip", 100, &too_large));
  CHECK(!too_large);
}

}  // namespace dfsmr::http
