#include "dsrv/access/secret_file.h"

#include <fstream>
#include <sstream>

#include "dsrv/access/credentials.h"
#include "dsrv/access/proof.h"

namespace dfsmr {

bool IsSecretOf(const std::string& path, std::string_view secret) {
  if (path.empty() || secret.empty()) return false;
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  std::string held = text.str();
  held.erase(held.find_last_not_of(" \t\r\n") + 1);
  if (held.empty()) return false;
  return SameText(HashOf(secret), HashOf(held));
}

}  // namespace dfsmr
