#include "storage/rows/trigger.h"

#include "storage/rows/keys.h"

namespace dfsmr::rows {
namespace {

// What follows the name in the key of a row: of gatherings their heads, of seen texts by text.
constexpr uint8_t kByText = 1;
constexpr uint8_t kByTime = 2;

Key NameKey(PartitionId partition, Kind kind, TriggerName name) {
  return std::move(Key(partition, kind).Text(name.ns).Text(name.name));
}
std::string GatheringKey(PartitionId partition, TriggerName name, uint64_t number) {
  return NameKey(partition, kGathering, name).Number(number);
}
// A text may hold any byte, so it ends its key.
std::string SeenKey(PartitionId partition, TriggerName name, std::string_view key) {
  return NameKey(partition, kSeen, name).Byte(kByText).bytes() + std::string(key);
}
std::string SeenAtKey(PartitionId partition, TriggerName name, Timestamp until,
                      std::string_view key) {
  Key at = NameKey(partition, kSeen, name);
  return at.Byte(kByTime).Number(static_cast<uint64_t>(Micros(until))).bytes() + std::string(key);
}

void Encode(const PollRow& row, record::Poll* out) {
  out->set_source(row.source);
  out->set_action(row.action);
  out->set_cursor(row.cursor);
  out->set_running(row.running);
  out->set_taken(row.taken);
  out->set_next(Micros(row.next));
  out->set_last(Micros(row.last));
  out->set_failures(row.failures);
  out->set_error(row.error);
  out->set_over(row.over);
}

PollRow Decode(const record::Poll& in) {
  return {in.source(),           in.action(),           in.cursor(),   in.running(), in.taken(),
          FromMicros(in.next()), FromMicros(in.last()), in.failures(), in.error(),
          in.over()};
}

Result<TriggerRow> DecodeTrigger(std::string_view key, std::string_view value) {
  record::Trigger in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("trigger", key);
  }
  TriggerRow row;
  row.deleted = in.deleted();
  row.since = in.since();
  row.position = in.position();
  row.following = in.following();
  row.filtered = in.filtered();
  row.duplicates = in.duplicates();
  row.gathered = in.gathered();
  row.polls = in.polls();
  row.gatherings = in.gatherings();
  row.failures = in.failures();
  row.paused = in.paused();
  row.note = in.note();
  row.paused_by = in.paused_by();
  row.pause_time = FromMicros(in.pause_time());
  for (const record::Poll& poll : in.poll()) row.poll.push_back(Decode(poll));
  row.changes = in.changes();
  row.begins = in.begins();
  row.round = in.round();
  for (const auto& one : in.rounds()) {
    row.rounds[static_cast<PartitionId>(one.partition())] = one.round();
  }
  return row;
}

}  // namespace

void PutTrigger(const Writer& writer, TriggerName name, const TriggerRow& row) {
  record::Trigger out;
  out.set_deleted(row.deleted);
  out.set_since(row.since);
  out.set_position(row.position);
  out.set_following(row.following);
  out.set_filtered(row.filtered);
  out.set_duplicates(row.duplicates);
  out.set_gathered(row.gathered);
  out.set_polls(row.polls);
  out.set_gatherings(row.gatherings);
  out.set_failures(row.failures);
  out.set_paused(row.paused);
  out.set_note(row.note);
  out.set_paused_by(row.paused_by);
  out.set_pause_time(Micros(row.pause_time));
  for (const PollRow& poll : row.poll) Encode(poll, out.add_poll());
  out.set_changes(row.changes);
  out.set_begins(row.begins);
  out.set_round(row.round);
  for (const auto& [partition, round] : row.rounds) {
    auto* const to = out.add_rounds();
    to->set_partition(partition);
    to->set_round(round);
  }
  writer.batch.Put(NameKey(writer.partition, kTrigger, name), out.SerializeAsString());
}

void DropTrigger(const Writer& writer, TriggerName name) {
  writer.batch.Delete(NameKey(writer.partition, kTrigger, name));
}

Result<std::optional<TriggerRow>> GetTrigger(const Reader& reader, TriggerName name) {
  const std::string key = NameKey(reader.partition, kTrigger, name);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<TriggerRow>();
  auto row = DecodeTrigger(key, **value);
  if (!row) return row.error();
  return std::optional(*std::move(row));
}

// The row without a name is that of PutFollowed.
Result<Ok> ScanTriggers(const Reader& reader,
                        const std::function<void(TriggerName, TriggerRow)>& visit) {
  const std::string begin = Key(reader.partition, kTrigger);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   if (key.size() == begin.size()) return true;
                   auto row = DecodeTrigger(key, value);
                   if (!row) return row.error();
                   KeyReader rest(key);
                   const std::string_view ns = rest.Text();
                   visit({ns, rest.Text()}, *std::move(row));
                   return true;
                 });
}

void PutFollowed(const Writer& writer, uint64_t seq) {
  PutNumber(writer, Key(writer.partition, kTrigger), seq);
}

Result<uint64_t> GetFollowed(const Reader& reader) {
  return GetNumber(reader, Key(reader.partition, kTrigger), 0);
}

void PutGathering(const Writer& writer, TriggerName name, const GatheringRow& row) {
  record::Gathering out;
  out.set_key(row.key);
  out.set_first(Micros(row.first));
  out.set_last(Micros(row.last));
  out.set_count(row.count);
  out.set_size(row.bytes);
  for (const std::string& source : row.sources) out.add_sources(source);
  writer.batch.Put(GatheringKey(writer.partition, name, row.number), out.SerializeAsString());
}

void PutGathered(const Writer& writer, TriggerName name, uint64_t gathering, uint64_t index,
                 const GatheredItem& item) {
  record::Gathered out;
  out.set_source(item.source);
  out.set_item(item.item);
  out.set_depth(item.depth);
  writer.batch.Put(NameKey(writer.partition, kGathered, name).Number(gathering).Number(index),
                   out.SerializeAsString());
}

void DropGathering(const Writer& writer, TriggerName name, uint64_t gathering) {
  writer.batch.Delete(GatheringKey(writer.partition, name, gathering));
  const std::string items = NameKey(writer.partition, kGathered, name).Number(gathering);
  writer.batch.DeleteRange(items, PrefixEnd(items));
}

void DropGatherings(const Writer& writer, TriggerName name) {
  for (Kind kind : {kGathering, kGathered}) {
    const std::string all = NameKey(writer.partition, kind, name);
    writer.batch.DeleteRange(all, PrefixEnd(all));
  }
}

Result<Ok> ScanGatherings(const Reader& reader, TriggerName name,
                          const std::function<void(GatheringRow)>& visit) {
  const std::string begin = NameKey(reader.partition, kGathering, name);
  return ScanAll(reader, begin, PrefixEnd(begin),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   record::Gathering in;
                   if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                     return Corrupt("gathering", key);
                   }
                   KeyReader rest(key);
                   rest.Text();
                   rest.Text();
                   visit({rest.Number(),
                          in.key(),
                          FromMicros(in.first()),
                          FromMicros(in.last()),
                          in.count(),
                          in.size(),
                          {in.sources().begin(), in.sources().end()}});
                   return true;
                 });
}

Result<std::vector<GatheredItem>> GetGathered(const Reader& reader, TriggerName name,
                                              uint64_t gathering) {
  std::vector<GatheredItem> items;
  const std::string begin = NameKey(reader.partition, kGathered, name).Number(gathering);
  auto scanned = ScanAll(reader, begin, PrefixEnd(begin),
                         [&](std::string_view key, std::string_view value) -> Result<bool> {
                           record::Gathered in;
                           if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
                             return Corrupt("item of a gathering", key);
                           }
                           items.push_back({in.source(), in.item(), in.depth()});
                           return true;
                         });
  if (!scanned) return scanned.error();
  return items;
}

void PutSeen(const Writer& writer, TriggerName name, std::string_view key, Timestamp until) {
  PutNumber(writer, SeenKey(writer.partition, name, key), static_cast<uint64_t>(Micros(until)));
  writer.batch.Put(SeenAtKey(writer.partition, name, until, key), "");
}

Result<std::optional<Timestamp>> GetSeen(const Reader& reader, TriggerName name,
                                         std::string_view key) {
  auto until = GetNumber(reader, SeenKey(reader.partition, name, key), 0);
  if (!until) return until.error();
  if (*until == 0) return std::optional<Timestamp>();
  return std::optional(FromMicros(static_cast<int64_t>(*until)));
}

// A text that has come again since has another time in its row, and stays.
Result<Ok> DropSeen(const Reader& reader, const Writer& writer, TriggerName name, Timestamp now,
                    size_t limit) {
  const std::string begin = NameKey(reader.partition, kSeen, name).Byte(kByTime);
  const std::string end = SeenAtKey(reader.partition, name, now, "");
  std::vector<std::string> due;
  auto scanned = reader.view.Scan(begin, end, [&](std::string_view key, std::string_view) {
    due.emplace_back(key);
    return due.size() < limit;
  });
  if (!scanned) return scanned;
  for (const std::string& key : due) {
    const std::string_view text = std::string_view(key).substr(begin.size() + 8);
    auto until = GetSeen(reader, name, text);
    if (!until) return until.error();
    writer.batch.Delete(key);
    if (*until && **until <= now) writer.batch.Delete(SeenKey(writer.partition, name, text));
  }
  return Ok{};
}

void DropAllSeen(const Writer& writer, TriggerName name) {
  const std::string all = NameKey(writer.partition, kSeen, name);
  writer.batch.DeleteRange(all, PrefixEnd(all));
}

}  // namespace dfsmr::rows
