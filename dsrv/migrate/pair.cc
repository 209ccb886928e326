#include "dsrv/migrate/pair.h"

#include <algorithm>
#include <cstdio>

#include "storage/moved.h"

namespace dfsmr {
namespace {

// The third byte of a key, as in the table of storage/README.md.
constexpr char kLive = 0x02;
constexpr char kStopped = 0x03;

}  // namespace

PartitionId PartitionIn(std::string_view key) {
  if (key.size() < sizeof(PartitionId)) return 0;
  return static_cast<PartitionId>(static_cast<uint8_t>(key[0]) << 8 | static_cast<uint8_t>(key[1]));
}

std::string Count(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what;
}

Error Refused(const std::string& why) { return {Code::kFailedPrecondition, Reason::kNone, why}; }

void Tally::Add(std::string_view key, std::string_view value) {
  ++rows;
  bytes += key.size() + value.size();
  if (key.size() < 3) return;
  if (key[2] == kLive) ++live;
  if (key[2] == kStopped) ++stopped;
}

void Digest::Mix(std::string_view text) {
  const auto mix = [this](uint64_t byte) { number_ = (number_ ^ byte) * 1'099'511'628'211U; };
  for (const char byte : text) mix(static_cast<unsigned char>(byte));
  mix(text.size());
}

Error Pair::Interruption() {
  return {Code::kCancelled, Reason::kNone, "interrupted: the same command goes on where it was"};
}

Result<std::string> Pair::LastKey() {
  std::string last;
  const auto read = to_.store().Scan(
      "", "",
      [&last](std::string_view key, std::string_view) {
        last = key;
        return false;
      },
      true);
  return read ? Result<std::string>(last) : read.error();
}

Result<Ok> Pair::Begin() {
  if (from_.Name() == to_.Name()) return Refused("--from and --to name the same store");
  auto from_mark = from_.Mark();
  if (!from_mark) return from_mark.error();
  if (!from_mark->empty() && *from_mark != to_.Name()) return NotHere(from_.Name(), *from_mark);
  auto mark = to_.Mark();
  if (!mark) return mark.error();
  const std::string mine = BeingMadeOf(from_.Name());
  if (!mark->empty() && *mark != mine) return NotHere(to_.Name(), *mark);
  auto last = LastKey();
  if (!last) return last.error();
  if (!from_mark->empty() && mark->empty() && !last->empty()) {
    return Refused(from_.Name() + " has moved to " + to_.Name() + " already");
  }
  if (mark->empty() && !last->empty()) {
    return Refused(to_.Name() + " is not empty: name a store that is, or a place without one");
  }
  if (auto marked = to_.SetMark(mine); !marked) return marked;
  if (auto marked = from_.SetMark(to_.Name()); !marked) return marked;
  return Acquire();
}

// What is in hand under the source's epochs stays valid, and none of the target's is like one of
// them.
Result<Ok> Pair::Acquire() {
  Epoch above = 0;
  for (PartitionId id = 0; id < from_.Partitions(); ++id) {
    auto source = from_.AcquireAbove(id, 0);
    if (!source) return source.error();
    source_epochs_.push_back(*source);
    above = std::max(above, *source);
  }
  const bool alike = from_.Partitions() == to_.Partitions();
  for (PartitionId id = 0; id < to_.Partitions(); ++id) {
    auto target = to_.AcquireAbove(id, alike ? source_epochs_[id] : above);
    if (!target) return target.error();
    epochs_.push_back(*target);
  }
  return Ok{};
}

Result<Ok> Pair::Write(PartitionId partition, const Batch& batch) {
  return to_.store().Write(partition, epochs_[partition], batch);
}

Result<Ok> Pair::ReadAll(const View& store, const char* doing, const Visit& visit) {
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  bool interrupted = false;
  const auto read = store.ScanOnce("", "", [&](std::string_view key, std::string_view value) {
    tally.Add(key, value);
    visit(key, value);
    if (tally.rows % 4'096 != 0) return true;
    Tell(doing, tally, begin);
    interrupted = Interrupted();
    return !interrupted;
  });
  return read && interrupted ? Result<Ok>(Interruption()) : read;
}

void Pair::Tell(const char* doing, const Tally& tally,
                std::chrono::steady_clock::time_point begin) {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < std::chrono::seconds(1)) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - begin).count();
  const uint64_t instances = tally.live + tally.stopped;
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.0f rows/s", static_cast<double>(tally.rows) / seconds);
  migration_.tell(std::string(doing) + ": " + Count(tally.rows, "rows, ") +
                  Count(instances, "instances, ") + Count(tally.bytes >> 20, "MiB, ") + rate);
}

Error Pair::Differs(const Tally& source, const Tally& target) const {
  return {Code::kDataLoss, Reason::kNone,
          "the copy differs from its source: " + Count(source.rows, "rows with ") +
              Count(source.live, "live and ") + Count(source.stopped, "stopped instances") +
              " became " + Count(target.rows, "rows with ") + Count(target.live, "live and ") +
              Count(target.stopped, "stopped") + ": empty " + to_.Name() + " and copy again"};
}

// A server that had looked at the source just before it was marked may have taken it after that.
Result<Ok> Pair::End() {
  for (PartitionId id = 0; id < from_.Partitions(); ++id) {
    const auto alone = from_.store().Write(id, source_epochs_[id], Batch());
    if (!alone && alone.error().code == Code::kAborted) {
      return Refused(from_.Name() + " was served while it was copied: empty " + to_.Name() +
                     " and copy again");
    }
    if (!alone) return alone;
  }
  return to_.SetMark("");
}

}  // namespace dfsmr
