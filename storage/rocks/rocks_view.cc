#include "storage/rocks/rocks_view.h"

#include <rocksdb/db.h>

#include <memory>

#include "storage/rocks/read_ahead.h"

namespace dfsmr {
namespace {

constexpr std::string_view kEpochSuffix("\0epoch", 6);

rocksdb::Slice ToSlice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

bool IsEpochKey(std::string_view key) {
  return key.size() == sizeof(PartitionId) + kEpochSuffix.size() && key.ends_with(kEpochSuffix);
}

Error ReadError(const rocksdb::Status& status) {
  // A missing file is data loss just as an unreadable one is.
  const bool lost = status.IsCorruption() || status.IsPathNotFound();
  return {lost ? Code::kDataLoss : Code::kUnavailable, Reason::kNone,
          "cannot read the store: " + status.ToString()};
}

// Visits the rows of `row`, which is at the first of them.
Result<Ok> Walk(rocksdb::Iterator& row, const View::Visit& visit, bool reverse) {
  for (; row.Valid(); reverse ? row.Prev() : row.Next()) {
    if (IsEpochKey(ToView(row.key()))) continue;
    if (!visit(ToView(row.key()), ToView(row.value()))) break;
  }
  // A block that cannot be read ends the loop just as the last row does.
  if (!row.status().ok()) return ReadError(row.status());
  return Ok{};
}

class RocksSnapshot final : public RocksView {
 public:
  RocksSnapshot(rocksdb::DB& db, const rocksdb::Snapshot* snapshot)
      : RocksView(db, snapshot), held_(&db, snapshot) {}

 private:
  rocksdb::ManagedSnapshot held_;
};

}  // namespace

std::string EpochKey(PartitionId partition) {
  std::string key{static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff)};
  return key.append(kEpochSuffix);
}

std::unique_ptr<const View> SnapshotOf(rocksdb::DB& db) {
  return std::make_unique<const RocksSnapshot>(db, db.GetSnapshot());
}

Result<std::optional<std::string>> RocksView::Get(std::string_view key) const {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_;
  std::string value;
  const rocksdb::Status status = db_.Get(options, ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return ReadError(status);
  return std::optional(std::move(value));
}

Result<Ok> RocksView::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                           bool reverse) const {
  if (!end.empty() && begin >= end) return Ok{};
  const rocksdb::Slice lower = ToSlice(begin);
  const rocksdb::Slice upper = ToSlice(end);
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_;
  options.iterate_lower_bound = &lower;
  if (!end.empty()) options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> row(db_.NewIterator(options));
  reverse ? row->SeekToLast() : row->SeekToFirst();
  return Walk(*row, visit, reverse);
}

Result<Ok> RocksView::ScanOnce(std::string_view begin, std::string_view end,
                               const Visit& visit) const {
  if (!end.empty() && begin >= end) return Ok{};
  const rocksdb::Slice upper = ToSlice(end);
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_;
  if (!end.empty()) options.iterate_upper_bound = &upper;
  options.fill_cache = false;
  options.readahead_size = 2 << 20;
  return ReadAhead(
      [&](const Visit& take) {
        const std::unique_ptr<rocksdb::Iterator> row(db_.NewIterator(options));
        row->Seek(ToSlice(begin));
        return Walk(*row, take, /*reverse=*/false);
      },
      visit);
}

}  // namespace dfsmr
