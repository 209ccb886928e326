#include "storage/rows/space.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

constexpr size_t kOneByOne = 200;  // rows of a kind; more are dropped by their range

// All kinds whose keys begin with a namespace. What is not here begins with a time or a number
// (feed, kept, expiry, the times of occurrences), has an id of its own (credentials), or is of the
// whole partition.
constexpr Kind kOfNamespaces[] = {
    kMachine,      kLive,          kStopped,          kSpec,           kOutput,     kHistory,
    kLabel,        kByMachine,     kChildren,         kStats,          kStep,       kGraph,
    kSharedGraph,  kStarts,        kPlanned,          kUnstarted,      kDropped,    kDocument,
    kDocumentText, kOccurrence,    kSchedule,         kTrigger,        kGathering,  kGathered,
    kSeen,         kLimitOverride, kLimitRate,        kAgent,          kLeftover,   kGroupHead,
    kMember,       kByCause,       kPackage,          kPackageVersion, kActivation, kPackagePiece,
    kPackageText,  kTrustedKey,    kPackageSignature, kPackageDefined, kSecret,     kSealedSecret,
    kLimitAsker,   kFollower,
    kGuest,        kTold,          kEmptied,           kCounted};
// Of the index of occurrences: the bytes that are followed by a namespace.
constexpr uint8_t kIndexed[] = {0x01, 0x02, 0x03, 0x05};

std::vector<std::string> PrefixesOf(PartitionId partition, std::string_view ns) {
  std::vector<std::string> prefixes;
  for (Kind kind : kOfNamespaces) prefixes.push_back(Key(partition, kind).Text(ns));
  for (uint8_t byte : kIndexed) {
    prefixes.push_back(Key(partition, kOccurrenceIndex).Byte(byte).Text(ns));
  }
  return prefixes;
}

void ToRecord(const Quotas& quotas, record::NamespaceQuotas* out) {
  if (quotas.live_instances) out->set_live_instances(*quotas.live_instances);
  if (quotas.ready_tasks) out->set_ready_tasks(*quotas.ready_tasks);
  if (quotas.definitions) out->set_definitions(*quotas.definitions);
  if (quotas.package_bytes) out->set_package_bytes(*quotas.package_bytes);
  if (quotas.starts_per_second) out->set_starts_per_second(*quotas.starts_per_second);
  if (quotas.retention) out->set_retention(quotas.retention->count());
}

Quotas QuotasOf(const record::NamespaceQuotas& in) {
  Quotas quotas;
  if (in.has_live_instances()) quotas.live_instances = in.live_instances();
  if (in.has_ready_tasks()) quotas.ready_tasks = in.ready_tasks();
  if (in.has_definitions()) quotas.definitions = in.definitions();
  if (in.has_package_bytes()) quotas.package_bytes = in.package_bytes();
  if (in.has_starts_per_second()) quotas.starts_per_second = in.starts_per_second();
  if (in.has_retention()) quotas.retention = Duration(in.retention());
  return quotas;
}

Result<SpaceRow> DecodeSpace(std::string_view key, std::string_view value) {
  record::Namespace in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size())) || in.state() == 0 ||
      in.state() > static_cast<uint32_t>(SpaceState::kDeleted)) {
    return Corrupt("namespace", key);
  }
  SpaceRow row;
  row.state = static_cast<SpaceState>(in.state());
  row.description = in.description();
  row.labels = {in.labels().begin(), in.labels().end()};
  row.require_signatures = in.require_signatures();
  row.quotas = QuotasOf(in.quotas());
  row.create_time = FromMicros(in.create_time());
  row.created_by = in.created_by();
  row.drain_until = FromMicros(in.drain_until());
  row.feed_floor = in.feed_floor();
  for (const auto& cap : in.caps()) {
    row.caps.emplace_back(FromMicros(cap.since()), Duration(cap.retention()));
  }
  return row;
}

}  // namespace

void PutSpace(const Writer& writer, std::string_view ns, const SpaceRow& row) {
  record::Namespace out;
  out.set_state(static_cast<uint32_t>(row.state));
  out.set_description(row.description);
  out.mutable_labels()->insert(row.labels.begin(), row.labels.end());
  out.set_require_signatures(row.require_signatures);
  if (row.quotas != Quotas()) ToRecord(row.quotas, out.mutable_quotas());
  out.set_create_time(Micros(row.create_time));
  out.set_created_by(row.created_by);
  out.set_drain_until(Micros(row.drain_until));
  out.set_feed_floor(row.feed_floor);
  for (const auto& [since, retention] : row.caps) {
    record::RetentionCap* cap = out.add_caps();
    cap->set_since(Micros(since));
    cap->set_retention(retention.count());
  }
  writer.batch.Put(Key(writer.partition, kSpace).Text(ns), out.SerializeAsString());
}

Result<Ok> ScanSpaces(const Reader& reader,
                      const std::function<void(std::string_view ns, SpaceRow row)>& visit) {
  const std::string begin = Key(reader.partition, kSpace);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto row = DecodeSpace(key, value);
                   if (!row) return row.error();
                   KeyReader parts(key);
                   visit(parts.Text(), *std::move(row));
                   return true;
                 });
}

Result<std::set<std::string>> NamespacesInUse(const Reader& reader) {
  std::set<std::string> found;
  for (Kind kind : {kMachine, kDocument, kLive, kStopped}) {
    std::string begin = Key(reader.partition, kind);
    const std::string end = PrefixEnd(begin);
    for (bool more = true; more;) {
      more = false;
      std::string ns;
      auto scanned = reader.view.Scan(begin, end, [&](std::string_view key, std::string_view) {
        ns = KeyReader(key).Text();
        more = true;
        return false;
      });
      if (!scanned) return scanned.error();
      if (!more) break;
      begin = PrefixEnd(Key(reader.partition, kind).Text(ns).bytes());
      found.insert(std::move(ns));
    }
  }
  return found;
}

Result<Ok> DropNamespaceRows(const Reader& reader, const Writer& writer, std::string_view ns) {
  for (const std::string& prefix : PrefixesOf(reader.partition, ns)) {
    std::vector<std::string> keys;
    auto scanned =
        reader.view.Scan(prefix, PrefixEnd(prefix), [&](std::string_view key, std::string_view) {
          keys.emplace_back(key);
          return keys.size() <= kOneByOne;
        });
    if (!scanned) return scanned;
    if (keys.size() > kOneByOne) {
      writer.batch.DeleteRange(prefix, PrefixEnd(prefix));
      continue;
    }
    for (std::string& key : keys) writer.batch.Delete(std::move(key));
  }
  return Ok{};
}

Result<bool> HasNamespaceRows(const Reader& reader, std::string_view ns) {
  bool found = false;
  for (const std::string& prefix : PrefixesOf(reader.partition, ns)) {
    auto scanned =
        reader.view.Scan(prefix, PrefixEnd(prefix), [&](std::string_view, std::string_view) {
          found = true;
          return false;
        });
    if (!scanned) return scanned.error();
  }
  return found;
}

void PutEmptied(const Writer& writer, std::string_view ns, PartitionId from, Timestamp made) {
  PutNumber(writer, Key(writer.partition, kEmptied).Text(ns).Partition(from),
            static_cast<uint64_t>(Micros(made)));
}

Result<Ok> ScanEmptied(
    const Reader& reader,
    const std::function<void(std::string ns, PartitionId from, Timestamp made)>& visit) {
  const std::string begin = Key(reader.partition, kEmptied);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto made = NumberIn(key, value);
                   if (!made) return made.error();
                   KeyReader parts(key);
                   std::string ns(parts.Text());
                   const auto from = static_cast<PartitionId>(parts.Number(2));
                   visit(std::move(ns), from, FromMicros(static_cast<int64_t>(*made)));
                   return true;
                 });
}

}  // namespace dfsmr::rows
