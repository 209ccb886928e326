// What the sources of the store of logs share about its rows.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "record.pb.h"
#include "storage/logs/keys.h"
#include "storage/logs/log_store.h"

namespace dfsmr {

// The order of those that run.
inline constexpr int64_t kLogRuns = std::numeric_limits<int64_t>::max();

inline size_t LogNameHash(std::string_view ns, std::string_view instance) {
  return std::hash<std::string_view>()(ns) * 31 + std::hash<std::string_view>()(instance);
}

inline Error LogDamaged() {
  return {Code::kDataLoss, Reason::kNone, "the store of logs: a row is damaged"};
}

// What a chunk takes besides its text: its keys, and what an index says of it.
inline uint64_t LogChunkCost(bool far) { return far ? 320 : 64; }

// The record of a row; false: there is none.
template <typename Record>
Result<bool> ParseLogRow(const std::optional<std::string>& value, Record* record) {
  if (!value) return false;
  if (!record->ParseFromString(*value)) return LogDamaged();
  return true;
}

template <typename Record>
Result<bool> LogStore::Get(const std::string& key, Record* record) const {
  if (const auto found = fetched_.find(key); found != fetched_.end()) {
    return ParseLogRow(found->second, record);
  }
  auto value = table_->Get(key);
  if (!value) return value.error();
  return ParseLogRow(*value, record);
}

}  // namespace dfsmr
