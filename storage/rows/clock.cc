#include "storage/rows/clock.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {

void PutClock(const Writer& writer, const ClockRow& row) {
  record::Clock out;
  out.set_time(Micros(row.time));
  out.set_last_change(Micros(row.last_change));
  writer.batch.Put(Key(writer.partition, kClock), out.SerializeAsString());
}

Result<std::optional<ClockRow>> GetClock(const Reader& reader) {
  const std::string key = Key(reader.partition, kClock);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<ClockRow>();
  record::Clock in;
  if (!in.ParseFromString(**value)) return Corrupt("clock", key);
  return std::optional(ClockRow{FromMicros(in.time()), FromMicros(in.last_change())});
}

}  // namespace dfsmr::rows
