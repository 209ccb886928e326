// Who reads the feed in a run, and what they must be told.
#include <algorithm>

#include "storage/rows/feed.h"
#include "tests/sim/sim.h"

namespace dfsmr {

void Sim::Watch() {
  if (!On(Fault::kWatcher)) return;
  const uint64_t head = ledger_.empty() ? 0 : ledger_.rbegin()->first;
  if (watchers_.size() < 3 && random_.Chance(20)) {
    Watcher watcher;
    if (random_.Chance(30)) watcher.filter.machine = AnyMachine();
    if (random_.Chance(30)) watcher.filter.instance = AnyId();
    if (random_.Chance(30)) {
      watcher.filter.kinds = {ChangeKind::kTransitioned, ChangeKind::kFinished};
    }
    watcher.filter.dry_run = dry_ && of_dry_.Chance(50);
    watcher.cursor = CursorText(changes_->CursorAt(random_.Chance(50) ? head : 0));
    watchers_.push_back(std::move(watcher));
  }
  if (watchers_.empty() || !random_.Chance(20)) return;
  Watcher& watcher = watchers_[random_.Below(watchers_.size())];
  auto cursor = ParseCursor(watcher.cursor);
  REQUIRE(cursor);
  Hit(Fault::kWatcher);
  auto portion = changes_->Read(cursor->seqs.front(), changes_->head(), watcher.filter);
  if (portion && random_.Chance(70)) return CheckPortion(watcher, *portion, cursor->seqs.front());
  auto stored = changes_->ReadStore(cursor->seqs.front(), UINT64_MAX, watcher.filter);
  if (stored) return CheckPortion(watcher, **stored, cursor->seqs.front());
  const auto first = rows::FirstSeq({store_, world_.partition()});
  REQUIRE(first);
  Expect(stored.error().reason == Reason::kCursorExpired && cursor->seqs.front() + 1 < *first,
         "a watcher was refused: " + stored.error().message);
  watcher.cursor = CursorText(changes_->CursorAt(*first - 1));
}

// Exactly the records that match, in order, up to where it says it has come.
void Sim::CheckPortion(Watcher& watcher, const Changes::Portion& portion, uint64_t after) {
  const uint64_t head = ledger_.empty() ? 0 : ledger_.rbegin()->first;
  Expect(portion.up_to <= head && portion.up_to >= std::min(after, head),
         "a watcher was led to " + std::to_string(portion.up_to) + " of " + std::to_string(head));
  Expect(!portion.at_head || portion.up_to == head, "a watcher at the head has not seen it all");
  std::string expected, told;
  for (auto it = ledger_.upper_bound(after); it != ledger_.end() && it->first <= portion.up_to;
       ++it) {
    const ChangeFilter& filter = watcher.filter;
    const Event& event = it->second;
    if ((filter.dry_run || !IsDryRun(event)) &&
        (filter.machine.empty() || filter.machine == event.machine) &&
        (filter.instance.empty() || filter.instance == event.instance) &&
        (filter.kinds.empty() || filter.kinds.contains(event.kind))) {
      expected += std::to_string(it->first) + " ";
    }
  }
  for (const auto& change : portion.changes) told += *change + " ";
  Expect(expected == told, "a watcher was told " + told + "instead of " + expected);
  watcher.cursor = CursorText(changes_->CursorAt(portion.up_to));
}

}  // namespace dfsmr
