// The few operations on files that are not RocksDB's, done durably.
#pragma once

#include <filesystem>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

// Writes `bytes` to `path`: after a crash the file is either the old one or the new one, complete.
Result<Ok> ReplaceFile(const std::filesystem::path& path, std::string_view bytes);

// Makes `path` and the folders above it that are missing; they survive a crash.
Result<Ok> CreateFolders(const std::filesystem::path& path);

// Writes all of `bytes` at `offset`. False: errno says why it failed.
bool WriteAt(int file, std::string_view bytes, size_t offset);

// kUnavailable: "cannot write /x/y: No space left on device", from errno.
Error FileError(std::string_view doing, const std::filesystem::path& path);

}  // namespace dfsmr
