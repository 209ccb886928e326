#include "dsrv/access/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cctype>

#include "fsm/base/hex.h"

namespace dfsmr {
namespace {

std::string Base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

std::string Hmac(std::string_view secret, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

bool SameText(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool Proven(const WebhookSource& webhook, const std::optional<std::string>& proof,
            std::string_view body, const std::string& secret) {
  if (webhook.proof == WebhookSource::Proof::kOpen) return true;
  // An empty secret would let in everybody who knows that it is empty.
  if (!proof || secret.empty()) return false;
  if (webhook.proof == WebhookSource::Proof::kToken) return SameText(*proof, secret);
  if (!proof->starts_with(webhook.prefix)) return false;
  const std::string given = proof->substr(webhook.prefix.size());
  const std::string digest = Hmac(secret, body);
  return webhook.base64 ? SameText(given, Base64(digest)) : SameText(Lower(given), ToHex(digest));
}

}  // namespace dfsmr
