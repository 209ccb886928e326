// The feed: what happened, in order; and the histories of instances, which are lists of its
// records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// Consecutive records of the feed, as they lie in its row.
struct FeedPage {
  uint64_t first = 0;  // their numbers
  uint64_t last = 0;
  std::string bytes;
};
// Adds the record that follows the last one of `pages`: to the last page, or to a new one when that
// is full.
void AddEvent(std::vector<FeedPage>* pages, const Event& event);
void PutPages(const Writer& writer, const std::vector<FeedPage>& pages);
// The page's records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ReadPage(const FeedPage& page, uint64_t first, const std::function<bool(Event)>& visit);

// Records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ScanFeed(const Reader& reader, uint64_t first, const std::function<bool(Event)>& visit);
// The first number of the page that holds record `seq`; `seq` itself when none does.
Result<uint64_t> PageStart(const Reader& reader, uint64_t seq);
// 0 when the feed is empty.
Result<uint64_t> LastSeq(const Reader& reader);
// The lowest seq that the feed holds, or would hold: 1 before anything was dropped.
Result<uint64_t> FirstSeq(const Reader& reader);
// Finds records by their numbers, wherever they lie now. Keeps the page that it has read last,
// since records of one instance are often neighbours. One thread.
class FeedReader {
 public:
  explicit FeedReader(const Reader& reader) : reader_(reader) {}
  FeedReader(const View& view, PartitionId partition) : reader_{view, partition} {}
  Result<Event> Get(uint64_t seq);  // kNotFound when it is gone

 private:
  const Reader reader_;
  FeedPage page_;
};
// All numbers of an instance's history after `after`, ascending; `instance.history` is the last
// page.
Result<std::vector<uint64_t>> History(const Reader& reader, const Instance& instance,
                                      uint64_t after);

// The same, newest first, until `visit` returns false.
Result<Ok> HistoryBackwards(const Reader& reader, const Instance& instance,
                            const std::function<bool(uint64_t seq)>& visit);

// Retention. Drops the pages at the feed's begin, which is `begin`, that hold nothing later than
// `horizon`, until `most` records or a page more are gone, keeping elsewhere the records that
// `keep` wants. Returns where the feed begins now.
Result<uint64_t> TrimFeed(const Reader& reader, const Writer& writer, uint64_t begin,
                          Timestamp horizon, size_t most,
                          const std::function<bool(const Event&)>& keep);

}  // namespace dfsmr::rows
