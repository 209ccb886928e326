// Proofs of webhooks. The digests were made with OpenSSL's command.
#include "dsrv/access/proof.h"

#include <doctest/doctest.h>

namespace dfsmr {
namespace {

// printf %s 'Hello, World!' | openssl dgst -sha256 -hmac "It's a Secret to Everybody"
constexpr std::string_view kBody = "Hello, World!";
const std::string kSecret = "It's a Secret to Everybody";
const std::string kDigest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

WebhookSource Hook(WebhookSource::Proof proof) {
  return {.path = "x", .proof = proof, .secret = "s", .header = "x-proof", .prefix = "sha256="};
}

}  // namespace

TEST_CASE("an hmac proves the body and the secret") {
  WebhookSource hook = Hook(WebhookSource::Proof::kHmac);
  CHECK(Proven(hook, "sha256=" + kDigest, kBody, kSecret));
  CHECK_FALSE(Proven(hook, kDigest, kBody, kSecret));
  CHECK_FALSE(Proven(hook, "sha256=" + kDigest, "Hello, World", kSecret));
  CHECK_FALSE(Proven(hook, "sha256=" + kDigest, kBody, "another"));
  CHECK_FALSE(Proven(hook, std::nullopt, kBody, kSecret));
  CHECK_FALSE(Proven(hook, "sha256=", kBody, kSecret));
  hook.base64 = true;
  CHECK(Proven(hook, "sha256=dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=", kBody, kSecret));
  CHECK_FALSE(Proven(hook, "sha256=" + kDigest, kBody, kSecret));
}

TEST_CASE("a token is the secret itself, and an unknown secret proves nothing") {
  const WebhookSource hook = Hook(WebhookSource::Proof::kToken);
  CHECK(Proven(hook, "abc", kBody, "abc"));
  CHECK_FALSE(Proven(hook, "abd", kBody, "abc"));
  CHECK_FALSE(Proven(hook, "", kBody, ""));
  CHECK_FALSE(Proven(hook, std::nullopt, kBody, "abc"));
  CHECK(Proven(Hook(WebhookSource::Proof::kOpen), std::nullopt, kBody, ""));
}

}  // namespace dfsmr
