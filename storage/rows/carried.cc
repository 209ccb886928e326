#include "storage/rows/carried.h"

#include <algorithm>

#include "storage/rows/keys.h"

namespace dfsmr::rows {

namespace {

// Another number when rows change so that earlier ones mean something else.
constexpr std::string_view kCarriedHead = "dfsmr rows 1\n";
constexpr std::string_view kAnyHead = "dfsmr rows ";
constexpr size_t kRowMax = 256 << 20;

Error Bad(std::string why) { return {Code::kInvalidArgument, Reason::kBadArchive, std::move(why)}; }

constexpr Kind kParts[] = {kSpec, kOutput, kStep, kGraph, kStarts, kPlanned, kUnstarted};

// Hands over all rows of a kind whose keys begin with `prefix`, which names the namespace first.
Result<Ok> Carry(const Reader& reader, Kind kind, const Key& prefix, std::string_view ns,
                 const VisitCarried& visit) {
  const size_t skipped = Key(reader.partition, kind).Text(ns).bytes().size();
  return reader.view.ScanOnce(prefix.bytes(), PrefixEnd(prefix.bytes()),
                              [&](std::string_view key, std::string_view value) {
                                visit({kind, std::string(key.substr(skipped)), std::string(value)});
                                return true;
                              });
}

Result<Ok> CarryOne(const Reader& reader, Kind kind, std::string_view ns, std::string_view name,
                    const VisitCarried& visit) {
  const std::string key = Key(reader.partition, kind).Text(ns).Text(name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (*value) visit({kind, std::string(name) + '\0', **std::move(value)});
  return Ok{};
}

}  // namespace

CarriedRow::Of CarriedRow::of() const {
  switch (kind) {
    case kMachine:
      return Of::kVersion;
    case kSharedGraph:
      return Of::kGraph;
    case kGroupHead:
      return Of::kGroup;
    case kLimitOverride:
      return Of::kLimit;
    case kLive:
      return Of::kInstance;
    default:
      return Of::kPartOfInstance;
  }
}

std::string_view CarriedHead() { return kCarriedHead; }

std::string CarriedText(const CarriedRow& row) {
  std::string inside(1, static_cast<char>(row.kind));
  AppendVarint(row.key.size(), &inside);
  std::string text;
  AppendVarint(inside.size() + row.key.size() + row.value.size(), &text);
  return text + inside + row.key + row.value;
}

namespace {

bool MayBeCarried(uint8_t kind) {
  return kind == kMachine || kind == kSharedGraph || kind == kGroupHead || kind == kLive ||
         kind == kLimitOverride ||
         std::ranges::find(kParts, static_cast<Kind>(kind)) != std::end(kParts);
}

// What stands behind the name in a key of this kind: numbers, or another text.
bool KeyIsSound(const CarriedRow& row) {
  const size_t end = row.key.find('\0');
  if (end == 0 || end == std::string::npos) return false;
  const std::string_view rest = std::string_view(row.key).substr(end + 1);
  switch (row.kind) {
    case kMachine:
    case kStep:
    case kStarts:
      return rest.size() == 4;
    case kUnstarted:
      return rest.size() == 12;
    case kOutput:
    case kPlanned:
      return rest.size() > 1 && rest.find('\0') == rest.size() - 1;
    default:
      return rest.empty();
  }
}

std::optional<CarriedRow> RowIn(std::string_view text) {
  if (text.empty()) return std::nullopt;
  CarriedRow row;
  row.kind = static_cast<uint8_t>(text.front());
  text.remove_prefix(1);
  const auto key = TakeVarint(&text, 35);
  if (!key || *key > text.size()) return std::nullopt;
  row.key = text.substr(0, *key);
  row.value = text.substr(*key);
  if (!MayBeCarried(row.kind) || !KeyIsSound(row)) return std::nullopt;
  return row;
}

}  // namespace

Result<Ok> CarriedReader::Feed(std::string_view bytes) {
  rest_ += bytes;
  std::string_view left = rest_;
  if (!begun_) {
    const size_t known = std::min(left.size(), kCarriedHead.size());
    if (left.substr(0, known) != kCarriedHead.substr(0, known)) {
      return Bad(left.starts_with(kAnyHead)
                     ? "its rows are of another format of the store, and this server reads " +
                           OneLineHead() + ": export with a server of the same version"
                     : "it holds no rows of a store");
    }
    if (left.size() < kCarriedHead.size()) return Ok{};
    begun_ = true;
    left.remove_prefix(kCarriedHead.size());
  }
  while (!left.empty()) {
    std::string_view after = left;
    const auto size = TakeVarint(&after, 35);
    if (!size && left.size() < 5) break;  // more of it is to come
    if (!size || *size > kRowMax) return Bad("a row is damaged");
    if (after.size() < *size) break;
    auto row = RowIn(after.substr(0, *size));
    if (!row) return Bad("a row is damaged");
    if (auto taken = visit_(*std::move(row)); !taken) return taken;
    left = after.substr(*size);
  }
  rest_.erase(0, rest_.size() - left.size());
  return Ok{};
}

std::string CarriedReader::OneLineHead() {
  return std::string(kCarriedHead.substr(0, kCarriedHead.size() - 1));
}

Result<Ok> CarriedReader::Finish() const {
  if (begun_ && rest_.empty()) return Ok{};
  return Bad(begun_ ? "it ends in the middle of a row" : "it holds no rows of a store");
}

Result<Ok> CarryVersions(const Reader& reader, std::string_view ns, std::string_view machine,
                         uint32_t from, const VisitCarried& visit) {
  const Key prefix = Key(reader.partition, kMachine).Text(ns).Text(machine);
  return Carry(reader, kMachine, prefix, ns, [&](CarriedRow row) {
    const std::string padded = "   " + row.key.substr(machine.size() + 1);
    if (KeyReader(padded).Number(4) >= from) visit(std::move(row));
  });
}

Result<Ok> CarryGraph(const Reader& reader, std::string_view ns, std::string_view name,
                      const VisitCarried& visit) {
  return CarryOne(reader, kSharedGraph, ns, name, visit);
}

Result<Ok> CarryGroup(const Reader& reader, std::string_view ns, std::string_view name,
                      const VisitCarried& visit) {
  return CarryOne(reader, kGroupHead, ns, name, visit);
}

Result<Ok> CarryLimits(const Reader& reader, std::string_view ns, const VisitCarried& visit) {
  return Carry(reader, kLimitOverride, Key(reader.partition, kLimitOverride).Text(ns), ns, visit);
}

Result<Ok> CarryInstance(const Reader& reader, InstanceName name, bool bare,
                         const VisitCarried& visit) {
  if (auto own = CarryOne(reader, kLive, name.ns, name.id, visit); !own) return own;
  if (bare) return CarryOne(reader, kSpec, name.ns, name.id, visit);
  for (Kind kind : kParts) {
    const Key prefix = Key(reader.partition, kind).Of(name);
    if (auto part = Carry(reader, kind, prefix, name.ns, visit); !part) return part;
  }
  return Ok{};
}

CarriedRow GraphCarried(const std::string& name, const std::string& value) {
  return {kSharedGraph, name + '\0', value};
}

static std::string KeyIn(PartitionId partition, std::string_view ns, const CarriedRow& row) {
  return Key(partition, static_cast<Kind>(row.kind)).Text(ns).bytes() + row.key;
}

void PutCarried(const Writer& writer, std::string_view ns, const CarriedRow& row) {
  writer.batch.Put(KeyIn(writer.partition, ns, row), row.value);
}

void DropCarried(const Writer& writer, std::string_view ns, const CarriedRow& row) {
  writer.batch.Delete(KeyIn(writer.partition, ns, row));
}

Result<MachineRow> VersionIn(std::string_view ns, const CarriedRow& row) {
  record::Machine in;
  if (!in.ParseFromString(row.value)) return Bad("a version of a machine is damaged");
  const std::string padded = "   " + row.key;
  KeyReader parts(padded);
  MachineRow out;
  out.ns = ns;
  out.id = parts.Text();
  out.version = static_cast<uint32_t>(parts.Number(4));
  out.source = in.source();
  out.define_time = FromMicros(in.define_time());
  out.package = in.package();
  out.package_version = in.package_version();
  out.candidate = in.candidate();
  out.retired = in.retired();
  out.graph = in.graph();
  return out;
}

Result<CarriedRow> OfPackageVersion(CarriedRow row, const std::string& package_version) {
  record::Machine machine;
  if (!machine.ParseFromString(row.value)) return Bad("a version of a machine is damaged");
  machine.set_package_version(package_version);
  row.value = machine.SerializeAsString();
  return row;
}

Result<GroupRow> GroupIn(const CarriedRow& row) {
  auto group = DecodeGroup(row.key, row.value);
  if (!group) return Bad("a group is damaged");
  return group;
}

Result<LimitOverride> LimitIn(const CarriedRow& row) {
  auto override = DecodeLimitOverride(row.value);
  if (!override) return Bad("the numbers of a limit are damaged");
  return *std::move(override);
}

Result<CarriedStart> StartIn(const std::vector<CarriedRow>& rows) {
  record::Instance instance;
  record::Spec spec;
  const auto of = std::ranges::find(rows, kSpec, &CarriedRow::kind);
  if (rows.empty() || of == rows.end() || !instance.ParseFromString(rows.front().value) ||
      !spec.ParseFromString(of->value)) {
    return Bad("an instance is damaged");
  }
  return CarriedStart{instance.machine(), spec.params()};
}

Result<std::optional<std::string>> GetSharedGraph(const Reader& reader, std::string_view ns,
                                                  std::string_view name) {
  return reader.view.Get(Key(reader.partition, kSharedGraph).Text(ns).Text(name).bytes());
}

}  // namespace dfsmr::rows
