// Limits over several partitions. Home decides for all: its rows say what instances that live
// elsewhere have of limits. There a row says which was the last that home was told of each.
#pragma once

#include <cstdint>
#include <functional>
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

}  // namespace dfsmr::rows
