// The rows of bulks: one thing done to many instances, in the background.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/rules/instance.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

struct BulkName {
  std::string_view ns;
  std::string_view id;
};

// What is done. Same numbers as StartBulkRequest.Action.
enum class BulkAction : uint8_t { kNone, kPause, kResume, kSkip, kCancel, kTransition };
// Same numbers as Bulk.State.
enum class BulkState : uint8_t { kNone, kPreview, kRunning, kDone, kStopped, kLimited };

struct BulkRow {
  // As it was asked for.
  std::string filter;                  // either this
  std::vector<std::string> instances;  // or these, ascending
  BulkAction action = BulkAction::kNone;
  std::string node;
  CancelMode mode = CancelMode::kNone;
  bool force = false;
  std::string transition;
  std::string node_params;
  uint64_t at_most = 0;  // 0: no limit
  std::string reason;
  std::string created_by;

  // Where it has come to: written in the turn that changes the instances.
  BulkState state = BulkState::kNone;
  Timestamp start_time;
  Timestamp end_time;     // zero: it runs
  uint64_t last_seq = 0;  // of the feed at its start: what was started later is not touched
  std::string place;      // the last id that was dealt with
  uint64_t looked_at = 0;
  uint64_t matched = 0;
  uint64_t changed = 0;
  uint64_t unchanged = 0;
  uint64_t refused = 0;
  std::map<std::string, uint64_t> reasons;  // of the refused
  std::vector<std::string> sample;          // of the refused

  friend bool operator==(const BulkRow&, const BulkRow&) = default;
};

void PutBulk(const Writer& writer, BulkName name, const BulkRow& bulk);
void DropBulk(const Writer& writer, BulkName name);
// All of all namespaces.
Result<Ok> ScanBulks(const Reader& reader, const std::function<void(BulkName, BulkRow)>& visit);

}  // namespace dfsmr::rows
