// The archive of a package as it is written: a plain ustar, the same bytes for the same folder
// whatever is installed. NAME-VERSION/ is in front of every path; package.yaml comes first, then
// files and links by the bytes of their paths; then 1,024 zero bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "fsm/package/archive_rules.h"

namespace dfsmr {

inline constexpr size_t kTarBlock = 512;
inline constexpr size_t kTarEnd = 1024;

// The order in which files are written.
std::vector<std::string> WriteOrder(const PackageFiles& files);

// The header of one entry, a block. TOO_LARGE: a ustar cannot hold it, because a part of its path
// or the link's target has more than 100 bytes, or the whole path cannot be cut in two.
Result<std::string> UstarHeader(std::string_view top, const std::string& path,
                                const PackageFile& file);
// That of a file of any tar, with a pax header in front of it where its path needs one.
std::string FileHeader(const std::string& path, uint64_t size);
// How many zero bytes stand behind a file of so many bytes.
constexpr size_t UstarPadding(uint64_t size) {
  return static_cast<size_t>((kTarBlock - size % kTarBlock) % kTarBlock);
}

}  // namespace dfsmr
