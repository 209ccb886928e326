#include "storage/rows/occurrence.h"

#include <utility>

#include "fsm/when/calendar.h"
#include "storage/rows/keys.h"
#include "storage/rows/occurrence_heads.h"

namespace dfsmr::rows {
namespace {

// What the rows of kOccurrenceIndex are, by the byte behind the kind.
constexpr uint8_t kHead = 0x01;
constexpr uint8_t kById = 0x02;
constexpr uint8_t kDeadLetter = 0x03;
constexpr uint8_t kListed = 0x04;

Key Of(Key key, DocumentName of) {
  return std::move(key.Text(of.ns).Byte(static_cast<uint8_t>(of.kind)).Text(of.name));
}
Key RowsOf(PartitionId partition, DocumentName of) {
  return Of(Key(partition, kOccurrence), of);
}
Key IndexOf(PartitionId partition, uint8_t index, DocumentName of) {
  return Of(std::move(Key(partition, kOccurrenceIndex).Byte(index)), of);
}
Key ListedAt(PartitionId partition, Timestamp at) {
  return std::move(Key(partition, kOccurrenceIndex)
                       .Byte(kListed)
                       .Number(static_cast<uint64_t>(Micros(at))));
}
std::string ListedKey(PartitionId partition, DocumentName of, const Occurrence& one) {
  return Of(ListedAt(partition, one.note_time), of).Number(one.number);
}

// The number that stands in a key behind so many bytes.
uint64_t NumberAt(std::string_view key, size_t prefix) {
  uint64_t number = 0;
  for (char c : key.substr(prefix, 8)) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

std::optional<Occurrence> Decode(std::string_view value) {
  record::Occurrence in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) return std::nullopt;
  if (in.kind() > static_cast<uint32_t>(OccurrenceKind::kBackfill) ||
      in.outcome() > static_cast<uint32_t>(OccurrenceOutcome::kDuplicate)) {
    return std::nullopt;
  }
  Occurrence one;
  one.id = std::move(*in.mutable_id());
  one.version = in.version();
  one.kind = static_cast<OccurrenceKind>(in.kind());
  one.time = FromMicros(in.time());
  one.until_time = FromMicros(in.until_time());
  one.count = in.count();
  one.note_time = FromMicros(in.note_time());
  one.decide_time = FromMicros(in.decide_time());
  one.outcome = static_cast<OccurrenceOutcome>(in.outcome());
  one.error = std::move(*in.mutable_error());
  one.instance = std::move(*in.mutable_instance());
  one.tries = in.tries();
  one.item = std::move(*in.mutable_item());
  one.given = std::move(*in.mutable_given());
  return one;
}

std::string Encode(const Occurrence& one) {
  record::Occurrence out;
  out.set_id(one.id);
  out.set_version(one.version);
  out.set_kind(static_cast<uint32_t>(one.kind));
  out.set_time(Micros(one.time));
  out.set_until_time(Micros(one.until_time));
  out.set_count(one.count);
  out.set_note_time(Micros(one.note_time));
  out.set_decide_time(Micros(one.decide_time));
  out.set_outcome(static_cast<uint32_t>(one.outcome));
  out.set_error(one.error);
  out.set_instance(one.instance);
  out.set_tries(one.tries);
  out.set_item(one.item);
  out.set_given(one.given);
  return out.SerializeAsString();
}

Result<OccurrenceHead> DecodeOccurrenceHead(std::string_view key, std::string_view value) {
  record::OccurrenceHead in;
  if (!in.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    return Corrupt("count of occurrences", key);
  }
  return OccurrenceHead{in.count(), in.failed(), in.lost(), in.last(), in.listed(), in.oldest()};
}

}  // namespace

void PutOccurrenceHead(const Writer& writer, DocumentName of, const OccurrenceHead& head) {
  record::OccurrenceHead out;
  out.set_count(head.count);
  out.set_failed(head.failed);
  out.set_lost(head.lost);
  out.set_last(head.last);
  out.set_listed(head.listed);
  out.set_oldest(head.oldest);
  writer.batch.Put(IndexOf(writer.partition, kHead, of), out.SerializeAsString());
}

Result<OccurrenceHead> GetOccurrenceHead(const Reader& reader, DocumentName of) {
  const std::string key = IndexOf(reader.partition, kHead, of);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return OccurrenceHead{};
  return DecodeOccurrenceHead(key, **value);
}

Result<Ok> ScanOccurrenceHeads(
    const Reader& reader, const std::function<void(const std::string& ns, const std::string& cause,
                                                   const OccurrenceHead& head)>& visit) {
  const Key heads = std::move(Key(reader.partition, kOccurrenceIndex).Byte(kHead));
  return ScanAll(reader, heads.bytes(), PrefixEnd(heads.bytes()),
                 [&](std::string_view key, std::string_view value) -> Result<bool> {
                   auto head = DecodeOccurrenceHead(key, value);
                   if (!head) return head.error();
                   KeyReader rest(key);
                   rest.Number(1);
                   const std::string ns(rest.Text());
                   const auto kind = static_cast<DocumentKind>(rest.Number(1));
                   visit(ns, std::string(Name(kind)) + ":" + std::string(rest.Text()), *head);
                   return true;
                 });
}

void PutOccurrence(const Writer& writer, DocumentName of, const Occurrence& one,
                   const Occurrence* before) {
  const bool failed = one.outcome == OccurrenceOutcome::kFailed;
  const bool had_failed = before && before->outcome == OccurrenceOutcome::kFailed;
  writer.batch.Put(RowsOf(writer.partition, of).Number(one.number), Encode(one));
  if (!before) {
    PutNumber(writer, IndexOf(writer.partition, kById, of).Text(one.id), one.number);
    writer.batch.Put(ListedKey(writer.partition, of, one), "");
  }
  const std::string letter = IndexOf(writer.partition, kDeadLetter, of).Number(one.number);
  if (failed && !had_failed) writer.batch.Put(letter, "");
  if (!failed && had_failed) writer.batch.Delete(letter);
}

void DropOccurrence(const Writer& writer, DocumentName of, const Occurrence& one) {
  writer.batch.Delete(RowsOf(writer.partition, of).Number(one.number));
  writer.batch.Delete(IndexOf(writer.partition, kById, of).Text(one.id));
  writer.batch.Delete(ListedKey(writer.partition, of, one));
  if (one.outcome == OccurrenceOutcome::kFailed) {
    writer.batch.Delete(IndexOf(writer.partition, kDeadLetter, of).Number(one.number));
  }
}

Result<std::optional<Occurrence>> GetOccurrence(const Reader& reader, DocumentName of,
                                                uint64_t number) {
  const std::string key = RowsOf(reader.partition, of).Number(number);
  auto value = reader.view.Get(key);
  if (!value) return value.error();
  if (!*value) return std::optional<Occurrence>();
  auto one = Decode(**value);
  if (!one) return Corrupt("occurrence", key);
  one->number = number;
  return one;
}

Result<uint64_t> FindOccurrence(const Reader& reader, DocumentName of, std::string_view id) {
  return GetNumber(reader, IndexOf(reader.partition, kById, of).Text(id), 0);
}

Result<bool> WasSent(const Reader& reader, DocumentName of, Timestamp time) {
  const std::string stamp = StampText(time);
  for (uint64_t run = 1;; ++run) {
    auto number = FindOccurrence(reader, of, run == 1 ? stamp : stamp + "." + std::to_string(run));
    if (!number) return number.error();
    if (*number == 0) return false;
    auto one = GetOccurrence(reader, of, *number);
    if (!one) return one.error();
    if (*one && (*one)->outcome == OccurrenceOutcome::kSent &&
        (*one)->kind != OccurrenceKind::kManual) {
      return true;
    }
  }
}

Result<Ok> ScanOccurrences(const Reader& reader, DocumentName of, uint64_t before,
                           const std::function<bool(Occurrence)>& visit) {
  const Key rows = RowsOf(reader.partition, of);
  Result<Ok> outcome = Ok{};
  auto read = [&](std::string_view key, std::string_view value) {
    auto one = Decode(value);
    if (!one) {
      outcome = Corrupt("occurrence", key);
      return false;
    }
    KeyReader number(key);
    number.Text();
    number.Number(1);
    number.Text();
    one->number = number.Number();
    return visit(*std::move(one));
  };
  const std::string end = before == UINT64_MAX ? PrefixEnd(rows.bytes())
                                               : std::string(Key(rows).Number(before));
  auto scanned = reader.view.Scan(rows.bytes(), end, read, true);
  return scanned ? outcome : scanned;
}

Result<std::vector<uint64_t>> ScanFailed(const Reader& reader, DocumentName of, size_t limit) {
  std::vector<uint64_t> numbers;
  const Key letters = IndexOf(reader.partition, kDeadLetter, of);
  const size_t prefix = letters.bytes().size();
  auto scanned = reader.view.Scan(letters.bytes(), PrefixEnd(letters.bytes()),
                                  [&](std::string_view key, std::string_view) {
                                    if (numbers.size() >= limit) return false;
                                    numbers.push_back(NumberAt(key, prefix));
                                    return true;
                                  });
  if (!scanned) return scanned.error();
  return numbers;
}

Result<uint64_t> OldestDelivered(const Reader& reader, DocumentName of, uint64_t from,
                                 uint64_t but) {
  const Key rows = RowsOf(reader.partition, of);
  const size_t prefix = rows.bytes().size();
  uint64_t oldest = 0;
  Result<Ok> outcome = Ok{};
  auto read = [&](std::string_view key, std::string_view value) {
    const uint64_t number = NumberAt(key, prefix);
    if (number == but) return true;
    auto one = Decode(value);
    if (!one) {
      outcome = Corrupt("occurrence", key);
      return false;
    }
    if (one->outcome == OccurrenceOutcome::kFailed) return true;
    oldest = number;
    return false;
  };
  auto scanned =
      reader.view.Scan(std::string(Key(rows).Number(from)), PrefixEnd(rows.bytes()), read);
  if (!scanned) return scanned.error();
  if (!outcome) return outcome.error();
  return oldest;
}

Result<uint64_t> CountListed(const Reader& reader, DocumentName of) {
  const Key rows = RowsOf(reader.partition, of);
  uint64_t count = 0;
  auto scanned = reader.view.Scan(rows.bytes(), PrefixEnd(rows.bytes()),
                                  [&count](std::string_view, std::string_view) {
                                    ++count;
                                    return true;
                                  });
  if (!scanned) return scanned.error();
  return count;
}

Result<std::vector<ListedOccurrence>> ScanListed(const Reader& reader, Timestamp from,
                                                 Timestamp until, size_t limit) {
  std::vector<ListedOccurrence> listed;
  auto read = [&](std::string_view key, std::string_view) {
    KeyReader parts(key);
    parts.Number(1);
    ListedOccurrence one;
    one.at = FromMicros(static_cast<int64_t>(parts.Number()));
    one.ns = parts.Text();
    one.kind = static_cast<DocumentKind>(parts.Number(1));
    one.name = parts.Text();
    one.number = parts.Number();
    listed.push_back(std::move(one));
    return listed.size() < limit;
  };
  auto scanned = reader.view.Scan(ListedAt(reader.partition, from).bytes(),
                                  ListedAt(reader.partition, until).bytes(), read);
  if (!scanned) return scanned.error();
  return listed;
}

}  // namespace dfsmr::rows
