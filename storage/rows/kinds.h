// Which rows of a partition are of an instance, and lie where it lives.
#pragma once

#include <optional>
#include <string_view>

#include "storage/rows/keys.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

inline Kind KindOf(std::string_view key) {
  return static_cast<Kind>(static_cast<uint8_t>(key[sizeof(PartitionId)]));
}

// How many texts of such a key stand between its namespace and the instance; nullopt: its key names
// none, or has something in front of the namespace.
inline std::optional<size_t> TextsBeforeInstance(Kind kind) {
  switch (kind) {
    case kLive:
    case kStopped:
    case kSpec:
    case kOutput:
    case kHistory:
    case kStep:
    case kGraph:
    case kStarts:
    case kPlanned:
    case kUnstarted:
      return 0;
    case kByMachine:
    case kChildren:
    case kMember:
    case kByCause:
      return 1;
    case kLabel:
      return 2;
    default:
      return std::nullopt;
  }
}

// The instance that a key of such a kind names.
inline InstanceName InstanceIn(std::string_view key, size_t texts_before) {
  KeyReader parts(key);
  const std::string_view ns = parts.Text();
  while (texts_before-- > 0) parts.Text();
  return {ns, parts.Text()};
}

}  // namespace dfsmr::rows
