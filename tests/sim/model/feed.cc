#include "tests/sim/model/feed.h"

#include <algorithm>

namespace dfsmr::model {

void Feed::Tell(const std::vector<Event>& events, bool unheard) {
  defined_.clear();
  Timestamp latest;
  for (const Event& event : events) latest = std::max(latest, event.time);
  for (const Event& event : events) {
    const uint64_t next = told_.empty() ? 1 : told_.rbegin()->first + 1;
    Expect(event.seq == next, "record " + std::to_string(event.seq) + " of the feed follows " +
                                  std::to_string(next - 1));
    Expect(event.kind != ChangeKind::kNone, "record " + std::to_string(event.seq) + " has no kind");
    Expect(event.ns == "ns", "record " + std::to_string(event.seq) + " is of another namespace");
    const bool defines = event.kind == ChangeKind::kDefined && !event.machine.empty();
    if (defines && !unheard) defined_.emplace_back(event.machine, event.version);
    told_.emplace(event.seq, event);
    written_[event.seq] = latest;
  }
}

void Feed::Defines(const std::string& machine, uint32_t version) {
  const auto told = std::ranges::find(defined_, std::pair(machine, version));
  Expect(told != defined_.end(), "the feed does not tell that version " + std::to_string(version) +
                                     " of " + machine + " was defined");
  if (told != defined_.end()) defined_.erase(told);
}

void Feed::EndTurn() {
  Expect(defined_.empty(),
         "the feed tells that " + (defined_.empty() ? "" : defined_.front().first) +
             " was defined, and nobody has");
}

// What is dropped has outlived its retention, and what has outlived it by a quarter is dropped.
void Feed::Compare(const std::vector<Event>& stored, uint64_t first, Timestamp now) {
  uint64_t next = first;
  for (const Event& event : stored) {
    const auto told = told_.find(event.seq);
    Expect(event.seq == next++, "the feed has a gap before " + std::to_string(event.seq));
    Expect(told != told_.end() && told->second == event,
           "record " + std::to_string(event.seq) + " is not as it was told");
  }
  Expect(told_.empty() || next == told_.rbegin()->first + 1, "the feed has lost its end");
  const auto before = told_.lower_bound(first);
  if (before != told_.begin()) {
    const Event& last = std::prev(before)->second;
    Expect(After(last.time, retention_) <= now,
           "record " + std::to_string(last.seq) + " is gone before its time");
  }
  if (before != told_.end()) {
    const Duration most = retention_ + retention_ / 4 + std::chrono::seconds(3);
    Expect(After(written_.at(first), most) > now,
           "record " + std::to_string(first) + " of the feed has outlived its retention");
  }
}

}  // namespace dfsmr::model
