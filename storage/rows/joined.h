// A store of several partitions, which nobody serves, seen as one of a single partition: each
// instance under home's keys, the feeds as one feed (joined_feed.h), what each partition has
// counted added up, and nothing of what partitions keep of each other. Rows that name records of a
// feed name them by their new numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/rows/joined_feed.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

enum Kind : uint8_t;  // of rows: keys.h
struct RowOf;         // joined_shares.h

class Joined final : public View {
 public:
  Joined(const View& source, uint16_t partitions)
      : source_(source), partitions_(partitions), feed_(source, partitions) {}

  // Before anything is read. kFailedPrecondition: something is under way between partitions; the
  // message says what to do first. Reads all feeds.
  Result<Ok> Begin();

  Result<std::optional<std::string>> Get(std::string_view key) const override;
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override;

 private:
  struct Range {
    std::string begin;
    std::string end;  // empty: all that follow
    bool reverse = false;
    bool Has(std::string_view key) const { return key >= begin && (end.empty() || key < end); }
  };
  // What becomes of a row of one partition.
  struct Row {
    std::string key;
    std::string value;
  };

  Result<Ok> CheckMessages() const;
  Result<Ok> FindCuts();
  Result<Ok> AddTriggers(std::vector<JoinedFeed::Cut>* cuts);

  // False: the visitor has seen enough.
  Result<bool> ScanKind(Kind kind, const Range& range, const Visit& visit) const;
  Result<bool> ScanHome(Kind kind, const Range& range, const Visit& visit) const;
  Result<bool> ScanKept(const Range& range, const Visit& visit) const;
  Result<bool> ScanNumber(Kind kind, const Range& range, const Visit& visit) const;
  Result<bool> ScanAllOf(Kind kind, const Range& range, const Visit& visit) const;
  struct OneInstance {
    PartitionId partition = 0;
    std::string prefix;  // of the keys of its rows of that kind
  };
  std::optional<OneInstance> InstanceOf(Kind kind, const Range& range) const;
  Result<Row> Take(Kind kind, const std::string& key, const std::vector<RowOf>& rows) const;
  Result<std::string> Renumber(Kind kind, std::string_view key, const RowOf& row) const;
  template <typename Limits>
  Result<Ok> RenumberOrder(InstanceName name, PartitionId partition, Limits* limits) const;

  const View& source_;
  const uint16_t partitions_;
  JoinedFeed feed_;
  JoinedFeed::Cut counted_;  // up to where the statistics account for the feeds
  struct TriggerCut {
    std::string key;  // of its row
    JoinedFeed::Cut cut;
  };
  std::vector<TriggerCut> triggers_;  // of those that listen to changes, by key
};

}  // namespace dfsmr::rows
