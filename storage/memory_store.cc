#include "storage/memory_store.h"

#include "storage/fence.h"

namespace dfsmr {
namespace {

using Rows = std::map<std::string, std::string, std::less<>>;

std::optional<std::string> Find(const Rows& rows, std::string_view key) {
  const auto row = rows.find(key);
  return row == rows.end() ? std::optional<std::string>() : std::optional(row->second);
}

void Walk(const Rows& rows, std::string_view begin, std::string_view end, const View::Visit& visit,
          bool reverse) {
  if (!end.empty() && begin >= end) return;
  const auto first = /*mutant scan-loses-its-first*/ rows.lower_bound(begin) /*end*/;
  const auto last = end.empty() ? rows.end() : rows.lower_bound(end);
  if (reverse) {
    for (auto row = last; row != first;) {
      --row;
      if (!visit(row->first, row->second)) return;
    }
  } else {
    for (auto row = first; row != last; ++row) {
      if (!visit(row->first, row->second)) return;
    }
  }
}

}  // namespace

class MemoryStore::Moment final : public View {
 public:
  explicit Moment(const MemoryStore& store) : store_(store), rows_(store.rows_) {}
  ~Moment() override {
    const std::lock_guard lock(store_.mutex_);
    rows_.reset();
  }
  Result<std::optional<std::string>> Get(std::string_view key) const override {
    return Find(*rows_, key);
  }
  Result<Ok> Scan(std::string_view begin, std::string_view end, const Visit& visit,
                  bool reverse) const override {
    Walk(*rows_, begin, end, visit, reverse);
    return Ok{};
  }

 private:
  const MemoryStore& store_;
  std::shared_ptr<const Rows> rows_;
};

std::unique_ptr<const View> MemoryStore::Snapshot() const {
  const std::lock_guard lock(mutex_);
  return std::make_unique<const Moment>(*this);
}

Result<Epoch> MemoryStore::Acquire(PartitionId partition) {
  const std::lock_guard lock(mutex_);
  return ++epochs_[partition];
}

Result<std::optional<std::string>> MemoryStore::Get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  return Find(*rows_, key);
}

Result<Ok> MemoryStore::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                             bool reverse) const {
  const std::lock_guard lock(mutex_);
  ++scans_;
  Walk(*rows_, begin, end, visit, reverse);
  --scans_;
  return Ok{};
}

Result<Ok> MemoryStore::Write(PartitionId partition, Epoch epoch, const Batch& batch) {
  const std::lock_guard lock(mutex_);
  Check(scans_ == 0, "MemoryStore: a scan's visit wrote");
  const auto owner = epochs_.find(partition);
  const Epoch current = owner == epochs_.end() ? 0 : owner->second;
  if (/*mutant superseded-owner-writes*/ current == 0 || epoch != current /*end*/)
    return Superseded(partition, epoch, current);
  /*mutant snapshot-moves-on*/ if (rows_.use_count() > 1)
    rows_ = std::make_shared<Rows>(*rows_); /*end*/
  for (const auto& operation : batch.operations()) Apply(operation);
  return Ok{};
}

void MemoryStore::Apply(const Batch::Operation& operation) {
  Rows& rows = *rows_;
  switch (operation.kind) {
    case Batch::Operation::Kind::kPut:
      rows.insert_or_assign(operation.key, operation.value);
      break;
    case Batch::Operation::Kind::kDelete:
      rows.erase(operation.key);
      break;
    case Batch::Operation::Kind::kDeleteRange:
      Check(!operation.value.empty(), "a range to delete has an end");
      if (operation.key >= operation.value) break;
      rows.erase(rows.lower_bound(operation.key), rows.lower_bound(operation.value));
      break;
  }
}

}  // namespace dfsmr
