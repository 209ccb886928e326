#include "storage/backup/sha256.h"

#include <openssl/evp.h>

#include "fsm/base/hex.h"
#include "fsm/base/result.h"

namespace dfsmr {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  Check(context_ && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1, "SHA-256 is there");
}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Add(std::string_view bytes) {
  Check(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1, "SHA-256 takes bytes");
}

std::string Sha256::Take() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  Check(EVP_DigestFinal_ex(context_, digest, &size) == 1, "SHA-256 ends");
  Check(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1, "SHA-256 begins again");
  return ToHex(std::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace dfsmr
