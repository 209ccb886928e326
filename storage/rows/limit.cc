#include "storage/rows/limit.h"

#include "storage/rows/encoding.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

std::string RowKey(PartitionId partition, Kind kind, std::string_view ns, std::string_view key) {
  return Key(partition, kind).Text(ns).Text(key);
}

Result<Ok> ScanKind(const Reader& reader, Kind kind,
                    const std::function<Result<bool>(std::string_view, std::string_view,
                                                     std::string_view, std::string_view)>& visit) {
  const std::string begin = Key(reader.partition, kind);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view row, std::string_view value) -> Result<bool> {
                   KeyReader parts(row);
                   const std::string_view ns = parts.Text();
                   return visit(row, ns, parts.Text(), value);
                 });
}

void SetNumbers(const std::optional<uint32_t>& max, const std::optional<Rate>& rate,
                record::LimitOverride* out) {
  if (max) out->set_max(*max);
  if (!rate) return;
  out->set_rate(rate->count);
  out->set_per(rate->per.count());
  out->set_burst(rate->burst);
}

LimitNumbers NumbersOf(const record::LimitOverride& in) {
  LimitNumbers numbers;
  if (in.has_max()) numbers.max = in.max();
  if (in.rate() > 0) numbers.rate = Rate{in.rate(), Duration(in.per()), in.burst()};
  return numbers;
}

}  // namespace

void PutLimitOverride(const Writer& writer, std::string_view ns, std::string_view key,
                      const LimitOverride& override) {
  record::LimitOverride out;
  SetNumbers(override.max, override.rate, &out);
  out.set_no_max(override.no_max);
  out.set_no_rate(override.no_rate);
  out.set_note(override.note);
  out.set_set_by(override.set_by);
  out.set_set_time(Micros(override.set_time));
  writer.batch.Put(RowKey(writer.partition, kLimitOverride, ns, key), out.SerializeAsString());
}

std::optional<LimitOverride> DecodeLimitOverride(std::string_view value) {
  record::LimitOverride in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) return std::nullopt;
  LimitOverride override;
  override.max = NumbersOf(in).max;
  override.rate = NumbersOf(in).rate;
  override.no_max = in.no_max();
  override.no_rate = in.no_rate();
  override.note = in.note();
  override.set_by = in.set_by();
  override.set_time = FromMicros(in.set_time());
  return override;
}

void DropLimitOverride(const Writer& writer, std::string_view ns, std::string_view key) {
  writer.batch.Delete(RowKey(writer.partition, kLimitOverride, ns, key));
}

Result<Ok> ScanLimitOverrides(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, LimitOverride)>& visit) {
  return ScanKind(reader, kLimitOverride,
                  [&](std::string_view row, std::string_view ns, std::string_view key,
                      std::string_view value) -> Result<bool> {
                    auto override = DecodeLimitOverride(value);
                    if (!override) return Corrupt("limit's numbers", row);
                    visit(ns, key, *std::move(override));
                    return true;
                  });
}

void PutLimitRate(const Writer& writer, std::string_view ns, std::string_view key,
                  Timestamp full_at) {
  PutNumber(writer, RowKey(writer.partition, kLimitRate, ns, key),
            static_cast<uint64_t>(Micros(full_at)));
}

void DropLimitRate(const Writer& writer, std::string_view ns, std::string_view key) {
  writer.batch.Delete(RowKey(writer.partition, kLimitRate, ns, key));
}

Result<Ok> ScanLimitRates(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, Timestamp)>& visit) {
  return ScanKind(reader, kLimitRate,
                  [&](std::string_view row, std::string_view ns, std::string_view key,
                      std::string_view value) -> Result<bool> {
                    if (value.size() != 8) return Corrupt("limit's rate", row);
                    uint64_t number = 0;
                    for (char c : value) number = number << 8 | static_cast<uint8_t>(c);
                    visit(ns, key, FromMicros(static_cast<int64_t>(number)));
                    return true;
                  });
}

void PutLimitAsker(const Writer& writer, std::string_view ns, std::string_view key,
                   const LimitNumbers& numbers) {
  record::LimitOverride out;
  SetNumbers(numbers.max, numbers.rate, &out);
  writer.batch.Put(RowKey(writer.partition, kLimitAsker, ns, key), out.SerializeAsString());
}

void DropLimitAsker(const Writer& writer, std::string_view ns, std::string_view key) {
  writer.batch.Delete(RowKey(writer.partition, kLimitAsker, ns, key));
}

Result<Ok> ScanLimitAskers(
    const Reader& reader,
    const std::function<void(std::string_view, std::string_view, LimitNumbers)>& visit) {
  return ScanKind(reader, kLimitAsker,
                  [&](std::string_view row, std::string_view ns, std::string_view key,
                      std::string_view value) -> Result<bool> {
                    record::LimitOverride in;
                    if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                      return Corrupt("numbers of a limit's asker", row);
                    }
                    visit(ns, key, NumbersOf(in));
                    return true;
                  });
}

}  // namespace dfsmr::rows
