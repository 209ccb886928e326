// Lines that operations write: the values that the store of logs keeps and gives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fsm/base/time.h"

namespace dfsmr {

// An instance that has logs. `born` is the number of its first record in the feed: another instance
// that gets its id later has another one.
struct LogOwner {
  std::string ns;
  std::string instance;
  uint64_t born = 0;
  friend auto operator<=>(const LogOwner&, const LogOwner&) = default;
};

// The claim that lines belong to, and where its instance stood.
struct LogClaim {
  std::string claim;
  std::string node;
  uint64_t visit = 0;
  uint32_t attempt = 0;
  std::string worker;
  bool dry_run = false;
  friend bool operator==(const LogClaim&, const LogClaim&) = default;
};

// A line as it is written. `number` is its place among the lines of its claim, from 1 on; numbers
// that are passed over are of lines that were never sent.
struct LogLine {
  uint64_t number = 0;
  Timestamp time;
  uint32_t stream = 0;  // as in agent.proto
  std::string text;
};

// A line as it is read.
struct LogEntry {
  std::shared_ptr<const LogClaim> claim;
  LogLine line;
  uint64_t left_out = 0;  // lines in front of it that are not kept
};

// Kept of the text of one visit, over all its attempts.
inline constexpr uint64_t kLogHead = 64 << 10;  // its first lines
inline constexpr uint64_t kLogTail = 1 << 20;   // and its last ones

}  // namespace dfsmr
