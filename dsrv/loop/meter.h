// Counters that SIGUSR1 logs: what the server has done since it started, and how much CPU time each
// stage took. They cost one reading of a thread's clock for each stage of a turn. Any thread may
// read them; each is correct by itself, but they do not all show the same moment.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

#include "fsm/base/spread.h"
#include "storage/store.h"

namespace dfsmr {

class Meter {
 public:
  enum Count : size_t {
    kTurns,    // of the deciding thread
    kRecords,  // of the feed
    kCommits,  // each is one write of the log and one sync
    kPuts,
    kDeletes,
    kBytes,     // keys and values of what was put and deleted
    kWriteUs,   // wall-clock time from the beginning of each commit until it was on disk
    kDecideUs,  // CPU time, like all below: deciding requests, handing out work
    kEncodeUs,  // making rows of the changes
    kCommitUs,  // writing rows to the log and the memtable; not waiting for the sync
    kReplyUs,   // handing answers and the feed's records to gRPC, which often sends them at once
    kLongTurns,  // turns that took the deciding thread more than 20 ms of CPU time
    kCounts
  };
  static constexpr std::array<const char*, kCounts> kNames = {
      "turns",    "records",   "commits",   "puts",      "deletes",  "bytes",
      "write_us", "decide_us", "encode_us", "commit_us", "reply_us", "long_turns"};

  void Add(Count what, uint64_t amount) {
    counts_[what].fetch_add(amount, std::memory_order_relaxed);
  }

  // A batch that is on disk now, and was not at `begin`.
  void AddCommit(const Batch& batch, std::chrono::steady_clock::time_point begin) {
    const auto puts = std::ranges::count(batch.operations(), Batch::Operation::Kind::kPut,
                                         &Batch::Operation::kind);
    const auto took = std::chrono::steady_clock::now() - begin;
    Add(kCommits, 1);
    Add(kPuts, static_cast<uint64_t>(puts));
    Add(kDeletes, batch.operations().size() - static_cast<uint64_t>(puts));
    Add(kBytes, batch.bytes());
    const auto us = static_cast<uint64_t>(took / std::chrono::microseconds(1));
    Add(kWriteUs, us);
    commits_.Add(us);
    recent_.Add(us, SecondOf(begin));
  }
  // How long 95 % of the commits of the last minute took at most, to within a fifth; 0: there were
  // none.
  uint64_t CommitP95Us() const {
    return recent_.Quantile(0.95, SecondOf(std::chrono::steady_clock::now()));
  }

  // For those who scrape the server: how long commits took, how many records turns with records
  // had, and how long mail waited for its turn.
  using Shared = Spread<kOwnEdges, std::atomic<uint64_t>>;
  const Shared& commits() const { return commits_; }
  const Spread<kRecordEdges, std::atomic<uint64_t>>& turn_records() const { return turn_records_; }
  const Shared& mailbox_wait() const { return mailbox_wait_; }
  uint64_t Get(Count what) const { return counts_[what].load(std::memory_order_relaxed); }
  void AddRecords(uint64_t records) {
    Add(kRecords, records);
    turn_records_.Add(records);
  }
  void AddWait(std::chrono::nanoseconds waited) {
    mailbox_wait_.Add(static_cast<uint64_t>(waited / std::chrono::microseconds(1)));
  }

  // "turns=1 records=2 …"
  std::string Text() const {
    std::string text;
    for (size_t i = 0; i < kCounts; ++i) {
      text += (i == 0 ? "" : " ") + std::string(kNames[i]) + "=" + std::to_string(counts_[i]);
    }
    return text;
  }

 private:
  static int64_t SecondOf(std::chrono::steady_clock::time_point time) {
    return time.time_since_epoch() / std::chrono::seconds(1);
  }

  // Durations of the last minute: counted in slots of ten seconds, by four steps to each power of
  // two. One thread adds; any may read, and then sees a slot that is being replaced in part.
  class Recent {
   public:
    void Add(uint64_t us, int64_t second) {
      Slot& slot = slots_[static_cast<size_t>(second / kSeconds) % kSlots];
      if (slot.number.exchange(second / kSeconds) != second / kSeconds) {
        for (auto& count : slot.counts) count = 0;
      }
      slot.counts[StepOf(us)].fetch_add(1, std::memory_order_relaxed);
    }
    uint64_t Quantile(double share, int64_t second) const {
      std::array<uint64_t, kSteps> sums{};
      uint64_t all = 0;
      for (const Slot& slot : slots_) {
        if (slot.number.load() <= second / kSeconds - kSlots) continue;
        for (size_t i = 0; i < kSteps; ++i) {
          sums[i] += slot.counts[i];
          all += slot.counts[i];
        }
      }
      uint64_t left = static_cast<uint64_t>(static_cast<double>(all) * share);
      for (size_t i = 0; i < kSteps && all > 0; ++i) {
        if (left < sums[i]) return EndOf(i);
        left -= sums[i];
      }
      return 0;
    }

   private:
    static constexpr int64_t kSeconds = 10;
    static constexpr int64_t kSlots = 6;
    static constexpr size_t kSteps = 128;
    static size_t StepOf(uint64_t us) {
      const uint64_t four = us + 4;  // so that each of the first has a step of its own
      const auto power = static_cast<size_t>(std::bit_width(four)) - 3;
      return std::min(kSteps - 1, power * 4 + static_cast<size_t>(four >> power) - 4);
    }
    static uint64_t EndOf(size_t step) { return ((step % 4 + 5) << (step / 4)) - 4; }

    struct Slot {
      std::atomic<int64_t> number = INT64_MIN;
      std::array<std::atomic<uint32_t>, kSteps> counts{};
    };
    std::array<Slot, kSlots> slots_;
  };

  std::array<std::atomic<uint64_t>, kCounts> counts_{};
  Recent recent_;
  Shared commits_;
  Shared mailbox_wait_;
  Spread<kRecordEdges, std::atomic<uint64_t>> turn_records_;
};

// Divides one thread's CPU time among stages. Made and used on that thread.
class StageClock {
 public:
  explicit StageClock(Meter& meter) : meter_(meter), last_us_(Now()) {}

  // Counts the CPU time of the thread since the last call as `stage`.
  void Lap(Meter::Count stage) {
    const uint64_t now = Now();
    meter_.Add(stage, now - last_us_);
    last_us_ = now;
  }
  // A turn is over.
  void EndTurn() {
    meter_.Add(Meter::kTurns, 1);
    if (last_us_ - turn_us_ > kLongUs) meter_.Add(Meter::kLongTurns, 1);
    turn_us_ = last_us_;
  }

 private:
  static uint64_t Now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000 +
           static_cast<uint64_t>(time.tv_nsec) / 1'000;
  }

  static constexpr uint64_t kLongUs = 20'000;

  Meter& meter_;
  uint64_t last_us_;
  uint64_t turn_us_ = last_us_;  // when the turn began
};

}  // namespace dfsmr
