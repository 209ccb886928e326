// Which logs go, and in which order.
#include <algorithm>
#include <utility>

#include "record.pb.h"
#include "storage/logs/keys.h"
#include "storage/logs/log_store.h"
#include "storage/logs/row.h"

namespace dfsmr {
namespace {

constexpr size_t kAtOnce = 500;  // instances that are looked at in one go
constexpr size_t kAtOnceFar = 100;
constexpr size_t kFirst = 64;  // of those that go first

}  // namespace

// An instance that is looked at, whether its logs are to go.
struct LogStore::Dropping {
  LogOwner owner;
  std::string turn;  // its row in the list, if it was found there
  Standing standing;
  bool known = false;  // it has the row below
  record::LogInstance row;

  bool Gone() const { return standing.kind == Standing::Kind::kGone; }
  int64_t RightOrder() const {
    return standing.kind == Standing::Kind::kRuns ? kLogRuns : Micros(standing.time);
  }
};

// What is known of the instances of these rows of the list. Those that are damaged are left out.
Result<std::vector<LogStore::Dropping>> LogStore::DroppingsOf(const std::vector<std::string>& turns,
                                                              const StandingOf& standing) const {
  std::vector<LogOwner> owners;
  std::vector<std::string> keys;
  std::vector<Dropping> found;
  for (const std::string& turn : turns) {
    auto owner = log_keys::OwnerOfTurn(turn);
    if (!owner) continue;
    keys.push_back(log_keys::Instance(*owner));
    owners.push_back(*owner);
    found.push_back({.owner = *std::move(owner), .turn = turn});
  }
  auto rows = table_->GetMany(keys);
  if (!rows) return rows.error();
  const std::vector<Standing> now = standing(owners);
  for (size_t i = 0; i < found.size(); ++i) {
    found[i].standing = now[i];
    auto known = ParseLogRow((*rows)[i], &found[i].row);
    if (!known) return known.error();
    found[i].known = *known;
  }
  return found;
}

void LogStore::Move(const Dropping& of, int64_t order, LogBatch& batch) const {
  batch.Delete(of.turn);
  if (!of.known) return;
  record::LogInstance row = of.row;
  row.set_order(order);
  batch.Put(log_keys::Instance(of.owner), row.SerializeAsString());
  if (order != 0) batch.Put(log_keys::Turn(order, row.create_time(), of.owner), "");
}

void LogStore::Drop(const Dropping& of, LogBatch& batch) {
  batch.DeletePrefix(log_keys::Chunks(of.owner));
  batch.DeletePrefix(log_keys::Visits(of.owner));
  batch.DeletePrefix(log_keys::PlacesOf(of.owner));
  batch.Delete(log_keys::Instance(of.owner));
  if (!of.turn.empty()) batch.Delete(of.turn);
  if (of.row.order() != 0) {
    batch.Delete(log_keys::Turn(of.row.order(), of.row.create_time(), of.owner));
  }
  total_ -= std::min(total_, of.row.cost());
}

// All lines of an instance, which is not in the list any more.
void LogStore::DropChunks(const Dropping& of, LogBatch& batch) {
  batch.DeletePrefix(log_keys::Chunks(of.owner));
  batch.DeletePrefix(log_keys::PlacesOf(of.owner));
  if (of.standing.kind == Standing::Kind::kStopped) {
    batch.DeletePrefix(log_keys::Visits(of.owner));
  }
  total_ -= std::min(total_, of.row.cost());
  Dropping empty = of;
  empty.row.set_cost(0);
  Move(empty, 0, batch);
}

// Drops its first chunks, of so many bytes. False: it has not so many.
Result<bool> LogStore::DropFirstChunks(const Dropping& of, uint64_t bytes, LogBatch& batch) {
  uint64_t freed = 0;
  const std::string prefix = log_keys::Chunks(of.owner);
  auto walked = Walk(prefix, prefix, [&](std::string_view key, std::string_view value) {
    if (freed >= bytes) return false;
    record::LogChunk chunk;
    if (chunk.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      batch.Delete(log_keys::Place(of.owner, chunk.visit(), log_keys::Last(key)));
    }
    batch.Delete(key);
    freed += value.size() + LogChunkCost(far_);
    return true;
  });
  if (!walked) return walked.error();
  if (freed < bytes) return false;  // its cost was reckoned wrongly
  record::LogInstance row = of.row;
  total_ -= std::min(total_, freed);
  row.set_cost(row.cost() - std::min<uint64_t>(row.cost(), freed));
  batch.Put(log_keys::Instance(of.owner), row.SerializeAsString());
  return true;
}

// Those that ran ----------------------------------------------------------------------------------

Result<Ok> LogStore::ReorderSome(const std::vector<std::string>& turns,
                                 const StandingOf& standing) {
  auto found = DroppingsOf(turns, standing);
  if (!found) return found.error();
  const std::unique_ptr<LogBatch> batch = table_->NewBatch();
  for (const Dropping& one : *found) {
    if (one.Gone()) {
      Drop(one, *batch);
    } else if (one.RightOrder() != kLogRuns) {
      Move(one, one.RightOrder(), *batch);
    }
  }
  return Commit(*batch);
}

// Finds out which of those that ran have stopped meanwhile.
Result<Ok> LogStore::Reorder(const StandingOf& standing) {
  std::string after(log_keys::kTurns);
  after += log_keys::Turn(kLogRuns, 0, {}).substr(1, sizeof(int64_t));
  for (bool more = true; more;) {
    std::vector<std::string> turns;
    auto walked = Walk(log_keys::kTurns, after, [&turns](std::string_view key, std::string_view) {
      turns.emplace_back(key);
      return turns.size() < kAtOnce;
    });
    if (!walked) return walked;
    more = turns.size() == kAtOnce;
    if (turns.empty()) break;
    after = turns.back() + '\0';
    auto reordered = ReorderSome(turns, standing);
    if (!reordered) return reordered;
  }
  return Ok{};
}

Result<Ok> LogStore::Shrink(uint64_t bytes, const StandingOf& standing) {
  if (auto ready = BeReady(); !ready) return ready;
  if (total_ <= bytes) return Ok{};
  Forget();
  auto ordered = Reorder(standing);
  if (!ordered) return ordered;
  while (total_ > bytes) {
    std::vector<std::string> first;
    auto walked = Walk(log_keys::kTurns, log_keys::kTurns,
                       [&first](std::string_view key, std::string_view) {
                         first.emplace_back(key);
                         return first.size() < kFirst;
                       });
    if (!walked) return walked;
    if (first.empty()) {  // nobody is left who could have any
      total_ = 0;
      bytes_ = 0;
      return Ok{};
    }
    auto shrunk = ShrinkSome(first, bytes, standing);
    if (!shrunk) return shrunk;
  }
  return Ok{};
}

// Drops of the first ones of the list what has to go, and takes them from the list when nothing is
// left of them.
Result<Ok> LogStore::ShrinkSome(const std::vector<std::string>& turns, uint64_t bytes,
                                const StandingOf& standing) {
  auto found = DroppingsOf(turns, standing);
  if (!found) return found.error();
  const std::unique_ptr<LogBatch> batch = table_->NewBatch();
  for (const std::string& turn : turns) {
    if (!log_keys::OwnerOfTurn(turn)) batch->Delete(turn);
  }
  for (const Dropping& one : *found) {
    if (total_ <= bytes) break;
    if (one.Gone()) {
      Drop(one, *batch);
      continue;
    }
    if (one.RightOrder() != log_keys::OrderOfTurn(one.turn)) {
      Move(one, one.RightOrder(), *batch);  // it was resumed, or has stopped just now
      break;                                // the list begins with others, perhaps
    }
    if (one.row.cost() > total_ - bytes) {
      auto dropped = DropFirstChunks(one, total_ - bytes, *batch);
      if (!dropped) {
        Revert();
        return dropped.error();
      }
      if (*dropped) break;
    }
    DropChunks(one, *batch);
  }
  return Commit(*batch);
}

// Those that are gone -----------------------------------------------------------------------------

// Returns those that are still there.
Result<std::vector<LogOwner>> LogStore::DropGoneOf(const std::vector<LogOwner>& owners,
                                                   const StandingOf& standing) {
  std::vector<LogOwner> left;
  if (owners.empty()) return left;
  const std::vector<Standing> now = standing(owners);
  std::vector<LogOwner> gone;
  std::vector<std::string> keys;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (now[i].kind == Standing::Kind::kGone) keys.push_back(log_keys::Instance(owners[i]));
    (now[i].kind == Standing::Kind::kGone ? gone : left).push_back(owners[i]);
  }
  if (gone.empty()) return left;
  Forget();
  auto rows = table_->GetMany(keys);
  if (!rows) return rows.error();
  const std::unique_ptr<LogBatch> batch = table_->NewBatch();
  for (size_t i = 0; i < gone.size(); ++i) {
    Dropping one{.owner = gone[i]};
    if (auto known = ParseLogRow((*rows)[i], &one.row); !known) one.row.Clear();
    Drop(one, *batch);
  }
  auto dropped = Commit(*batch);
  if (!dropped) return dropped.error();
  return left;
}

Result<bool> LogStore::DropGone(std::span<const Name> names, const StandingOf& standing) {
  if (auto ready = BeReady(); !ready) return ready.error();
  std::vector<std::string> prefixes;
  std::vector<size_t> hashes;
  for (const Name& name : names) {
    const size_t hash = LogNameHash(name.ns, name.instance);
    if (!names_.contains(hash)) continue;
    prefixes.push_back(log_keys::InstancesOf(name.ns, name.instance));
    hashes.push_back(hash);
  }
  if (prefixes.empty()) return false;
  std::vector<LogOwner> owners;
  auto walked = table_->ScanAll(prefixes, [&](std::string_view key, std::string_view) {
    if (auto owner = log_keys::OwnerOfInstance(key)) owners.push_back(*std::move(owner));
    return true;
  });
  if (!walked) return walked.error();
  auto left = DropGoneOf(owners, standing);
  if (!left) return left.error();
  for (const size_t hash : hashes) names_.erase(hash);
  for (const LogOwner& owner : *left) names_.insert(LogNameHash(owner.ns, owner.instance));
  owners_ = names_.size();
  return true;
}

Result<bool> LogStore::SweepGone(const StandingOf& standing) {
  if (auto ready = BeReady(); !ready) return ready.error();
  std::vector<LogOwner> owners;
  bool more = false;
  std::string swept = swept_;
  const size_t most = far_ ? kAtOnceFar : kAtOnce;
  auto walked = Walk(log_keys::kInstances,
                     swept_.empty() ? std::string(log_keys::kInstances) : swept_ + '\0',
                     [&](std::string_view key, std::string_view) {
                       more = owners.size() == most;
                       if (more) return false;
                       swept = key;
                       if (auto owner = log_keys::OwnerOfInstance(key)) {
                         owners.push_back(*std::move(owner));
                       }
                       return true;
                     });
  if (!walked) return walked.error();
  auto left = DropGoneOf(owners, standing);
  if (!left) return left.error();
  swept_ = more ? swept : "";
  return more;
}

}  // namespace dfsmr
