#include "dsrv/access/secret_file.h"

#include <openssl/crypto.h>

#include <fstream>
#include <sstream>

#include "dsrv/access/credentials.h"

namespace dfsmr {

bool IsSecretOf(const std::string& path, std::string_view secret) {
  if (path.empty() || secret.empty()) return false;
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  std::string held = text.str();
  held.erase(held.find_last_not_of(" \t\r\n") + 1);
  if (held.empty()) return false;
  const std::string told = HashOf(secret);
  const std::string known = HashOf(held);
  return CRYPTO_memcmp(told.data(), known.data(), known.size()) == 0;
}

}  // namespace dfsmr
