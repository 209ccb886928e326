// The little that we do with files ourselves, done durably.
#pragma once

#include <filesystem>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

// Puts `bytes` at `path`: after a crash there is the old file or the new one, whole.
Result<Ok> ReplaceFile(const std::filesystem::path& path, std::string_view bytes);

// Makes `path` and the folders above it that are missing; they survive a crash.
Result<Ok> CreateFolders(const std::filesystem::path& path);

// All of `bytes` at `offset`. False: errno says why.
bool WriteAt(int file, std::string_view bytes, size_t offset);

// kUnavailable: "cannot write /x/y: No space left on device", from errno.
Error FileError(std::string_view doing, const std::filesystem::path& path);

}  // namespace dfsmr
