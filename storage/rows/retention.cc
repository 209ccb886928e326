#include "storage/rows/retention.h"

#include "storage/rows/feed.h"
#include "storage/rows/instance.h"
#include "storage/rows/keys.h"

namespace dfsmr::rows {

Result<std::vector<Expired>> ScanExpired(const Reader& reader, Timestamp from, Timestamp now,
                                         size_t limit) {
  std::vector<Expired> expired;
  auto read = [&](std::string_view key, std::string_view value) -> Result<bool> {
    record::Expiry in;
    if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return Corrupt("time an instance may go", key);
    }
    KeyReader parts(key);
    Expired one;
    one.at = FromMicros(static_cast<int64_t>(parts.Number()));
    one.ns = parts.Text();
    one.id = parts.Text();
    one.machine = std::move(*in.mutable_machine());
    one.version = in.version();
    one.first_seq = in.first_seq();
    expired.push_back(std::move(one));
    return expired.size() < limit;
  };
  auto scanned = ScanAll(
      reader, Key(reader.partition, kExpiry).Number(static_cast<uint64_t>(Micros(from))).bytes(),
      Key(reader.partition, kExpiry).Number(static_cast<uint64_t>(Micros(now))).bytes(), read);
  if (!scanned) return scanned.error();
  return expired;
}

Result<Ok> DropInstance(const Reader& reader, const Writer& writer, const Instance& instance,
                        uint64_t feed_begin, Timestamp expiry) {
  auto spec = GetSpec(reader, instance);
  if (!spec) return spec.error();
  auto history = History(reader, instance, 0);
  if (!history) return history.error();
  for (uint64_t seq : *history) {
    if (seq < feed_begin) writer.batch.Delete(Key(writer.partition, kKept).Number(seq));
  }
  std::vector<Kind> kinds = {kHistory, /*mutant dropped-outputs-stay*/ kOutput /*end*/};
  if (instance.plan) kinds.insert(kinds.end(), {kStep, kStarts, kPlanned, kUnstarted});
  for (Kind kind : kinds) {
    const std::string begin = Key(reader.partition, kind).Of(instance);
    auto scanned =
        reader.view.Scan(begin, PrefixEnd(begin), [&](std::string_view key, std::string_view) {
          writer.batch.Delete(std::string(key));
          return true;
        });
    if (!scanned) return scanned;
  }
  for (const auto& [key, value] : spec->labels) {
    writer.batch.Delete(
        Key(writer.partition, kLabel).Text(instance.ns).Text(key).Text(value).Text(instance.id));
  }
  if (!instance.parent.empty()) {
    writer.batch.Delete(
        Key(writer.partition, kChildren).Text(instance.ns).Text(instance.parent).Text(instance.id));
  }
  if (instance.provenance) {
    writer.batch.Delete(Key(writer.partition, kMember)
                            .Text(instance.ns)
                            .Text(instance.provenance->group)
                            .Text(instance.id));
    writer.batch.Delete(Key(writer.partition, kByCause)
                            .Text(instance.ns)
                            .Text(instance.provenance->cause)
                            .Text(instance.id));
  }
  if (instance.plan && instance.plan->OwnsGraph()) {
    writer.batch.Delete(Key(writer.partition, kGraph).Of(instance));
  }
  DropBare(writer,
           {.ns = instance.ns, .id = instance.id, .at = expiry, .machine = instance.machine});
  return Ok{};
}

void DropExpiry(const Writer& writer, const Expired& expired) {
  writer.batch.Delete(ExpiryKey(writer.partition, expired.at, {expired.ns, expired.id}));
}

void DropBare(const Writer& writer, const Expired& expired) {
  /*mutant dropped-stays-indexed*/ writer.batch.Delete(Key(writer.partition, kByMachine)
                                                           .Text(expired.ns)
                                                           .Text(expired.machine)
                                                           .Text(expired.id)); /*end*/
  writer.batch.Delete(Key(writer.partition, kSpec).Of({expired.ns, expired.id}));
  writer.batch.Delete(Key(writer.partition, kStopped).Of({expired.ns, expired.id}));
  DropExpiry(writer, expired);
}

void Revive(const Writer& writer, InstanceName name, Timestamp expiry) {
  writer.batch.Delete(Key(writer.partition, kStopped).Of(name));
  writer.batch.Delete(ExpiryKey(writer.partition, expiry, name));
}

}  // namespace dfsmr::rows
