// The keys of rows, and what all sources that encode rows share. Included by the sources of this
// folder only: no other code knows how values are stored.
//
// A key is  partition (2 bytes, big endian) | kind (1 byte) | …  Texts in keys end with a zero byte
// (names and ids are printable), numbers are big endian, so that bytes sort as values do. Kinds are
// never reused.
//
//   0x00                                   reserved for the store (the epoch)
//   0x01 machine   ns machine version(4)   record.Machine
//   0x02 live      ns instance             record.Instance that has not stopped
//   0x03 stopped   ns instance             record.Instance that has stopped
//   0x04 spec      ns instance             record.Spec: params and labels, written once
//   0x05 output    ns instance node        the JSON object that the node's worker reported; of
//                                          NODE/worker: who reported its `ok`, if that is asked
//   0x06 feed      seq(8)                  a page of record.Event, from this number on
//   0x07 history   ns instance seq(8)      record.HistoryPage: numbers of its records in the feed
//   0x08 kept      seq(8)                  record.Event of a history, dropped from the feed
//   0x09 expiry    time(8) ns instance     record.Expiry: when a stopped instance may be removed
//   0x0A label     ns key value instance   index
//   0x0B machine's ns machine instance     index
//   0x0C children  ns parent instance      index
//   0x0D stats     ns machine              record.Stats
//   0x0E feed's start                      the lowest seq that the feed still holds (8)
//   0x0F stats' seq                        the last record that the stats rows account for (8)
//   0x10 step      ns instance home(4)     record.Step: a plan's token, a join, or how a step ended
//   0x11 graph     ns instance             record.Graph of one instance, made for its params
//   0x12 graphs    ns name                 record.Graph that instances share
//   0x13 starts    ns instance home(4)     record.Starts: the children that a worker asked for
//   0x14 planned   ns instance step        the flow that a planner reported
//   0x15 unstarted ns instance home(4) number(8)  a child that could not be started
//   0x16 credential id                     record.AccessToken
//   0x17 dropped   ns machine              record.Stats: how many stopped instances were dropped
//                                          since the stats row was written
//   0x18 document  ns kind(1) name         record.DocumentHead: of a schedule, trigger or limit
//   0x19 text      ns kind(1) name version(4)  record.Document
//   0x1A occurrence  ns kind(1) name number(8)  record.Occurrence of a schedule or trigger
//   0x1B schedule  ns name                 record.ScheduleState
//   0x1C occurrences' index, by its next byte:
//          0x01    ns kind(1) name         record.OccurrenceHead
//          0x02    ns kind(1) name id      the number (8) of the one with this id
//          0x03    ns kind(1) name number(8)  of one that is FAILED
//          0x04    time(8) ns kind(1) name number(8)  when it was listed
//          0x05    ns group                record.Backfill
//   0x1D trigger   ns name                 record.Trigger; without a name the last record of the
//   feed
//                                          that all triggers which follow it have looked at (8)
//   0x1E gathering ns trigger number(8)    record.Gathering
//   0x1F gathered  ns trigger number(8) index(8)  record.Gathered: an item of a gathering
//   0x20 seen      ns trigger 1 text       until when items with this text are duplicates (8)
//                  ns trigger 2 time(8) text   index: when that is over
//   0x21 limit     ns key                  record.LimitOverride: numbers that an operator has set
//   0x22 rate      ns key                  when the bucket of a limit's rate is full again (8)
//   0x23 asker     ns key                  record.LimitOverride: the numbers of the last that
//   asked,
//                                          where others have asked with other numbers
//   0x27 agent     ns name                 record.Agent
//   0x28 leftover  ns agent claim(8, 8)    record.Leftover: what an agent still holds of a visit
//   that is
//                                          over
//   0x31 namespace ns                     record.Namespace
//   0x30 clock                             record.Clock, of a partition whose clock is virtual
//   0x24 group     ns group                record.InstanceGroup
//   0x25 members   ns group instance       index
//   0x26 causes    ns cause instance       index: what a schedule or trigger has started
//   0x40 package   ns package              record.Package: which versions are in force
//   0x41 package's ns package version      record.PackageVersion: written last, when all is there
//   0x42 activation  ns package number(8)  record.PackageActivation
//   0x43 piece     ns epoch(8) upload(8) number(4)  of an archive, as it came
//   0x44 texts     ns epoch(8) upload(8) path  a file with documents, of the archive
//   0x45 trusted   ns fingerprint          record.TrustedKey: revoked ones, too
//   0x46 signature ns package version number(4)  record.PackageSignature
//   0x47 defined   ns package version      record.PackageDefined
//   0x50 secret    ns name                record.Secret: which versions there are
//   0x51 sealed    ns name version(4)     record.SealedSecret
//   0x60 bulk      ns bulk                 record.Bulk
//   0x70 out       to(2) number(8)         record.Message: what another partition is told
//   0x71 in        from(2)                 the number (8) of the last that was applied
//   0x72 follower  ns instance follower from(2)  the first record (8) of one that lives elsewhere,
//                                          and begins after the instance
//   0x73 guest     ns instance visit(8)    record.Message: at home, what one that lives elsewhere, or
//                                          a token of it, holds of limits or waits for
//   0x74 told      ns instance visit(8)    elsewhere, the number (8) of the last that home was told
//                                          of what an instance or a token holds or waits for
//   0x75 emptied   ns from(2)              at home: another partition has nothing left of a namespace
//                                          that is being deleted; when that was made (8)
//   0x76 counted   ns key partition(2)    record.Counted: at home for each other partition, and home
//                                          itself for all together; elsewhere for itself
//   0x77 copied    number(8)               of a copy that is being made: the last key of its source of
//                                          which the partition has all
//   0x78 past                              where the feed's pages before its start begin (8)
//
// A transition of a plain machine writes its instance's row and nothing else; the records of a
// whole turn share the pages of the feed. The history of an instance is the list of its records'
// numbers: the page being filled is part of the instance's row, and each full page has a row of its
// own.
//
// A page of the feed is a zero byte, then each record behind its length as a varint. A value that
// begins with another byte is a single record, as the feed was written before there were pages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fsm/base/hex.h"
#include "record.pb.h"
#include "storage/rows/reader.h"

namespace dfsmr::rows {

enum Kind : uint8_t {
  kMachine = 0x01,
  kLive = 0x02,
  kStopped = 0x03,
  kSpec = 0x04,
  kOutput = 0x05,
  kFeed = 0x06,
  kHistory = 0x07,
  kKept = 0x08,
  kExpiry = 0x09,
  kLabel = 0x0A,
  kByMachine = 0x0B,
  kChildren = 0x0C,
  kStats = 0x0D,
  kFeedStart = 0x0E,
  kStatsSeq = 0x0F,
  kStep = 0x10,
  kGraph = 0x11,
  kSharedGraph = 0x12,
  kStarts = 0x13,
  kPlanned = 0x14,
  kUnstarted = 0x15,
  kCredential = 0x16,
  kDropped = 0x17,
  kDocument = 0x18,
  kDocumentText = 0x19,
  kOccurrence = 0x1A,
  kSchedule = 0x1B,
  kOccurrenceIndex = 0x1C,
  kTrigger = 0x1D,
  kGathering = 0x1E,
  kGathered = 0x1F,
  kSeen = 0x20,
  kLimitOverride = 0x21,
  kLimitRate = 0x22,
  kLimitAsker = 0x23,
  kAgent = 0x27,
  kLeftover = 0x28,
  kClock = 0x30,
  kSpace = 0x31,
  kGroupHead = 0x24,
  kMember = 0x25,
  kByCause = 0x26,
  kPackage = 0x40,
  kPackageVersion = 0x41,
  kActivation = 0x42,
  kPackagePiece = 0x43,
  kPackageText = 0x44,
  kTrustedKey = 0x45,
  kPackageSignature = 0x46,
  kPackageDefined = 0x47,
  kSecret = 0x50,
  kSealedSecret = 0x51,
  kBulk = 0x60,
  kOut = 0x70,
  kIn = 0x71,
  kFollower = 0x72,
  kGuest = 0x73,
  kTold = 0x74,
  kEmptied = 0x75,
  kCounted = 0x76,
  kCopied = 0x77,
  kPast = 0x78,
};

// Builds keys: Key(partition, kind).Text(ns).Number(seq).
class Key {
 public:
  Key(PartitionId partition, Kind kind) {
    bytes_.reserve(64);
    BigEndian(partition, 2);
    bytes_ += static_cast<char>(kind);
  }
  Key& Text(std::string_view text) {
    bytes_ += text;
    bytes_ += '\0';
    return *this;
  }
  Key& Byte(uint8_t byte) {
    bytes_ += static_cast<char>(byte);
    return *this;
  }
  Key& Of(InstanceName name) { return Text(name.ns).Text(name.id); }
  Key& Number(uint64_t number) { return BigEndian(number, 8); }
  Key& Version(uint32_t version) { return BigEndian(version, 4); }
  Key& Partition(PartitionId partition) { return BigEndian(partition, 2); }
  const std::string& bytes() const { return bytes_; }
  operator std::string() const { return bytes_; }  // NOLINT: a key is bytes

 private:
  Key& BigEndian(uint64_t number, int width) {
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
      bytes_ += static_cast<char>(number >> shift);
    }
    return *this;
  }
  std::string bytes_;
};

// Reads what Key wrote, after partition and kind.
class KeyReader {
 public:
  explicit KeyReader(std::string_view key) : rest_(key.substr(3)) {}
  std::string_view Text() {
    const size_t end = rest_.find('\0');
    std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return text;
  }
  uint64_t Number(size_t width = 8) {
    uint64_t number = 0;
    for (char c : rest_.substr(0, width)) number = number << 8 | static_cast<uint8_t>(c);
    rest_.remove_prefix(std::min(width, rest_.size()));
    return number;
  }

 private:
  std::string_view rest_;
};

inline Error Corrupt(std::string_view what, std::string_view key) {
  return {Code::kDataLoss, Reason::kStoreFailed,
          "the store holds a damaged " + std::string(what) + " under key " + ToHex(key)};
}

// The key with `prefix` at which a scan resumes after the id `after`; the first when that is empty.
inline std::string Resume(Key prefix, std::string_view after) {
  if (after.empty()) return prefix;
  std::string key = std::move(prefix);
  key += after;
  // After the zero byte that ends `after`, before any longer id.
  key += /*mutant list-page-repeats-one*/ '\x01' /*end*/;
  return key;
}

inline int64_t DeadlineMicros(Timestamp t) { return t == kNever ? 0 : Micros(t); }
inline Timestamp DeadlineFrom(int64_t us) { return us == 0 ? kNever : FromMicros(us); }

inline std::string StepKey(PartitionId partition, Kind kind, InstanceName name, NodeIndex home) {
  return Key(partition, kind).Of(name).Version(home);
}
inline std::string ExpiryKey(PartitionId partition, Timestamp at, InstanceName name) {
  return Key(partition, kExpiry).Number(static_cast<uint64_t>(Micros(at))).Of(name);
}
inline std::string FeedKey(PartitionId partition, uint64_t seq) {
  return Key(partition, kFeed).Number(seq);
}

// A scan whose visitor may fail.
Result<Ok> ScanAll(const Reader& reader, std::string_view begin, std::string_view end,
                   const std::function<Result<bool>(std::string_view, std::string_view)>& visit);

// A number as a row's whole value.
std::string NumberValue(uint64_t number);
void PutNumber(const Writer& writer, std::string key, uint64_t number);
Result<uint64_t> GetNumber(const Reader& reader, const std::string& key, uint64_t otherwise);
Result<uint64_t> NumberIn(std::string_view key, std::string_view value);

void AppendVarint(uint64_t number, std::string* to);
// Takes a varint off the front of `bytes`; nullopt: it does not end within `bits`.
std::optional<uint64_t> TakeVarint(std::string_view* bytes, int bits);

}  // namespace dfsmr::rows
