// dsrv verify: reads all of a store that is not served, or of a backup.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fsm/base/result.h"
#include "storage/rows/verify.h"

namespace dfsmr {

struct StoreVerified {
  std::vector<std::string> problems;  // the first of them
  uint64_t wrong = 0;                 // how many there are
  std::string read;                   // how much was read, for people
};

// `path`: the folder of a store or of a backup, or a backup's file, which is unpacked into the
// system's folder for temporary files. An error: it is neither, or a dsrv serves it.
Result<StoreVerified> VerifyStore(const std::filesystem::path& path,
                                  const rows::CompileSource& compile);

}  // namespace dfsmr
