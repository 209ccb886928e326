// The rows of backfills: which times are to come in a group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct BackfillRow {
  std::string schedule;
  uint32_t version = 0;   // of the schedule, whose times and start they are
  Timestamp from;         // the first time may be this one
  Timestamp to;           // and the last one this
  Timestamp position;     // the times up to this one have been dealt with
  bool reverse = false;   // the newest first
  uint32_t again = 0;     // as Again in backfills.h
  std::optional<int32_t> priority;
  uint64_t to_come = 0;   // as far as it is known
  friend bool operator==(const BackfillRow&, const BackfillRow&) = default;
};

void PutBackfill(const Writer& writer, std::string_view ns, std::string_view group,
                 const BackfillRow& row);
void DropBackfill(const Writer& writer, std::string_view ns, std::string_view group);
Result<std::optional<BackfillRow>> GetBackfill(const Reader& reader, std::string_view ns,
                                               std::string_view group);
Result<Ok> ScanBackfills(
    const Reader& reader,
    const std::function<void(std::string_view ns, std::string_view group, const BackfillRow&)>&
        visit);

}  // namespace dfsmr::rows
