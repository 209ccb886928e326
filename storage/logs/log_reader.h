// Reads the lines of one instance in the order in which they came.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/result.h"
#include "storage/logs/log.h"
#include "storage/logs/log_store.h"

namespace dfsmr {

struct LogQuery {
  LogOwner owner;
  std::string node;      // empty: all; also of those named `node`/…
  uint64_t visit = 0;    // 0: all
  uint32_t attempt = 0;  // 0: all
  uint32_t tail = 0;     // 0: all that is kept; else so many last lines, and what comes
  uint64_t after = 0;    // arrivals up to this one are not wanted
};

// Goes on where it was, as often as it is asked. One thread at a time; the store must outlive it.
// What is dropped while it reads is left out, and counted.
class LogReader {
 public:
  LogReader(const LogStore& store, LogQuery query) : store_(store), query_(std::move(query)) {}

  struct Portion {
    std::vector<LogEntry> entries;
    bool more = false;  // the portion is full, and there may be more to read at once
  };
  // About `bytes` of text at most.
  Result<Portion> Next(uint64_t bytes);
  // The arrival up to which all has been read.
  uint64_t position() const { return position_; }

  // Whether the instance ever had lines; of any node.
  Result<bool> Ever() const;
  // Whether the node, or one of its nodes, had lines that were not all dropped.
  Result<bool> Has(const std::string& node) const;

 private:
  struct Chunk;
  struct Read;                                // one call of Next: what it sees
  struct Seen {                               // of a visit
    std::optional<uint64_t> ordinal;          // of the last line that is kept
    std::map<std::string, uint64_t> numbers;  // by claim: its last line
  };

  bool Wanted(const LogClaim& claim) const;
  Result<Ok> Begin(Read& read);
  Result<Ok> FindTail(Read& read);
  Result<Ok> Take(Read& read, Chunk& chunk);
  Result<Ok> EmitUpTo(Read& read, uint64_t arrival, Portion* portion);
  Result<uint64_t> LeftOut(Read& read, const LogClaim& claim, const LogLine& line, uint64_t ordinal,
                           uint64_t arrival);
  Result<uint64_t> KeptBefore(Read& read, uint64_t visit, uint64_t arrival);

  const LogStore& store_;
  const LogQuery query_;
  bool begun_ = false;
  uint64_t position_ = 0;
  uint64_t began_ = 0;             // the position at which it began
  std::map<uint64_t, Seen> seen_;  // by visit
};

// A position as text, opaque to clients. Empty text is the begin.
std::string LogCursorText(uint64_t position);
std::optional<uint64_t> ParseLogCursor(std::string_view text);  // nullopt: it is none

}  // namespace dfsmr
