#include "dsrv/cluster/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace dfsmr {
namespace {

// Each part with its length, so that no two calls have the same text.
std::string Code(std::string_view secret, const PassedOn& call) {
  std::string text;
  for (const std::string* part : {&call.sender, &call.receiver, &call.method, &call.peer,
                                  &call.certificate, &call.door, &call.request_id}) {
    text += std::to_string(part->size()) + ":" + *part;
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> code{};
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), code.data(), &size);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += kDigits[code[i] >> 4];
    hex += kDigits[code[i] & 15];
  }
  return hex;
}

}  // namespace

std::string Prove(std::string_view secret, const PassedOn& call) {
  return call.sender + " " + call.receiver + " " + Code(secret, call);
}

bool Proven(std::string_view secret, std::string_view value, PassedOn* call) {
  const size_t first = value.find(' ');
  const size_t second = first == value.npos ? first : value.find(' ', first + 1);
  if (second == value.npos) return false;
  call->sender = value.substr(0, first);
  call->receiver = value.substr(first + 1, second - first - 1);
  const std::string_view told = value.substr(second + 1);
  const std::string code = Code(secret, *call);
  return told.size() == code.size() && CRYPTO_memcmp(told.data(), code.data(), code.size()) == 0;
}

}  // namespace dfsmr
