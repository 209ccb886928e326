// The engine's view of the store: the durable rows, those being written, and those that the turn
// under way has written so far, as one map. The engine decides on top of turns that are not durable
// yet, so it must read its own writes. With a Workspace no part of the engine needs to know which
// rows are durable: rows are put when they change and read back like any others, deleted rows are
// hidden at once, and what is in a sealed batch may leave memory.
//
//   Workspace rows(store);
//   … reads, and writes into rows.batch() …       a turn
//   auto batch = rows.Seal(turn);                  its end; `batch` goes to the writing thread
//   … the next turn, on top of it …
//   rows.Committed(turn);                          `batch` is durable: the store shows it
//
// It does not say what is durable: answers still wait for the commit of the turn they rest on. Nor
// does it have what the turn under way puts only at its end: the rows of changed instances, and the
// page of the feed that is being filled.
//
// All calls, reads included, belong to the thread that decides. Only the sealed batches are shared,
// with the thread that writes them; they do not change.
//
// A batch may be in the store before Committed is called, because another thread has just written
// it; reads give the same result either way. Batches are in the order of Seal. At most one turn is
// being written, but the next may be sealed before that one is known to be durable, and turns
// without writes may lie between. So any number may be sealed; each makes every read a little
// slower.
//
// Cost: none for writing, and none for turns without reads. The first Get after writes adds their
// keys to a hash table, and the first Scan to an ordered one: about 0.05 and 0.15 µs for each row
// written. The keys point into the batches; no key and no value is copied. A Scan also lists the
// unwritten rows within its bounds, so keep the bounds narrow.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/store.h"

namespace dfsmr {

class Workspace final : public View {
 public:
  // `store` must outlive it.
  explicit Workspace(const View& store);
  ~Workspace() override;

  // Takes this turn's writes; reads show them at once. A different object after each Seal.
  Batch& batch() { return *batch_; }

  // Ends the turn: its writes do not change any more, and later writes come on top of them. Do not
  // call it within a Scan. `turn` is greater than in any call before. The batch may be empty.
  std::shared_ptr<const Batch> Seal(uint64_t turn);

  // All that was sealed as `turn` or before is durable: from now on it is read from the store. Do
  // not call it within a Scan.
  void Committed(uint64_t turn);

  // A `visit` may read, and may write into batch(). The scan under way does not show these writes;
  // other reads do.
  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse = false) const override;
  Result<Ok> ScanOnce(std::string_view begin, std::string_view end,
                      const Visit& visit) const override;

 private:
  class Layer;
  class Merge;
  using ScanBelow = std::function<Result<Ok>(const Visit&)>;

  void Begin();
  Result<Ok> ScanThrough(std::string_view begin, std::string_view end, const Visit& visit,
                         bool reverse, const ScanBelow& scan_below) const;

  const View& store_;
  std::vector<std::unique_ptr<Layer>> layers_;  // oldest first; the last one is batch_'s
  std::shared_ptr<Batch> batch_;
  mutable int scans_ = 0;  // under way, nested ones included
};

}  // namespace dfsmr
