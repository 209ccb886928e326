// The rows of triggers: where each stands, what it collects, and which items it has seen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// A trigger by its name. Borrows its texts.
struct TriggerName {
  std::string_view ns;
  std::string_view name;
};

// Where one of its polls stands.
struct PollRow {
  std::string source;     // its name in `on`
  std::string action;     // that the cursor is of
  std::string cursor;     // JSON, as the worker last gave it; empty: none yet
  uint64_t running = 0;   // the number of the instance that has not been dealt with; 0: none
  uint64_t taken = 0;     // items of its output that were taken already
  Timestamp next;         // when the next one begins
  Timestamp last;         // when the last ended with ok; zero: none has
  uint32_t failures = 0;  // in a row
  std::string error;      // of the last that failed
  bool over = false;      // the running one, which lives in another partition, has stopped
  friend bool operator==(const PollRow&, const PollRow&) = default;
};

struct TriggerRow {
  bool deleted = false;    // it is gone; its numbers go on counting when it is defined again
  uint64_t since = 0;      // the last record of the feed before it was defined
  uint64_t position = 0;   // the last record of the feed that it has looked at
  bool following = false;  // it has also looked at all up to Followed
  uint64_t filtered = 0;
  uint64_t duplicates = 0;
  uint64_t gathered = 0;
  uint64_t polls = 0;       // the number of the last one
  uint64_t gatherings = 0;  // the number of the last one
  uint32_t failures = 0;    // in a row
  bool paused = false;
  std::string note;
  std::string paused_by;
  Timestamp pause_time;
  std::vector<PollRow> poll;
  // Of several partitions, each of which has a row of a trigger that listens to changes.
  uint64_t changes = 0;  // of what those elsewhere go by
  uint64_t begins = 0;   // how often they were to begin anew
  uint64_t round = 0;    // elsewhere: how often it was told to read again
  std::map<PartitionId, uint64_t> rounds = {};  // at home: the same of the others
  friend bool operator==(const TriggerRow&, const TriggerRow&) = default;
};
void PutTrigger(const Writer& writer, TriggerName name, const TriggerRow& row);
void DropTrigger(const Writer& writer, TriggerName name);
// nullopt: nobody has ever defined it.
Result<std::optional<TriggerRow>> GetTrigger(const Reader& reader, TriggerName name);
Result<Ok> ScanTriggers(const Reader& reader,
                        const std::function<void(TriggerName, TriggerRow)>& visit);

// The last record that all triggers which follow the feed have looked at.
void PutFollowed(const Writer& writer, uint64_t seq);
Result<uint64_t> GetFollowed(const Reader& reader);

// A gathering, which is known by its number. Its items have rows of their own.
struct GatheringRow {
  uint64_t number = 0;
  std::string key;  // the text that its items share
  Timestamp first;  // when its first item came, and its last
  Timestamp last;
  uint64_t count = 0;
  uint64_t bytes = 0;
  std::vector<std::string> sources;  // that have brought some
  friend bool operator==(const GatheringRow&, const GatheringRow&) = default;
};
struct GatheredItem {
  std::string source;
  std::string item;  // JSON
  uint32_t depth = 0;
  friend bool operator==(const GatheredItem&, const GatheredItem&) = default;
};
void PutGathering(const Writer& writer, TriggerName name, const GatheringRow& row);
void PutGathered(const Writer& writer, TriggerName name, uint64_t gathering, uint64_t index,
                 const GatheredItem& item);
// With its items.
void DropGathering(const Writer& writer, TriggerName name, uint64_t gathering);
void DropGatherings(const Writer& writer, TriggerName name);
Result<Ok> ScanGatherings(const Reader& reader, TriggerName name,
                          const std::function<void(GatheringRow)>& visit);
// In the order in which they came.
Result<std::vector<GatheredItem>> GetGathered(const Reader& reader, TriggerName name,
                                              uint64_t gathering);

// An item with this text was taken: others are its duplicates until then.
void PutSeen(const Writer& writer, TriggerName name, std::string_view key, Timestamp until);
// Until when items with this text are duplicates; nullopt: they are none.
Result<std::optional<Timestamp>> GetSeen(const Reader& reader, TriggerName name,
                                         std::string_view key);
// Drops some texts whose time was up before `now`.
Result<Ok> DropSeen(const Reader& reader, const Writer& writer, TriggerName name, Timestamp now,
                    size_t limit);
void DropAllSeen(const Writer& writer, TriggerName name);

}  // namespace dfsmr::rows
