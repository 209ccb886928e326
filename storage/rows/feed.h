// The feed, which records what happened, in order; and the histories of instances, which are lists
// of its records.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/rows/reader.h"

namespace dfsmr::rows {

// Consecutive records of the feed, encoded as in its row.
struct FeedPage {
  uint64_t first = 0;  // their numbers
  uint64_t last = 0;
  std::string bytes;
};
// A page takes records until it has so many, or so many bytes.
struct PageSizes {
  size_t records = 256;
  size_t bytes = 16 << 10;
};
// Before anything is written or read, and not beside it: for tests, since small pages show in a
// short run what large ones show in a long one.
void SetPageSizes(const PageSizes& sizes);

// Adds the record that follows the last one of `pages`, to the last page or, when that is full, to
// a new one.
void AddEvent(std::vector<FeedPage>* pages, const Event& event);
void PutPages(const Writer& writer, const std::vector<FeedPage>& pages);
// The page's records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ReadPage(const FeedPage& page, uint64_t first, const std::function<bool(Event)>& visit);

// Records with first <= seq, ascending, until `visit` returns false.
Result<Ok> ScanFeed(const Reader& reader, uint64_t first, const std::function<bool(Event)>& visit);
// Records with from <= seq < before, descending, until `visit` returns false.
Result<Ok> ScanFeedBackwards(const Reader& reader, uint64_t from, uint64_t before,
                             const std::function<bool(Event)>& visit);
// The records of histories that the feed no longer holds, with from <= seq < before, ascending or
// descending, until `visit` returns false.
Result<Ok> ScanKept(const Reader& reader, uint64_t from, uint64_t before, bool backwards,
                    const std::function<bool(Event)>& visit);
// The first number of the page that holds record `seq`; `seq` itself when no page does.
Result<uint64_t> PageStart(const Reader& reader, uint64_t seq);
// 0 when the feed is empty.
Result<uint64_t> LastSeq(const Reader& reader);
// The lowest number that the feed holds, or would hold if it were not empty: 1 before any record
// was dropped.
Result<uint64_t> FirstSeq(const Reader& reader);
// Finds records by their numbers, in the feed or among those kept elsewhere. Keeps the page that it
// has read last, since records of one instance are often neighbours. One thread.
class FeedReader {
 public:
  explicit FeedReader(const Reader& reader) : reader_(reader) {}
  FeedReader(const View& view, PartitionId partition) : reader_{view, partition} {}
  Result<Event> Get(uint64_t seq);  // kNotFound: the record was dropped

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

// Retention. `begin` is where the feed begins. Drops pages from there that hold nothing later than
// `horizon`, until `most` records are gone, at most a page more. Records for which `keep` returns
// true are kept in rows of their own. Returns where the feed begins now.
Result<uint64_t> TrimFeed(const Reader& reader, const Writer& writer, uint64_t begin,
                          Timestamp horizon, size_t most,
                          const std::function<bool(const Event&)>& keep);

}  // namespace dfsmr::rows
