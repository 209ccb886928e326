#include "dsrv/migrate/migrate.h"

#include <chrono>
#include <cstdio>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "storage/moved.h"

namespace dfsmr {
namespace {

using Clock = std::chrono::steady_clock;

// The third byte of a key, as in the table of storage/README.md.
constexpr char kLive = 0x02;
constexpr char kStopped = 0x03;
constexpr size_t kBatchRows = 10'000;
constexpr size_t kBatchBytes = 8 << 20;

// Of some of the rows.
struct Tally {
  uint64_t rows = 0;
  uint64_t live = 0;
  uint64_t stopped = 0;
  uint64_t bytes = 0;
  uint64_t digest = 14'695'981'039'346'656'037U;
  friend bool operator==(const Tally&, const Tally&) = default;

  void Add(std::string_view key, std::string_view value) {
    ++rows;
    bytes += key.size() + value.size();
    if (key.size() < 3) return;
    if (key[2] == kLive) ++live;
    if (key[2] == kStopped) ++stopped;
  }
  // FNV-1a, with the length behind each text, so that no two lists of rows look the same.
  void Mix(std::string_view text) {
    const auto mix = [this](uint64_t byte) { digest = (digest ^ byte) * 1'099'511'628'211U; };
    for (const char byte : text) mix(static_cast<unsigned char>(byte));
    mix(text.size());
  }
};

// Keys begin with their partition.
PartitionId PartitionIn(std::string_view key) {
  if (key.size() < 2) return 0;
  return static_cast<PartitionId>(static_cast<uint8_t>(key[0]) << 8 | static_cast<uint8_t>(key[1]));
}

Error Refused(const std::string& why) { return {Code::kFailedPrecondition, Reason::kNone, why}; }

std::string Count(uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what;
}

class Copying {
 public:
  Copying(const Migration& migration, UnservedStore& from, UnservedStore& to)
      : migration_(migration), from_(from), to_(to) {}

  // Refuses, or makes sure that nobody serves the source from now on, nor the target before it is
  // whole.
  Result<Ok> Begin();
  Result<Ok> CopyRows();
  Result<Tally> Compare();
  Result<Ok> End();
  bool Interrupted() const { return migration_.interrupted && *migration_.interrupted; }
  static Error Interruption() {
    return {Code::kCancelled, Reason::kNone, "interrupted: the same command goes on where it was"};
  }

 private:
  Result<std::string> LastKey();
  Result<Ok> Acquire();
  Result<Ok> Send();
  Result<Ok> Settle();
  void Tell(const char* doing, const Tally& tally, Clock::time_point begin);
  Result<Tally> Read(const Store& store, const char* doing);

  const Migration& migration_;
  UnservedStore& from_;
  UnservedStore& to_;
  std::vector<Epoch> source_epochs_;  // by partition
  std::vector<Epoch> epochs_;         // of the target
  PartitionId partition_ = 0;         // of the batch
  Batch batch_;
  std::future<Result<Ok>> sent_;
  Clock::time_point told_ = Clock::now();
};

Result<std::string> Copying::LastKey() {
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

Result<Ok> Copying::Begin() {
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

Result<Ok> Copying::Acquire() {
  for (PartitionId id = 0; id < from_.Partitions(); ++id) {
    auto source = from_.AcquireAbove(id, 0);
    if (!source) return source.error();
    source_epochs_.push_back(*source);
    auto target = to_.AcquireAbove(id, *source);
    if (!target) return target.error();
    epochs_.push_back(*target);
  }
  return Ok{};
}

void Copying::Tell(const char* doing, const Tally& tally, Clock::time_point begin) {
  const auto now = Clock::now();
  if (now - told_ < std::chrono::seconds(1)) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - begin).count();
  const uint64_t instances = tally.live + tally.stopped;
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.0f rows/s", static_cast<double>(tally.rows) / seconds);
  migration_.tell(std::string(doing) + ": " + Count(tally.rows, "rows, ") +
                  Count(instances, "instances, ") + Count(tally.bytes >> 20, "MiB, ") + rate);
}

// One batch is on its way while the next one is read.
Result<Ok> Copying::Send() {
  if (auto before = Settle(); !before) return before;
  sent_ = std::async(std::launch::async, [this, id = partition_,
                                          batch = std::exchange(batch_, Batch())] {
    return to_.store().Write(id, epochs_[id], batch);
  });
  return Ok{};
}

Result<Ok> Copying::Settle() { return sent_.valid() ? sent_.get() : Result<Ok>(Ok{}); }

Result<Ok> Copying::CopyRows() {
  auto last = LastKey();
  if (!last) return last.error();
  const std::string begin = last->empty() ? "" : *last + '\0';
  if (!begin.empty()) migration_.tell("going on where it was interrupted");
  const auto started = Clock::now();
  Tally tally;
  std::optional<Error> failed;
  const auto read =
      from_.store().ScanOnce(begin, "", [&](std::string_view key, std::string_view value) {
        const PartitionId partition = PartitionIn(key);
        if (partition != partition_ && !batch_.empty()) {
          if (auto sent = Send(); !sent) failed = sent.error();
        }
        partition_ = partition;
        tally.Add(key, value);
        batch_.Put(std::string(key), std::string(value));
        const bool full = batch_.operations().size() >= kBatchRows || batch_.bytes() >= kBatchBytes;
        if (!full && !failed) return true;
        if (auto sent = failed ? Result<Ok>(*failed) : Send(); !sent) failed = sent.error();
        if (!failed && Interrupted()) failed = Interruption();
        Tell("copied", tally, started);
        return !failed;
      });
  if (!failed && read && !batch_.empty()) {
    if (auto sent = Send(); !sent) failed = sent.error();
  }
  const auto settled = Settle();
  if (failed) return *failed;
  return read ? settled : read;
}

Result<Tally> Copying::Read(const Store& store, const char* doing) {
  const auto begin = Clock::now();
  Tally tally;
  bool interrupted = false;
  const auto read = store.ScanOnce("", "", [&](std::string_view key, std::string_view value) {
    tally.Add(key, value);
    tally.Mix(key);
    tally.Mix(value);
    if (tally.rows % 4'096 != 0) return true;
    Tell(doing, tally, begin);
    interrupted = Interrupted();
    return !interrupted;
  });
  if (!read) return read.error();
  if (interrupted) return Interruption();
  return tally;
}

Result<Tally> Copying::Compare() {
  auto source = Read(from_.store(), "compared, of the source");
  if (!source) return source;
  auto target = Read(to_.store(), "compared, of the copy");
  if (!target) return target;
  if (*source == *target) return target;
  return Error{Code::kDataLoss, Reason::kNone,
               "the copy differs from its source: " + Count(source->rows, "rows with ") +
                   Count(source->live, "live and ") + Count(source->stopped, "stopped instances") +
                   " became " + Count(target->rows, "rows with ") +
                   Count(target->live, "live and ") + Count(target->stopped, "stopped") +
                   ": empty " + to_.Name() + " and copy again"};
}

// A server that had looked at the source just before it was marked may have taken it after that.
Result<Ok> Copying::End() {
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

// Has both stores wait for their databases no more once a signal has come.
class Release {
 public:
  Release(const std::atomic<bool>* interrupted, UnservedStore& from, UnservedStore& to) {
    if (!interrupted) return;
    thread_ = std::jthread([interrupted, &from, &to](const std::stop_token& over) {
      while (!*interrupted && !over.stop_requested()) std::this_thread::sleep_for(kLook);
      if (!*interrupted) return;
      from.GiveUp();
      to.GiveUp();
    });
  }

 private:
  static constexpr std::chrono::milliseconds kLook{50};
  std::jthread thread_;
};

Result<Tally> Copy(Copying& copying) {
  if (auto begun = copying.Begin(); !begun) return begun.error();
  if (auto copied = copying.CopyRows(); !copied) return copied.error();
  auto tally = copying.Compare();
  if (!tally) return tally;
  auto ended = copying.End();
  return ended ? tally : ended.error();
}

}  // namespace

Result<std::string> Migrate(const Migration& migration) {
  auto from = OpenUnserved(migration.from, false);
  if (!from) return from.error();
  const uint16_t has = (*from)->Partitions();
  const uint16_t wanted = migration.partitions == kAsMade ? has : migration.partitions;
  auto to = OpenUnserved(migration.to, true, wanted);
  if (!to) return to.error();
  if (wanted != has) {
    return Refused((*from)->Name() + " has " + Count(has, "partitions") + ", not " +
                   std::to_string(wanted) + ": a store moves into as many as it has");
  }
  Copying copying(migration, **from, **to);
  const Release release(migration.interrupted, **from, **to);
  const auto tally = Copy(copying);
  if (!tally) return copying.Interrupted() ? Copying::Interruption() : tally.error();
  return (*from)->Name() + " has moved to " + (*to)->Name() + ": " + Count(tally->rows, "rows, ") +
         Count(tally->live, "live and ") + Count(tally->stopped, "stopped instances, compared");
}

}  // namespace dfsmr
