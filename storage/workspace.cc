#include "storage/workspace.h"

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>

#include <algorithm>

namespace dfsmr {
namespace {

using Kind = Batch::Operation::Kind;

// A row as the operations of one batch leave it.
struct Unwritten {
  bool touched = false;                // false: the row is what the layers below say
  const std::string* value = nullptr;  // null: it is deleted
};

struct Range {
  std::string_view begin;
  std::string_view end;
  bool Covers(std::string_view key) const { return begin <= key && key < end; }
};

Range RangeOf(const Batch::Operation& operation) {
  Check(!operation.value.empty(), "a range to delete has an end");
  return {operation.key, operation.value};
}

// Whether a key comes before the end of a scan; an empty end comes after all keys.
bool Before(std::string_view key, std::string_view end) { return end.empty() || key < end; }

}  // namespace

// One batch, and the tables that find its rows. A table is made when it is first needed, and
// brought up to date each time it is used.
class Workspace::Layer {
 public:
  Layer(std::shared_ptr<const Batch> batch) : batch_(std::move(batch)) {}

  // The last operation on a key within a scan's bounds.
  struct Change {
    std::string_view key;
    const std::string* value;  // null: the row is deleted
  };

  uint64_t turn = UINT64_MAX;  // that it was sealed as

  bool empty() const { return batch_->empty(); }

  Unwritten Find(std::string_view key) {
    const auto& operations = batch_->operations();
    if (found_to_ == 0) places_.reserve(operations.size());
    for (; found_to_ < operations.size(); ++found_to_) {
      const auto& operation = operations[found_to_];
      if (operation.kind != Kind::kDeleteRange) places_[operation.key] = found_to_;
    }
    const auto place = places_.find(key);
    if (place == places_.end()) return {.touched = CoveredSince(0, key)};
    return {true, ValueAt(place->second, key)};
  }

  // Its rows with begin <= key < end, ascending.
  std::vector<Change> Changes(std::string_view begin, std::string_view end) {
    const auto& operations = batch_->operations();
    for (; ordered_to_ < operations.size(); ++ordered_to_) {
      const auto& operation = operations[ordered_to_];
      if (operation.kind != Kind::kDeleteRange) order_[operation.key] = ordered_to_;
    }
    std::vector<Change> changes;
    for (auto row = order_.lower_bound(begin); row != order_.end() && Before(row->first, end);
         ++row) {
      changes.push_back({row->first, ValueAt(row->second, row->first)});
    }
    return changes;
  }

  bool Covers(std::string_view key) const { return CoveredSince(0, key); }
  void AddRanges(std::vector<Range>* ranges) const {
    for (const size_t at : batch_->ranges()) ranges->push_back(RangeOf(batch_->operations()[at]));
  }

 private:
  // Null: the operation at `place` is a delete, or a later range covers it.
  const std::string* ValueAt(size_t place, std::string_view key) const {
    const auto& operation = batch_->operations()[place];
    return operation.kind == Kind::kPut && !CoveredSince(place, key) ? &operation.value : nullptr;
  }
  // Whether a range that comes at `place` or later deletes the key.
  bool CoveredSince(size_t place, std::string_view key) const {
    return std::ranges::any_of(batch_->ranges(), [&](size_t at) {
      return at >= place && RangeOf(batch_->operations()[at]).Covers(key);
    });
  }

  const std::shared_ptr<const Batch> batch_;
  absl::flat_hash_map<std::string_view, size_t> places_;  // of the last operation on each key,
  size_t found_to_ = 0;                                   // of so many operations
  absl::btree_map<std::string_view, size_t> order_;       // the same
  size_t ordered_to_ = 0;
};

// The unwritten changes between two bounds, in the order of a scan; merges them into the rows of
// the store. Changes that are made after its construction are not in it.
class Workspace::Merge {
 public:
  Merge(const std::vector<std::unique_ptr<Layer>>& layers, std::string_view begin,
        std::string_view end, bool reverse)
      : reverse_(reverse) {
    for (const auto& layer : layers) {
      if (!layer->empty()) Add(*layer, begin, end);
    }
    if (reverse) std::ranges::reverse(changes_);
  }
  bool empty() const { return changes_.empty() && ranges_.empty(); }

  // The next row of the store. False: `visit` has had enough.
  bool Take(std::string_view key, std::string_view value, const Visit& visit) {
    if (!Flush(key, visit)) return false;
    if (next_ < changes_.size() && changes_[next_].key == key) return Show(visit);
    return Hidden(key) || (more_ = visit(key, value));
  }
  // The store has no more rows.
  void End(const Visit& visit) {
    while (more_ && next_ < changes_.size()) Show(visit);
  }

 private:
  void Add(Layer& layer, std::string_view begin, std::string_view end) {
    for (Layer::Change& change : changes_) {
      if (layer.Covers(change.key)) change.value = nullptr;
    }
    layer.AddRanges(&ranges_);
    std::vector<Layer::Change> older = std::exchange(changes_, layer.Changes(begin, end));
    if (older.empty()) return;
    const auto middle = static_cast<std::ptrdiff_t>(changes_.size());
    std::ranges::move(older, std::back_inserter(changes_));
    // The merge is stable: of two changes of one key the newer comes first, and is kept.
    std::ranges::inplace_merge(changes_, changes_.begin() + middle, {}, &Layer::Change::key);
    const auto repeated =
        std::unique(changes_.begin(), changes_.end(),
                    [](const Layer::Change& a, const Layer::Change& b) { return a.key == b.key; });
    changes_.erase(repeated, changes_.end());
  }
  // Shows the changes that come before the key.
  bool Flush(std::string_view key, const Visit& visit) {
    const auto before = [&](std::string_view one) { return reverse_ ? one > key : one < key; };
    while (more_ && next_ < changes_.size() && before(changes_[next_].key)) Show(visit);
    return more_;
  }
  bool Show(const Visit& visit) {
    const Layer::Change& change = changes_[next_++];
    if (change.value) more_ = visit(change.key, *change.value);
    return more_;
  }
  // All ranges are newer than any row of the store.
  bool Hidden(std::string_view key) const {
    return std::ranges::any_of(ranges_, [key](const Range& range) { return range.Covers(key); });
  }

  const bool reverse_;
  std::vector<Layer::Change> changes_;
  std::vector<Range> ranges_;
  size_t next_ = 0;
  bool more_ = true;
};

Workspace::Workspace(const View& store) : store_(store) { Begin(); }
Workspace::~Workspace() = default;

void Workspace::Begin() {
  batch_ = std::make_shared<Batch>();
  layers_.push_back(std::make_unique<Layer>(batch_));
}

std::shared_ptr<const Batch> Workspace::Seal(uint64_t turn) {
  Check(scans_ == 0, "Workspace: a scan's visit ended the turn");
  Check(layers_.size() < 2 || layers_[layers_.size() - 2]->turn < turn,
        "Workspace: turns end in order");
  const std::shared_ptr<const Batch> batch = batch_;
  layers_.back()->turn = turn;
  if (batch->empty()) layers_.pop_back();
  Begin();
  return batch;
}

void Workspace::Committed(uint64_t turn) {
  Check(scans_ == 0, "Workspace: a scan's visit dropped what it is shown");
  std::erase_if(layers_, [turn](const auto& layer) {
    return layer->turn <= /*mutant workspace-forgets*/ turn /*end*/;
  });
}

Result<std::optional<std::string>> Workspace::Get(std::string_view key) const {
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    if ((*layer)->empty()) continue;
    const Unwritten row = (*layer)->Find(key);
    if (row.touched) return row.value ? std::optional(*row.value) : std::nullopt;
  }
  return store_.Get(key);
}

Result<Ok> Workspace::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                           bool reverse) const {
  return ScanThrough(begin, end, visit, reverse,
                     [&](const Visit& take) { return store_.Scan(begin, end, take, reverse); });
}

Result<Ok> Workspace::ScanOnce(std::string_view begin, std::string_view end,
                               const Visit& visit) const {
  return ScanThrough(begin, end, visit, /*reverse=*/false,
                     [&](const Visit& take) { return store_.ScanOnce(begin, end, take); });
}

Result<Ok> Workspace::ScanThrough(std::string_view begin, std::string_view end, const Visit& visit,
                                  bool reverse, const ScanBelow& scan_below) const {
  if (!end.empty() && begin >= end) return Ok{};
  ++scans_;
  Merge merge(layers_, begin, end, reverse);
  auto scanned = merge.empty() ? scan_below(visit) : scan_below([&](auto key, auto value) {
    return merge.Take(key, value, visit);
  });
  if (scanned) merge.End(visit);
  --scans_;
  return scanned;
}

}  // namespace dfsmr
