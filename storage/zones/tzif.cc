#include "storage/zones/tzif.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fsm/base/names.h"

namespace dfsmr {
namespace {

constexpr size_t kHeader = 44;
constexpr size_t kCountMax = 100'000;  // of anything: real files have some hundred

struct Counts {
  size_t utc_flags, standard_flags, leaps, times, types, letters;

  // The block that follows, with times of `width` bytes.
  size_t Size(size_t width) const {
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard_flags +
           utc_flags;
  }
};

uint64_t BigEndian(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (char c : bytes.substr(at, width)) value = value << 8 | static_cast<uint8_t>(c);
  return value;
}

std::optional<Counts> ReadHeader(std::string_view bytes) {
  if (bytes.size() < kHeader || !bytes.starts_with("TZif") || bytes[4] < '2') return std::nullopt;
  size_t counts[6];
  for (size_t i = 0; i < 6; ++i) {
    counts[i] = BigEndian(bytes, 20 + 4 * i, 4);
    if (counts[i] > kCountMax) return std::nullopt;
  }
  return Counts{counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]};
}

// The offsets of the block's types.
std::optional<std::vector<std::chrono::seconds>> ReadTypes(std::string_view types, size_t count) {
  constexpr int64_t kFar = 26 * 3600;
  std::vector<std::chrono::seconds> offsets;
  for (size_t i = 0; i < count; ++i) {
    const auto offset = static_cast<int32_t>(BigEndian(types, 6 * i, 4));
    if (offset <= -kFar || offset >= kFar) return std::nullopt;
    offsets.emplace_back(offset);
  }
  return offsets;
}

std::optional<std::vector<Zone::Change>> ReadChanges(
    std::string_view block, const Counts& counts,
    const std::vector<std::chrono::seconds>& offsets) {
  std::vector<Zone::Change> changes;
  for (size_t i = 0; i < counts.times; ++i) {
    const auto at = static_cast<int64_t>(BigEndian(block, 8 * i, 8));
    const auto type = static_cast<size_t>(BigEndian(block, 8 * counts.times + i, 1));
    const Instant instant{std::chrono::seconds(at)};
    if (type >= offsets.size() || (!changes.empty() && instant <= changes.back().at)) {
      return std::nullopt;
    }
    // Before all calendars: some files begin with the big bang.
    changes.push_back({std::max(instant, kFirstInstant), offsets[type]});
    if (instant > kLastInstant) return std::nullopt;
  }
  return changes;
}

Error Damaged(std::string_view name, std::string_view why) {
  return {Code::kDataLoss, Reason::kNone,
          "the file of time zone " + Quoted(name) + " is damaged: " + std::string(why)};
}

}  // namespace

Result<ZonePtr> ReadTzif(std::string_view name, std::string_view bytes) {
  // First comes a block of version 1, with times of four bytes, for old readers.
  const auto old_counts = ReadHeader(bytes);
  if (!old_counts) return Damaged(name, "it does not begin with TZif, or is of version 1");
  const size_t start = kHeader + old_counts->Size(4);
  if (start > bytes.size()) return Damaged(name, "it is too short");
  bytes.remove_prefix(start);
  const auto counts = ReadHeader(bytes);
  if (!counts || counts->types == 0) return Damaged(name, "its second header cannot be read");
  if (kHeader + counts->Size(8) > bytes.size()) return Damaged(name, "it is too short");
  if (counts->leaps != 0) return Damaged(name, "it counts leap seconds");
  const std::string_view block = bytes.substr(kHeader, counts->Size(8));
  const auto offsets = ReadTypes(block.substr(9 * counts->times), counts->types);
  if (!offsets) return Damaged(name, "it has an offset of more than a day");
  auto changes = ReadChanges(block, *counts, *offsets);
  if (!changes) return Damaged(name, "its changes are not in order");
  std::string_view footer = bytes.substr(kHeader + counts->Size(8));
  if (!footer.starts_with('\n') || footer.size() < 2 || footer.find('\n', 1) == footer.npos) {
    return Damaged(name, "its last line is missing");
  }
  footer = footer.substr(1, footer.find('\n', 1) - 1);
  std::optional<PosixZone> rule;
  if (!footer.empty()) {
    const auto parsed = ParsePosixZone(footer);
    if (!parsed) return Damaged(name, parsed.error().message);
    rule = *parsed;
  }
  return ZonePtr(
      std::make_shared<const Zone>(std::string(name), offsets->front(), std::move(*changes), rule));
}

}  // namespace dfsmr
