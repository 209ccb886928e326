// The feeds of several partitions as one feed, with numbers of its own: their pages in the order of
// their times, those of one partition in its own order.
//
// What reads a feed says by a number how far it has come: statistics, triggers. Over several
// partitions these are as many numbers, a cut; here they are to be one again. So what lies before a
// cut comes before all that lies behind it, whatever the times, and a page through which a cut goes
// becomes two.
//
// Below the feed are the numbers of records that only histories have any more, those of one
// partition after those of another. A past page (past.h) holds what was home's before it was moved
// elsewhere, under home's numbers: as long as home's feed has these records the page is left out,
// and the number is that of home's record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/pull.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

class JoinedFeed {
 public:
  // By partition: all records up to this one.
  using Cut = std::vector<uint64_t>;

  JoinedFeed(const View& source, uint16_t partitions) : source_(source), partitions_(partitions) {}

  // Where the feeds begin and end. First of all.
  Result<Ok> Open();
  // The same cut, with numbers that lie in the feeds.
  Cut Within(Cut cut) const;
  // Whether all that lies before the first lies before the second as well.
  static bool Includes(const Cut& first, const Cut& second);
  // What home had when other partitions got their instances from it comes first; nullopt: none of
  // it is left.
  std::optional<Cut> MovedFromHome() const;
  // Reads all feeds. REQUIRES: each two of the cuts include one another.
  Result<Ok> Read(std::vector<Cut> cuts);

  // The new number of a record; 0 of 0.
  uint64_t NumberOf(PartitionId partition, uint64_t seq) const;
  // The number of the last record before the cut. REQUIRES: it was read with this cut.
  uint64_t NumberOf(const Cut& cut) const;
  uint64_t start() const { return start_; }
  // Of the first page before the start; UINT64_MAX: there is none.
  uint64_t past_start() const { return past_.empty() ? UINT64_MAX : past_.front().number; }
  // The records of histories that have rows of their own, of one partition: the new number.
  uint64_t KeptNumberOf(PartitionId partition, uint64_t seq) const {
    return base_[partition] + seq;
  }

  // Rows of pages, as View::Scan, with keys of home.
  Result<Ok> Scan(std::string_view begin, std::string_view end, const View::Visit& visit,
                  bool reverse) const;

 private:
  // Records of one page, which follow each other.
  struct Portion {
    uint64_t page = 0;    // the number of its first record
    uint64_t first = 0;   // of these, in the partition
    uint64_t number = 0;  // and in the joined feed
    uint32_t count = 0;
    PartitionId partition = 0;
    bool whole = false;  // all records of the page
  };
  struct Timed {
    Portion portion;
    int64_t time = 0;  // no later than that of any portion behind it
  };
  class Pages;

  Result<Ok> ReadKept(PartitionId partition);
  Result<Ok> ReadPast(PartitionId partition);
  Result<std::vector<Timed>> ReadPages(PartitionId partition, const std::vector<Cut>& cuts) const;
  void Merge(std::vector<std::vector<Timed>> feeds, const std::vector<Cut>& cuts);
  bool Visit(const Portion& portion, Pages& pages, const View::Visit& visit,
             Result<Ok>* outcome) const;

  const View& source_;
  const uint16_t partitions_;
  std::vector<uint64_t> starts_;  // by partition
  std::vector<uint64_t> lasts_;
  // Before the start of each feed: the last number that a history's record has, and what is added
  // to those.
  std::vector<uint64_t> kept_;
  std::vector<uint64_t> base_;
  // The records of past pages, of which home's feed has those from its start on.
  struct Moved {
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;
  };
  std::vector<Moved> moved_;
  uint64_t start_ = 1;
  std::vector<Portion> past_;                    // by number
  std::vector<Portion> portions_;                // by number
  std::vector<std::vector<uint32_t>> in_order_;  // by partition: indexes of portions
};

}  // namespace dfsmr::rows
