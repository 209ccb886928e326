#include "dsrv/otlp/collector.h"

#include <doctest/doctest.h>

namespace dfsmr::otlp {
namespace {

std::string Read(const std::string& url) {
  const auto to = ParseCollector(url);
  return to ? to->host + " " + to->port + " " + to->path : "refused";
}

TEST_CASE("a collector's address") {
  CHECK(Read("http://localhost:4318") == "localhost 4318 /v1/traces");
  CHECK(Read("http://localhost") == "localhost 4318 /v1/traces");
  CHECK(Read("http://localhost:1/") == "localhost 1 /v1/traces");
  CHECK(Read("http://10.0.0.7:80/otlp/v1/traces") == "10.0.0.7 80 /otlp/v1/traces");
  CHECK(Read("http://[::1]:4318") == "::1 4318 /v1/traces");
  CHECK(Read("http://[::1]") == "::1 4318 /v1/traces");
  for (const char* bad : {"", "localhost:4318", "https://localhost:4318", "http://", "http://:4318",
                          "http://a:", "http://a:0", "http://a:65536", "http://a:x", "http://a b:1",
                          "http://u@a:1", "http://::1", "http://[::1", "http://a\r\nb"}) {
    CAPTURE(bad);
    CHECK(Read(bad) == "refused");
  }
}

TEST_CASE("nobody listens: it is worth another try") {
  const auto delivered = Post({"127.0.0.1", "1", "/"}, "{}", std::chrono::seconds(5));
  CHECK(delivered.delivery == Delivery::kLater);
  CHECK(delivered.why == "Connection refused");
}

}  // namespace
}  // namespace dfsmr::otlp
