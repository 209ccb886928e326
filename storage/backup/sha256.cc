#include "storage/backup/sha256.h"

#include <openssl/evp.h>

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
  static constexpr char kDigits[] = "0123456789abcdef";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  Check(EVP_DigestFinal_ex(context_, digest, &size) == 1, "SHA-256 ends");
  Check(EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1, "SHA-256 begins again");
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace dfsmr
