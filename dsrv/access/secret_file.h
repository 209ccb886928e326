// The file with the admin's token.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dfsmr {

// What the file holds, without space behind it; nullopt: it cannot be read.
std::optional<std::string> ReadSecretFile(const std::string& path);

// For who has no store to ask: whether the file holds that secret. False where there is no file, or
// no secret.
bool IsSecretOf(const std::string& path, std::string_view secret);

}  // namespace dfsmr
