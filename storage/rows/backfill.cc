#include "storage/rows/backfill.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

constexpr uint8_t kBackfill = 0x05;

Key Prefix(PartitionId partition) {
  return std::move(Key(partition, kOccurrenceIndex).Byte(kBackfill));
}
std::string BackfillKeyOf(PartitionId partition, std::string_view ns, std::string_view group) {
  return Prefix(partition).Text(ns).Text(group);
}

Result<BackfillRow> DecodeBackfill(std::string_view key, std::string_view value) {
  record::Backfill in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("backfill", key);
  }
  BackfillRow row;
  row.schedule = in.schedule();
  row.version = in.version();
  row.from = FromMicros(in.from());
  row.to = FromMicros(in.to());
  row.position = FromMicros(in.position());
  row.reverse = in.reverse();
  row.again = in.again();
  if (in.has_priority()) row.priority = in.priority();
  row.to_come = in.to_come();
  return row;
}

}  // namespace

void PutBackfill(const Writer& writer, std::string_view ns, std::string_view group,
                 const BackfillRow& row) {
  record::Backfill out;
  out.set_schedule(row.schedule);
  out.set_version(row.version);
  out.set_from(Micros(row.from));
  out.set_to(Micros(row.to));
  out.set_position(Micros(row.position));
  out.set_reverse(row.reverse);
  out.set_again(row.again);
  if (row.priority) out.set_priority(*row.priority);
  out.set_to_come(row.to_come);
  writer.batch.Put(BackfillKeyOf(writer.partition, ns, group), out.SerializeAsString());
}

void DropBackfill(const Writer& writer, std::string_view ns, std::string_view group) {
  writer.batch.Delete(BackfillKeyOf(writer.partition, ns, group));
}

Result<std::optional<BackfillRow>> GetBackfill(const Reader& reader, std::string_view ns,
                                               std::string_view group) {
  const std::string key = BackfillKeyOf(reader.partition, ns, group);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<BackfillRow>();
  auto row = DecodeBackfill(key, **value);
  if (!row) return row.error();
  return std::optional(*std::move(row));
}

Result<Ok> ScanBackfills(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, const BackfillRow&)>& visit) {
  const std::string begin = Prefix(reader.partition);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto row = DecodeBackfill(key, value);
                   if (!row) return row.error();
                   KeyReader parts(key);
                   parts.Number(1);
                   const std::string_view ns = parts.Text();
                   visit(ns, parts.Text(), *row);
                   return true;
                 });
}

}  // namespace dfsmr::rows
