// What the words of `dcli package` share that ask a server: registry.cc.
#pragma once

#include <string>

#include "dcli/call/context.h"
#include "dfsmr/v1/package.pb.h"

namespace dfsmr::cli::registry_words {

// Puts the archive in the file of this path, with the signatures beside it.
Result<v1::PutPackageResponse> Push(Context& context, const std::string& path, bool dry_run);

}  // namespace dfsmr::cli::registry_words
