// A store that fails when it is told to: reads that end early, and writes whose owner never learns
// what became of them. What is below keeps the rows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "storage/store.h"

namespace dfsmr {

class FaultyStore final : public Store {
 public:
  explicit FaultyStore(Store& below) : below_(below) {}

  // What becomes of the next write, which its owner sees fail: its record in the log is torn, and
  // recovery drops it; or all of it is there.
  enum class Outcome : uint8_t { kTorn, kKept };
  void FailNextWrite(Outcome outcome) { next_write_ = outcome; }
  // After as many rows as that have been read, all reads fail; a scan may end in its middle.
  void FailReadsAfter(uint64_t rows) { rows_left_ = rows; }
  // From now on all is well again.
  void Heal() {
    next_write_.reset();
    rows_left_.reset();
    failed_ = false;
  }
  // A fault has shown since the last Heal.
  bool failed() const { return failed_; }

  Result<Epoch> Acquire(PartitionId partition) override { return below_.Acquire(partition); }

  // Its reads count and fail like the store's own.
  std::unique_ptr<const View> Snapshot() const override {
    return std::make_unique<const Moment>(*this, below_.Snapshot());
  }

  Result<std::optional<std::string>> Get(std::string_view key) const override {
    return GetFrom(below_, key);
  }

  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    return ScanOf(below_, begin, end, visit, reverse);
  }

  Result<Ok> Write(PartitionId partition, Epoch epoch, const Batch& batch) override {
    const auto outcome = std::exchange(next_write_, std::nullopt);
    if (outcome == Outcome::kTorn) return Failed("the write did not return");
    auto written = below_.Write(partition, epoch, batch);
    if (outcome && written) return Failed("the write did not return");
    return written;
  }

 private:
  class Moment final : public View {
   public:
    Moment(const FaultyStore& store, std::unique_ptr<const View> below)
        : store_(store), below_(std::move(below)) {}
    Result<std::optional<std::string>> Get(std::string_view key) const override {
      return store_.GetFrom(*below_, key);
    }
    Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                    bool reverse) const override {
      return store_.ScanOf(*below_, begin, end, visit, reverse);
    }

   private:
    const FaultyStore& store_;
    const std::unique_ptr<const View> below_;
  };

  Result<std::optional<std::string>> GetFrom(const View& view, std::string_view key) const {
    if (!CountRow()) return Failed("a row cannot be read");
    return view.Get(key);
  }
  Result<Ok> ScanOf(const View& view, std::string_view begin, std::string_view end,
                    const Visit& visit, bool reverse) const {
    bool whole = CountRow();
    auto scanned = view.Scan(begin, end, [&](std::string_view key, std::string_view value) {
      whole = whole && CountRow();
      return whole && visit(key, value);
    }, reverse);
    if (!whole) return Failed("the rest of the rows cannot be read");
    return scanned;
  }
  bool CountRow() const {
    if (!rows_left_) return true;
    if (*rows_left_ == 0) return false;
    --*rows_left_;
    return true;
  }
  Error Failed(std::string what) const {
    failed_ = true;
    return {Code::kUnavailable, Reason::kStoreFailed, std::move(what)};
  }

  Store& below_;
  std::optional<Outcome> next_write_;
  mutable std::optional<uint64_t> rows_left_;
  mutable bool failed_ = false;
};

}  // namespace dfsmr
