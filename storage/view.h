// Reading an ordered map of byte strings. Whoever only reads takes a View, and need not know what
// it is: the store as it is now, the store as it was at one moment (Store::Snapshot), or the store
// with what is not written yet on top (workspace.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/result.h"

namespace dfsmr {

class View {
 public:
  // Return false to end the scan. The views die with the call.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~View() = default;

  // The value, or nullopt. Fails with kUnavailable (I/O) or kDataLoss (checksum) only.
  virtual Result<std::optional<std::string>> Get(std::string_view key) const = 0;

  // Rows with begin <= key < end, ascending (or descending with `reverse`), until `visit` returns
  // false. Sees one consistent state. An empty `end` means: to the last key. Fails as Get does;
  // rows visited before a failure were real, but some may be missing, so a failed scan proves
  // nothing.
  virtual Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                          bool reverse = false) const = 0;

  // The same, ascending, of what is read once from end to end, however much: it drives nothing else
  // out of memory, and may be read by another thread while this one visits.
  virtual Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                              const Visit& visit) const {
    return Scan(begin, end, visit);
  }
};

// The first key after all those with `prefix`; empty when there is none.
std::string PrefixEnd(std::string_view prefix);

}  // namespace dfsmr
