// Limits over several partitions. Home decides for all: its rows say what instances that live
// elsewhere have of limits. There a row says which was the last that home was told of each.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "storage/rows/message.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

// At home: what an instance of another partition, or a token of it, holds or waits for.
void PutGuest(const Writer& writer, const Message::Stake& stake);
void DropGuest(const Writer& writer, const Message::Stake& stake);
Result<Ok> ScanGuests(const Reader& reader, const std::function<void(Message::Stake)>& visit);

// Elsewhere: the number of the last stake that home was told, of an instance or a token that holds
// or waits.
struct ToldRow {
  std::string ns;
  std::string instance;
  uint64_t visit = 0;
  uint64_t number = 0;
};
void PutTold(const Writer& writer, const ToldRow& row);
void DropTold(const Writer& writer, const ToldRow& row);
Result<Ok> ScanTold(const Reader& reader, const std::function<void(ToldRow)>& visit);

// A built-in key that is counted over all partitions, of one of them.
struct CountedRow {
  std::string ns;
  std::string key;
  PartitionId partition = 0;
  bool counts = false;    // it has a number
  bool followed = false;  // as in Message::Counted
  int64_t held = 0;       // so many hold it without having asked home
  uint64_t wanted = 0;    // of a queue or action: so many tasks want a place
  uint64_t places = 0;    // that a partition has of home
  uint64_t round = 0;     // at home, as in Message::Counted
  std::set<PartitionId> unheard = {};  // at home: these have not answered it yet
};
// One that says nothing is dropped.
void PutCounted(const Writer& writer, const CountedRow& row);
Result<Ok> ScanCounted(const Reader& reader, const std::function<void(CountedRow)>& visit);

}  // namespace dfsmr::rows
