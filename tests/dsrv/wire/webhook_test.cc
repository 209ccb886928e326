// Calls of webhooks as items.
#include "dsrv/wire/webhook.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

WebhookRequest Request(const std::string& type, const std::string& body) {
  return {.ns = "ns",
          .path = "git/push",
          .query = "a=1&b=x%20y&b=+&c",
          .headers = {{"Content-Type", type},
                      {"X-Hub-Signature-256", "sha256=00"},
                      {"X-GitHub-Delivery", "d-1"},
                      {"Cookie", "c"},
                      {"Authorization", "secret"}},
          .body = body};
}

WebhookSource Hmac() {
  return {.path = "git/push",
          .proof = WebhookSource::Proof::kHmac,
          .secret = "git",
          .header = "x-hub-signature-256",
          .prefix = "sha256="};
}

std::string BodyOf(const std::string& type, const std::string& body) {
  const std::string item = ItemOf(Request(type, body), Hmac());
  return item.substr(item.find("\"body\":") + 7, item.size() - item.find("\"body\":") - 8);
}

}  // namespace

TEST_CASE("an item has all of a call but what proves who called") {
  CHECK(ItemOf(Request("text/plain", "hi"), Hmac()) ==
        R"({"method":"POST","path":"git/push","query":{"a":"1","b":["x y"," "],"c":""},)"
        R"("headers":{"content-type":"text/plain","x-github-delivery":"d-1"},"body":"hi"})");
}

TEST_CASE("a body is a value if it is JSON or a form, else text") {
  CHECK(BodyOf("application/json; charset=utf-8", R"({"after": "x"})") == R"({"after": "x"})");
  CHECK(BodyOf("application/vnd.x+json", "[1]") == "[1]");
  CHECK(BodyOf("application/json", "{nonsense") == R"("{nonsense")");
  CHECK(BodyOf("application/json", "") == R"("")");
  CHECK(BodyOf("application/x-www-form-urlencoded", "n=1&t=a%2Bb+c") == R"({"n":"1","t":"a+b c"})");
  CHECK(BodyOf("application/octet-stream",
               "a\xff"
               "b") ==
        "\"a\xEF\xBF\xBD"
        "b\"");
  CHECK(BodyOf("", "{}") == R"("{}")");
}

}  // namespace dfsmr
