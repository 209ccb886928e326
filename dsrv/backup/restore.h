// dsrv --restore: makes a store of a backup.
#pragma once

#include <filesystem>
#include <string>

#include "fsm/base/result.h"

namespace dfsmr {

// `from`: a file of dcli backup, or a folder of --backup-every. `data`: an empty folder, or none
// yet; one that a restore has left half made is emptied first. Returns what was restored, for
// people. When it fails, what it wrote is gone. kFailedPrecondition: the folder holds data.
// kDataLoss: the backup is not whole; the message says what is wrong with it.
Result<std::string> Restore(const std::filesystem::path& from, const std::filesystem::path& data);

}  // namespace dfsmr
