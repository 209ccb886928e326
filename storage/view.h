// Reading an ordered map of byte strings. Code that only reads takes a View, which may be the store
// as it is now, the store as it was at one moment (Store::Snapshot), or the store with unwritten
// changes on top (workspace.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

class View {
 public:
  // Returns false to end the scan. `key` and `value` are valid during the call only.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~View() = default;

  // nullopt: there is no such row. Fails with kUnavailable (I/O) or kDataLoss (checksum) only.
  virtual Result<std::optional<std::string>> Get(std::string_view key) const = 0;

  // Rows with begin <= key < end, ascending (or descending with `reverse`), until `visit` returns
  // false. Sees one consistent state. An empty `end` means: to the last key. Fails as Get does.
  // Rows that were visited before a failure exist, but others may be missing.
  virtual Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                          bool reverse = false) const = 0;

  // The same, ascending, for large scans whose rows will not be read again soon: the rows displace
  // nothing from the cache, and another thread may read ahead while this one visits.
  virtual Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                              const Visit& visit) const {
    return Scan(begin, end, visit);
  }
};

// The first key after all keys with `prefix`; empty when no key can follow them.
std::string PrefixEnd(std::string_view prefix);

}  // namespace dfsmr
