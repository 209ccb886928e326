#include "dsrv/access/secret_file.h"

#include <fstream>
#include <sstream>

#include "dsrv/access/credentials.h"
#include "dsrv/access/proof.h"

namespace dfsmr {

std::optional<std::string> ReadSecretFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  std::string secret = text.str();
  secret.erase(secret.find_last_not_of(" \t\r\n") + 1);
  return secret;
}

bool IsSecretOf(const std::string& path, std::string_view secret) {
  if (path.empty() || secret.empty()) return false;
  const auto held = ReadSecretFile(path);
  return held && !held->empty() && SameText(HashOf(secret), HashOf(*held));
}

}  // namespace dfsmr
