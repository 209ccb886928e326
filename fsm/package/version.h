// Versions of packages: SemVer 2.0, and those that `package dev` makes.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

inline constexpr size_t kVersionLength = 64;
inline constexpr size_t kDevDigits = 12;

// What is wrong with a version, and what would be right; nullopt: nothing.
std::optional<std::string> VersionProblem(std::string_view version);

// By SemVer's precedence: 1.0.0-rc.1 < 1.0.0, and what stands behind a + does not count.
// REQUIRES: both are versions.
std::weak_ordering CompareVersions(std::string_view a, std::string_view b);

// The version of a folder whose archive, with the version that its manifest says, has the SHA-256
// `hex` (64 hex digits): "1.4.0-dev.hHEX", "1.4.0-rc.1.dev.hHEX". What stands behind a + is left
// out.
std::string DevVersion(std::string_view version, std::string_view hex);
// Whether a version is one of these.
bool IsDevVersion(std::string_view version);

// The manifest with `version` in place of its own, in that line alone: every other byte stays.
Result<std::string> WithVersion(std::string_view manifest, std::string_view version);

}  // namespace dfsmr
