// The file with the admin's token, for who has no store to ask.
#pragma once

#include <string>
#include <string_view>

namespace dfsmr {

// Whether the file holds that secret. False where there is no file, or no secret.
bool IsSecretOf(const std::string& path, std::string_view secret);

}  // namespace dfsmr
