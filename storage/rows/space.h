// The rows of namespaces: settings and state, and what is left of those that were deleted. And the
// rows of all kinds that belong to one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/time.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// Absent: as the server's default. 0: none.
struct Quotas {
  std::optional<uint64_t> live_instances = {};
  std::optional<uint64_t> ready_tasks = {};
  std::optional<uint64_t> definitions = {};
  std::optional<uint64_t> package_bytes = {};
  std::optional<double> starts_per_second = {};
  std::optional<Duration> retention = {};
  friend bool operator==(const Quotas&, const Quotas&) = default;
};

// Same numbers as package.proto.
enum class SpaceState : uint8_t { kNone, kActive, kFrozen, kDraining, kDropping, kDeleted };

struct SpaceRow {
  SpaceState state = SpaceState::kActive;
  std::string description;
  std::map<std::string, std::string> labels;
  bool require_signatures = false;
  Quotas quotas;
  Timestamp create_time{};  // zero: it was in use before there were rows of namespaces
  std::string created_by;
  Timestamp drain_until{};
  uint64_t feed_floor = 0;  // records up to this one are of a namespace that had its name
  // What stopped from a time on is kept so long at most (zero: as its machine says); by time.
  std::vector<std::pair<Timestamp, Duration>> caps;
};

void PutSpace(const Writer& writer, std::string_view ns, const SpaceRow& row);
Result<Ok> ScanSpaces(const Reader& reader,
                      const std::function<void(std::string_view ns, SpaceRow row)>& visit);

// The namespaces of which there are machines, documents or instances. Takes a look per namespace
// and kind of row.
Result<std::set<std::string>> NamespacesInUse(const Reader& reader);

// Drops what is left of a namespace: every row whose key begins with it. Few rows are deleted one by
// one, many by their range, since a range that was deleted costs every later read. Rows whose keys
// begin with a time or a number must be gone already.
Result<Ok> DropNamespaceRows(const Reader& reader, const Writer& writer, std::string_view ns);
// Whether any such row is left.
Result<bool> HasNamespaceRows(const Reader& reader, std::string_view ns);

// Of a namespace that is being deleted another partition has nothing left. `made`: when that one of
// its name was.
void PutEmptied(const Writer& writer, std::string_view ns, PartitionId from, Timestamp made);
Result<Ok> ScanEmptied(const Reader& reader,
                       const std::function<void(std::string ns, PartitionId from, Timestamp made)>&
                           visit);

}  // namespace dfsmr::rows
