#include "dsrv/trace/span.h"

#include <openssl/sha.h>

#include "fsm/base/hex.h"

namespace dfsmr {

std::string SpanId(const SpanOf& of) {
  // Names hold no zero bytes.
  std::string whole;
  whole.append(of.ns).append(1, '\0').append(of.instance).append(1, '\0');
  whole += std::to_string(of.visit) + '/' + std::to_string(of.attempt);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(whole.data()), whole.size(), digest);
  std::string id = ToHex(std::string_view(reinterpret_cast<const char*>(digest), 8));
  if (id == std::string(16, '0')) id.back() = '1';  // all 0 is no span
  return id;
}

}  // namespace dfsmr
