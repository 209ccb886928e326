#include "storage/rows/guest.h"

#include <utility>

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string GuestKey(PartitionId partition, const Message::Stake& stake) {
  return Key(partition, kGuest).Text(stake.ns).Text(stake.instance).Number(stake.visit);
}

std::string ToldKey(PartitionId partition, const ToldRow& row) {
  return Key(partition, kTold).Text(row.ns).Text(row.instance).Number(row.visit);
}

}  // namespace

void PutGuest(const Writer& writer, const Message::Stake& stake) {
  writer.batch.Put(GuestKey(writer.partition, stake), EncodeMessage({stake}));
}

void DropGuest(const Writer& writer, const Message::Stake& stake) {
  writer.batch.Delete(GuestKey(writer.partition, stake));
}

Result<Ok> ScanGuests(const Reader& reader, const std::function<void(Message::Stake)>& visit) {
  const std::string begin = Key(reader.partition, kGuest);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto message = DecodeMessage(value);
                   auto* const stake =
                       message ? std::get_if<Message::Stake>(&message->of) : nullptr;
                   if (!stake) return Corrupt("guest of a limit", key);
                   visit(std::move(*stake));
                   return true;
                 });
}

void PutTold(const Writer& writer, const ToldRow& row) {
  PutNumber(writer, ToldKey(writer.partition, row), row.number);
}

void DropTold(const Writer& writer, const ToldRow& row) {
  writer.batch.Delete(ToldKey(writer.partition, row));
}

Result<Ok> ScanTold(const Reader& reader, const std::function<void(ToldRow)>& visit) {
  const std::string begin = Key(reader.partition, kTold);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto number = NumberIn(key, value);
                   if (!number) return number.error();
                   KeyReader parts(key);
                   ToldRow row;
                   row.ns = parts.Text();
                   row.instance = parts.Text();
                   row.visit = parts.Number();
                   row.number = *number;
                   visit(std::move(row));
                   return true;
                 });
}

void PutCounted(const Writer& writer, const CountedRow& row) {
  std::string key = Key(writer.partition, kCounted).Text(row.ns).Text(row.key).Partition(row.partition);
  if (!row.counts && !row.followed && row.held == 0 && row.wanted == 0 && row.places == 0) {
    return writer.batch.Delete(std::move(key));
  }
  record::Counted out;
  out.set_counts(row.counts);
  out.set_followed(row.followed);
  out.set_held(row.held);
  out.set_wanted(row.wanted);
  out.set_places(row.places);
  out.set_round(row.round);
  for (const PartitionId id : row.unheard) out.add_unheard(id);
  writer.batch.Put(std::move(key), out.SerializeAsString());
}

Result<Ok> ScanCounted(const Reader& reader, const std::function<void(CountedRow)>& visit) {
  const std::string begin = Key(reader.partition, kCounted);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Counted in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("key of limits that is counted", key);
                   }
                   KeyReader parts(key);
                   CountedRow row;
                   row.ns = parts.Text();
                   row.key = parts.Text();
                   row.partition = static_cast<PartitionId>(parts.Number(2));
                   row.counts = in.counts();
                   row.followed = in.followed();
                   row.held = in.held();
                   row.wanted = in.wanted();
                   row.places = in.places();
                   row.round = in.round();
                   for (const uint32_t id : in.unheard()) {
                     row.unheard.insert(static_cast<PartitionId>(id));
                   }
                   visit(std::move(row));
                   return true;
                 });
}

}  // namespace dfsmr::rows
