#include "storage/rows/spread.h"

#include <algorithm>
#include <optional>

#include "storage/rows/bulk.h"
#include "storage/rows/encoding.h"
#include "storage/rows/feed.h"
#include "storage/rows/keys.h"
#include "storage/rows/kinds.h"
#include "storage/rows/machine.h"
#include "storage/rows/message.h"
#include "storage/rows/past.h"
#include "storage/rows/records.h"
#include "storage/rows/space.h"
#include "storage/rows/under_way.h"

namespace dfsmr::rows {
namespace {

// Namespaces and ids have no zero bytes.
uint64_t HashOf(InstanceName name) { return PlaceHash(name.ns, std::string(name.id) + "\x01"); }

}  // namespace

void PutCopied(const Writer& writer, const Copied& copied) {
  writer.batch.Put(Key(writer.partition, kCopied).Number(copied.step), copied.up_to);
  if (copied.step > 1) DropCopied(writer, copied.step - 1);
}

void DropCopied(const Writer& writer, uint64_t step) {
  writer.batch.Delete(Key(writer.partition, kCopied).Number(step));
}

Result<Copied> GetCopied(const Reader& reader) {
  Copied copied;
  const std::string begin = Key(reader.partition, kCopied);
  auto read = ScanAll(reader, begin, PrefixEnd(begin),
                      [&](std::string_view key, std::string_view value) -> Result<bool> {
                        copied = {KeyReader(key).Number(), std::string(value)};
                        return true;
                      });
  return read ? Result<Copied>(std::move(copied)) : read.error();
}

bool IsOfCopied(std::string_view key) {
  return key.size() > sizeof(PartitionId) && KindOf(key) == kCopied;
}

Result<Ok> Spread::Begin() {
  auto last = LastSeq(source_);
  if (!last) return last.error();
  last_ = *last;
  return ScanMachines(source_, [this](const MachineRow& row) {
    if (!row.package.empty()) packaged_.emplace(row.ns, row.id, row.version);
  });
}

// Workers may have given children other ids than those that lie where their parent does.
static Result<std::optional<Error>> FindLostChild(const Reader& source, uint16_t partitions) {
  std::optional<Error> why;
  const std::string begin = Key(source.partition, kChildren);
  auto read = ScanAll(source, begin, PrefixEnd(begin),
                      [&](std::string_view key, std::string_view) -> Result<bool> {
                        KeyReader parts(key);
                        const std::string ns(parts.Text());
                        const std::string parent(parts.Text());
                        const std::string child(parts.Text());
                        if (PartitionOf(ns, parent, partitions) ==
                            PartitionOf(ns, child, partitions)) {
                          return true;
                        }
                        auto lives = IsLive(source, {ns, parent});
                        if (!lives || !*lives) return lives ? Result<bool>(true) : lives.error();
                        why = UnderWay("'" + parent + "' of namespace '" + ns + "' has child '" +
                                           child + "', which would live in another partition",
                                       "wait until '" + parent + "' has stopped");
                        return false;
                      });
  return read ? Result<std::optional<Error>>(std::move(why)) : read.error();
}

Result<Ok> Spread::MayMove(const Reader& source, uint16_t partitions) {
  std::optional<Error> why;
  auto read = ScanBulks(source, [&](BulkName name, const BulkRow& bulk) {
    if (bulk.state != BulkState::kRunning) return;
    why = UnderWay("bulk '" + std::string(name.id) + "' of namespace '" + std::string(name.ns) +
                       "' is under way",
                   "wait until it is done, or stop it");
  });
  if (!read) return read;
  read = ScanSpaces(source, [&](std::string_view ns, const SpaceRow& row) {
    if (row.state != SpaceState::kDraining && row.state != SpaceState::kDropping) return;
    why = UnderWay("namespace '" + std::string(ns) + "' is being deleted", "wait until it is gone");
  });
  if (!read || why) return read ? *why : read;
  auto lost = FindLostChild(source, partitions);
  if (!lost) return lost.error();
  return *lost ? Result<Ok>(**lost) : Ok{};
}

Result<Ok> Spread::Take(std::string_view key, std::string_view value) {
  const Kind kind = KindOf(key);
  switch (kind) {
    case kLive:
      return TakeLive(key, value);
    case kStopped:
      return TakeStopped(key, value);
    case kSpec:
      return TakeSpec(key, value);
    case kExpiry:
      return MoveExpiry(key, value), Ok{};
    case kFeed:
      return TakePage(key, value);
    case kKept:
      return TakeKept(key, value);
    case kSharedGraph:
      return TakeGraph(key, value);
    case kDropped:
      return TakeDropped(key, value);
    case kGroupHead:
      return TakeGroup(key, value);
    case kAgent:
      return TakeAgent(key, value);
    case kLeftover:
      return TakeLeftover(key, value);
    case kCopied:
      return Ok{};
    case kClock:
      return MoveToAll(key, value), Ok{};
    default: {
      const auto before = TextsBeforeInstance(kind);
      const PartitionId place = before ? PlaceOf(InstanceIn(key, *before)) : kHome;
      return MoveTo(place, key, value), Ok{};
    }
  }
}

// Where rows go -----------------------------------------------------------------------------------

void Spread::MoveTo(PartitionId partition, std::string_view key, std::string_view value) {
  std::string moved(key);
  moved[0] = static_cast<char>(partition >> 8);
  moved[1] = static_cast<char>(partition);
  put_(std::move(moved), std::string(value));
}

void Spread::MoveToAll(std::string_view key, std::string_view value) {
  for (PartitionId id = 0; id < partitions_; ++id) MoveTo(id, key, value);
}

void Spread::MoveExpiry(std::string_view key, std::string_view value) {
  KeyReader parts(key);
  parts.Number();
  const std::string_view ns = parts.Text();
  MoveTo(PlaceOf({ns, parts.Text()}), key, value);
}

void Spread::PutEach(const Batch& batch, const Put& put) {
  for (const Batch::Operation& one : batch.operations()) {
    if (one.kind == Batch::Operation::Kind::kPut) put(one.key, one.value);
  }
}

// Instances ---------------------------------------------------------------------------------------

Result<Ok> Spread::TakeLive(std::string_view key, std::string_view value) {
  KeyReader parts(key);
  const std::string_view ns = parts.Text();
  const InstanceName name(ns, parts.Text());
  const PartitionId place = PlaceOf(name);
  MoveTo(place, key, value);
  if (auto resting = RestingIn(value)) {
    resting->ns = name.ns;
    resting->id = name.id;
    return visit_.resting(*resting, place);
  }
  auto instance = DecodeInstance(source_, name, key, value, resolve_);
  if (!instance) return instance.error();
  Note(*instance, place);
  for (const Instance::Prerequisite& one : instance->after) {
    if (PlaceOf({ns, one.instance}) == place) continue;
    followers_.insert({instance->ns, one.instance, instance->id});
  }
  return visit_.other(*instance, place);
}

Result<Ok> Spread::TakeStopped(std::string_view key, std::string_view value) {
  KeyReader parts(key);
  const std::string_view ns = parts.Text();
  const InstanceName name(ns, parts.Text());
  const PartitionId place = PlaceOf(name);
  MoveTo(place, key, value);
  auto instance = DecodeInstance(source_, name, key, value, resolve_);
  if (!instance) return instance.error();
  Note(*instance, place);
  if (place == kHome || instance->dry_run) return Ok{};
  const MachineName machine{instance->ns, instance->machine};
  StoppedCounts& counts = stopped_[machine][place][instance->version];
  ++counts.all;
  if (packaged_.contains({instance->ns, instance->machine, instance->version})) {
    ++counts.results[static_cast<size_t>(instance->result)];
  }
  return Ok{};
}

void Spread::Note(const Instance& instance, PartitionId place) {
  if (instance.plan && !instance.plan->graph.empty() && !instance.plan->OwnsGraph()) {
    graphs_[{instance.ns, instance.plan->graph}].insert(place);
  }
  const MemberShare share = ShareOf(instance);
  if (share.kind == MemberShare::Kind::kNone) return;
  Members& members = groups_[{instance.ns, instance.provenance->group}][place];
  members.all.Add(share);
  if (share.Stopped()) members.stopped.Add(share);
}

Result<Ok> Spread::TakeSpec(std::string_view key, std::string_view value) {
  auto spec = ParseRow<record::Spec>(key, value, "spec");
  if (!spec) return spec.error();
  KeyReader parts(key);
  const std::string_view ns = parts.Text();
  const InstanceName name(ns, parts.Text());
  born_.emplace_back(HashOf(name), spec->first_seq());
  MoveTo(PlaceOf(name), key, value);
  return Ok{};
}

std::optional<uint64_t> Spread::BornOf(InstanceName name) const {
  const auto found = std::ranges::lower_bound(born_, std::pair(HashOf(name), uint64_t{0}));
  if (found == born_.end() || found->first != HashOf(name)) return std::nullopt;
  return found->second;
}

// The feed ----------------------------------------------------------------------------------------

// It stays at home. What is of the histories of instances elsewhere is there, too, before the start
// of the feed that begins there.
Result<Ok> Spread::TakePage(std::string_view key, std::string_view value) {
  MoveTo(kHome, key, value);
  if (!std::exchange(sorted_, true)) std::ranges::sort(born_);
  Result<Ok> outcome = Ok{};
  std::map<PartitionId, FeedPage> pages;
  const FeedPage page{KeyReader(key).Number(), 0, std::string(value)};
  auto read = VisitEncoded(page, [&](uint64_t seq, std::string_view record) {
    auto place = PlaceOfRecord(seq, record, true);
    if (!place) outcome = place.error();
    if (!place || *place == kHome) return place.has_value();
    FeedPage& there = pages[*place];
    if (there.bytes.empty()) there = {seq, seq - 1, std::string(1, '\0')};
    there.bytes.append(seq - there.last - 1, '\0');  // empty ones
    AppendVarint(record.size(), &there.bytes);
    there.bytes += record;
    there.last = seq;
    return true;
  });
  if (!read || !outcome) return read ? outcome : read;
  for (auto& [id, there] : pages) {
    past_.try_emplace(id, there.first);
    put_(FeedKey(id, there.first), std::move(there.bytes));
  }
  return Ok{};
}

Result<Ok> Spread::TakeKept(std::string_view key, std::string_view value) {
  auto place = PlaceOfRecord(KeyReader(key).Number(), value, false);
  if (!place) return place.error();
  MoveTo(*place, key, value);
  return Ok{};
}

// Where the history is that has a record of the feed; home, if none has. Of an instance that was
// removed, and of another one that had its id before, none has.
Result<PartitionId> Spread::PlaceOfRecord(uint64_t seq, std::string_view record,
                                          bool in_feed) const {
  auto event = ParseRow<record::Event>(Key(kHome, kKept).Number(seq).bytes(), record,
                                    "record of the feed");
  if (!event) return event.error();
  const InstanceName name(event->ns(), event->instance());
  const bool named_only = event->kind() == static_cast<uint32_t>(ChangeKind::kOccurred);
  const PartitionId place = name.id.empty() || named_only ? kHome : PlaceOf(name);
  if (!in_feed || place == kHome) return place;
  const auto born = BornOf(name);
  return born && seq >= *born ? place : kHome;
}

// What several instances have ---------------------------------------------------------------------

Result<Ok> Spread::TakeGraph(std::string_view key, std::string_view value) {
  KeyReader parts(key);
  const std::string ns(parts.Text());
  const auto users = graphs_.find({ns, std::string(parts.Text())});
  if (users == graphs_.end()) return Ok{};
  for (const PartitionId id : users->second) MoveTo(id, key, value);
  return Ok{};
}

// Home goes on counting those of its own, and knows what the others have; these know that it does.
Result<Ok> Spread::TakeGroup(std::string_view key, std::string_view value) {
  auto home = DecodeGroup(key, value);
  if (!home) return home.error();
  KeyReader parts(key);
  const std::string ns(parts.Text());
  const std::string name(parts.Text());
  auto& members = groups_[{ns, name}];
  Batch batch;
  const bool closed = home->paused || home->order.Cancels();
  for (PartitionId id = 1; id < partitions_; ++id) {
    const auto known = members.find(id);
    if (known == members.end() && !closed) continue;
    GroupRow row{.create_time = home->create_time, .paused = home->paused, .order = home->order};
    if (known != members.end()) {
      row.counts = known->second.stopped;
      row.apart = known->second.all;
      Add(known->second.stopped, UINT64_MAX, &home->counts);  // minus one
      Add(known->second.all, 1, &home->apart);
    } else {
      row.order = {};  // there is nobody to follow it
    }
    PutGroup({batch, id}, {ns, name}, row);
  }
  PutGroup({batch, kHome}, {ns, name}, *home);
  PutEach(batch, put_);
  return Ok{};
}

// What an agent has done is added up over all partitions.
Result<Ok> Spread::TakeAgent(std::string_view key, std::string_view value) {
  auto agent = ParseRow<record::Agent>(key, value, "agent");
  if (!agent) return agent.error();
  MoveTo(kHome, key, value);
  agent->clear_done();
  agent->clear_failed();
  agent->clear_abandoned();
  const std::string elsewhere = Serialized(*agent);
  for (PartitionId id = 1; id < partitions_; ++id) MoveTo(id, key, elsewhere);
  return Ok{};
}

Result<Ok> Spread::TakeLeftover(std::string_view key, std::string_view value) {
  auto leftover = ParseRow<record::Leftover>(key, value, "leftover");
  if (!leftover) return leftover.error();
  const std::string ns(KeyReader(key).Text());
  MoveTo(PlaceOf({ns, leftover->instance()}), key, value);
  return Ok{};
}

Result<Ok> Spread::TakeDropped(std::string_view key, std::string_view value) {
  auto dropped = DroppedIn(key, value);
  if (!dropped) return dropped.error();
  KeyReader parts(key);
  const std::string ns(parts.Text());
  dropped_[{ns, std::string(parts.Text())}] = *std::move(dropped);
  return Ok{};
}

// In the end --------------------------------------------------------------------------------------

Result<Ok> Spread::Finish() {
  if (auto put = PutFollowers(); !put) return put;
  PutCounters();
  Batch batch;
  for (PartitionId id = 1; id < partitions_; ++id) {
    PutNumber({batch, id}, Key(id, kFeedStart), last_ + 1);
    PutStatsSeq({batch, id}, last_);
    if (past_.contains(id)) PutPastStart({batch, id}, past_.at(id));
  }
  PutEach(batch, put_);
  return Ok{};
}

// What has stopped is counted where it lives, and counts as removed at home. What else was counted
// stays there, since it is added up over all partitions.
void Spread::PutCounters() {
  Batch batch;
  for (const auto& [machine, places] : stopped_) {
    DroppedCounts& dropped = dropped_[machine];
    for (const auto& [id, versions] : places) {
      StatsRow row{.ns = machine.first, .machine = machine.second};
      for (const auto& [version, counts] : versions) {
        row.versions[version].stopped = counts;
        Add(counts, &dropped[version]);
      }
      PutStats({batch, id}, row);
    }
  }
  for (const auto& [machine, dropped] : dropped_) {
    PutDropped({batch, kHome}, machine.first, machine.second, dropped);
  }
  PutEach(batch, put_);
}

// That which they wait for knows of them. If it does not live any more, it is asked by a message,
// as at a start.
Result<Ok> Spread::PutFollowers() {
  Batch batch;
  std::map<std::pair<PartitionId, PartitionId>, uint64_t> sent;
  for (const Follower& one : followers_) {
    const InstanceName name(one.ns, one.instance);
    const PartitionId from = PlaceOf({one.ns, one.follower});
    const PartitionId there = PlaceOf(name);
    const uint64_t born = BornOf({one.ns, one.follower}).value_or(0);
    auto lives = IsLive(source_, name);
    if (!lives) return lives.error();
    if (*lives) {
      PutFollower({batch, there}, {one.ns, one.instance, one.follower, from, born});
    } else {
      const Message::Follow follow{one.ns, one.instance, one.follower, born};
      PutOut({batch, from}, there, ++sent[{from, there}], EncodeMessage({follow}));
    }
  }
  PutEach(batch, put_);
  return Ok{};
}

}  // namespace dfsmr::rows
