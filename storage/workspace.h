// The engine's view of the store: what is durable, what is being written, and what the turn under
// way has written so far, as one map. The engine decides on top of turns that are not durable yet,
// so it must read its own writes; with a Workspace no part of it needs to know which those are.
//
//   Workspace rows(store);
//   … reads, and writes into rows.batch() …       a turn
//   auto batch = rows.Seal(turn);                  its end; hand `batch` to whoever writes
//   … the next turn, on top of it …
//   rows.Committed(turn);                          `batch` is durable: the store shows it
//
// Belongs to the thread that decides: all calls, reads included, are made there. Only the sealed
// batches are shared, with the thread that writes them; they do not change.
//
// A batch may be in the store before Committed is called, as when another thread has just written
// it: what is read is the same. The order of batches is that of Seal. One turn is being written at
// most, but the next may be sealed before that is known to be durable, and a turn without writes
// may lie between, so that any number may be sealed; each costs every read a little.
//
// What it costs: nothing on writing, nothing for turns that nobody reads through. The first Get
// after writes adds their keys to a hash table, and the first Scan to an ordered one: some 0.05 and
// 0.15 µs for each row written. The keys point into the batches; no key and no value is copied. A
// Scan besides lists the unwritten rows within its bounds: keep them narrow.
//
// With it the engine need not keep track of
//   - outputs and planned flows that the store may not show yet (PlanCache::last and before):
//     put the rows when they are reported, and read them back like any others;
//   - full pages of a history that may not be durable (Resident::pages, pages_before and
//     before_turn): HistoryBackwards sees them;
//   - the feed's turns that are not durable (OpenTurn::FindRecord): FeedReader sees them, except
//     for the pages that the turn under way is still filling, which are put at its end;
//   - instances and plans that were dropped (Residents::dropped_, dropped_order_, Forgotten,
//     PlanCache::dropped_turn): deletes and ranges hide the rows at once;
//   - children noted as unstarted (PlanItems::unstarted);
//   - instances that a scan does not find yet (Residents::Unseen): it finds all, except for those
//     that the turn under way has changed, whose rows are put at its end;
//   - whether a resident's row is durable before it is evicted: once the row is in a sealed batch
//     it can be loaded from here. What is in memory only (lazy) must still stay;
//   - the begin of the oldest turn that is not durable (OpenTurn::OldestOpen): what expired before
//     the turn under way began may be dropped, except for instances that it has changed itself,
//     whose rows are still to be put and would bring them back.
// It does not say what is durable: answers still wait for the commit of what they rest on.
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

  // Where this turn's writes go; reads show them at once. Another object after Seal.
  Batch& batch() { return *batch_; }

  // Ends the turn: its writes change no more, and those that follow come on top of them. Not within
  // a Scan. `turn` is greater than with any call before. The batch may be empty.
  std::shared_ptr<const Batch> Seal(uint64_t turn);

  // All that was sealed as `turn` or before is durable: from now on it is read from the store. Not
  // within a Scan.
  void Committed(uint64_t turn);

  // A `visit` may read, and write into batch(). Its scan does not show what it writes; other reads
  // do.
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
