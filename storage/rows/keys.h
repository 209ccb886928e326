// Keys, and what the files that encode rows share. Included by rows*.cc only.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "record.pb.h"
#include "storage/rows/rows.h"

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
  kToken = 0x16,
  kDropped = 0x17,
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
  Key& Number(uint64_t number) { return BigEndian(number, 8); }
  Key& Version(uint32_t version) { return BigEndian(version, 4); }
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
  std::string hex;
  for (char c : key) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return {Code::kDataLoss, Reason::kStoreFailed,
          "the store holds a damaged " + std::string(what) + " under key " + hex};
}

// The key after `begin`'s prefix at which a scan resumes when ids up to `after` are done.
inline std::string Resume(Key prefix, std::string_view after) {
  if (after.empty()) return prefix;
  std::string key = std::move(prefix);
  key += after;
  key += '\x01';  // after the zero byte that ends `after`, before any longer id
  return key;
}

inline int64_t DeadlineMicros(Timestamp t) { return t == kNever ? 0 : Micros(t); }
inline Timestamp DeadlineFrom(int64_t us) { return us == 0 ? kNever : FromMicros(us); }

inline std::string StepKey(PartitionId partition, Kind kind, std::string_view ns,
                           std::string_view id, NodeIndex home) {
  return Key(partition, kind).Text(ns).Text(id).Version(home);
}

// Scan whose visitor may fail.
Result<Ok> ScanAll(const View& view, std::string_view begin, std::string_view end,
                   const std::function<Result<bool>(std::string_view, std::string_view)>& visit);

// States count tokens in arrays: one that is none must not get that far.
inline bool Sound(const record::Token& in) {
  return in.state() <= static_cast<uint32_t>(TokenState::kDone);
}
Token Decode(const record::Token& in);  // but for its node
ChildCounts Decode(const record::Children& in);

}  // namespace dfsmr::rows
