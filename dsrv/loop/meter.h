// Counters that SIGUSR1 logs: what the server has done since it started, and how much CPU time each
// stage took. They cost one reading of a thread's clock for each stage of a turn. Any thread may
// read them; each is correct by itself, but they do not all show the same moment.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

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
    Add(kWriteUs, static_cast<uint64_t>(took / std::chrono::microseconds(1)));
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
  std::array<std::atomic<uint64_t>, kCounts> counts_{};
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
