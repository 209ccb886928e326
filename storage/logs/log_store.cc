#include "storage/logs/log_store.h"

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "record.pb.h"
#include "storage/logs/database.h"
#include "storage/logs/keys.h"

namespace dfsmr {
namespace {

constexpr uint64_t kChunkText = 32 << 10;
constexpr uint64_t kChunkCost = 64;  // its keys, and what an index says of it
constexpr size_t kNumbers = 100;     // claims remembered of a visit, as limits.h has it
constexpr size_t kVisitsInMemory = 20'000;
constexpr int64_t kRuns = std::numeric_limits<int64_t>::max();  // the order of those that run
constexpr size_t kSweep = 500;

Result<Ok> Outcome(const rocksdb::Status& status) {
  if (status.ok()) return Ok{};
  const bool lost = status.IsCorruption() || status.IsPathNotFound();
  return Error{lost ? Code::kDataLoss : Code::kUnavailable, Reason::kNone,
               "the store of logs: " + status.ToString()};
}

Error Damaged(std::string_view what) {
  return {Code::kDataLoss, Reason::kNone,
          "the store of logs: " + std::string(what) + " is damaged"};
}

// The record of a row; false: there is none.
template <typename Record>
Result<bool> Get(rocksdb::DB& db, const std::string& key, Record* record) {
  std::string value;
  const rocksdb::Status status = db.Get({}, key, &value);
  if (status.IsNotFound()) return false;
  if (!status.ok()) return Outcome(status).error();
  if (!record->ParseFromString(value)) return Damaged("a row");
  return true;
}

// Visits the rows of a prefix, from `begin` on, until `visit` returns false.
Result<Ok> Walk(rocksdb::DB& db, std::string_view prefix, std::string_view begin,
                const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  const std::unique_ptr<rocksdb::Iterator> row(db.NewIterator({}));
  for (row->Seek({begin.data(), begin.size()}); row->Valid(); row->Next()) {
    const std::string_view key = row->key().ToStringView();
    if (!key.starts_with(prefix) || !visit(key, row->value().ToStringView())) break;
  }
  return Outcome(row->status());
}

size_t NameHash(std::string_view ns, std::string_view instance) {
  return std::hash<std::string_view>()(ns) * 31 + std::hash<std::string_view>()(instance);
}

std::string NumberText(uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace

// Opening ----------------------------------------------------------------------------------------

Result<std::unique_ptr<LogStore>> LogStore::Open(const Options& options) {
  rocksdb::DB* db = nullptr;
  auto opened = Outcome(rocksdb::DB::Open(LogDatabaseOptions(options.bytes), options.path, &db));
  if (!opened) return opened.error();
  std::unique_ptr<LogStore> store(new LogStore(std::unique_ptr<rocksdb::DB>(db), options));
  auto loaded = store->Load();
  if (!loaded) return loaded.error();
  return store;
}

LogStore::LogStore(std::unique_ptr<rocksdb::DB> db, const Options& options)
    : db_(std::move(db)),
      bound_(options.bytes),
      first_arrival_(static_cast<uint64_t>(std::max<int64_t>(0, Micros(options.now)) / 1'000)
                     << 20) {}

LogStore::~LogStore() { (void)Sync(); }

Result<Ok> LogStore::ReadTotal() {
  std::string total;
  const rocksdb::Status status = db_->Get({}, std::string(log_keys::kTotal), &total);
  if (!status.ok() && !status.IsNotFound()) return Outcome(status);
  total_ = 0;
  if (total.size() == sizeof total_) std::memcpy(&total_, total.data(), sizeof total_);
  bytes_ = total_;
  return Ok{};
}

Result<Ok> LogStore::Load() {
  auto total = ReadTotal();
  if (!total) return total;
  auto walked = Walk(*db_, log_keys::kInstances, log_keys::kInstances,
                     [this](std::string_view key, std::string_view) {
                       if (auto owner = log_keys::OwnerOfInstance(key)) {
                         names_.insert(NameHash(owner->ns, owner->instance));
                       }
                       return true;
                     });
  owners_ = names_.size();
  return walked;
}

// Rows in memory ---------------------------------------------------------------------------------

uint64_t* LogStore::Visit::NumberOf(const std::string& claim) {
  for (auto& [id, number] : numbers) {
    if (id == claim) return &number;
  }
  if (numbers.size() == kNumbers) numbers.erase(numbers.begin());
  return &numbers.emplace_back(claim, 0).second;
}

void LogStore::Forget() {
  instances_.clear();
  visits_ = 0;
}

// What is in memory is ahead of the rows.
void LogStore::Revert() {
  Forget();
  (void)ReadTotal();
}

Result<LogStore::Instance*> LogStore::InstanceOf(const LogOwner& owner, Timestamp time) {
  const std::string key = log_keys::Instance(owner);
  if (auto found = instances_.find(key); found != instances_.end()) return &found->second;
  record::LogInstance row;
  auto read = Get(*db_, key, &row);
  if (!read) return read.error();
  Instance& instance = instances_[key];
  instance.arrival = std::max(row.arrival(), first_arrival_);
  instance.cost = row.cost();
  instance.order = row.order();
  instance.created = *read ? row.create_time() : Micros(time);
  if (!*read && names_.insert(NameHash(owner.ns, owner.instance)).second) owners_ = names_.size();
  return &instance;
}

Result<LogStore::Visit*> LogStore::VisitOf(const LogOwner& owner, Instance& instance,
                                           const LogClaim& claim) {
  if (auto found = instance.visits.find(claim.visit); found != instance.visits.end()) {
    return &found->second;
  }
  record::LogVisit row;
  auto read = Get(*db_, log_keys::Visit(owner, claim.visit), &row);
  if (!read) return read.error();
  Visit& visit = instance.visits[claim.visit];
  ++visits_;
  visit.node = claim.node;
  visit.text = row.text();
  visit.ordinal = row.ordinal();
  for (const auto& one : row.numbers()) visit.numbers.emplace_back(one.claim(), one.number());
  visit.tail = row.tail();
  visit.open = {row.open().first(),  row.open().text(), row.open().cost(),
                row.open().offset(), row.open().head(), row.open().claim()};
  if (visit.open.first == 0) return &visit;
  record::LogPlace place;  // the chunk may have been dropped
  auto listed = Get(*db_, log_keys::Place(owner, claim.visit, visit.open.first), &place);
  if (!listed) return listed.error();
  if (!*listed) visit.open = {};
  return &visit;
}

void LogStore::PutInstance(const LogOwner& owner, const Instance& instance,
                           rocksdb::WriteBatch* batch) {
  record::LogInstance row;
  row.set_arrival(instance.arrival);
  row.set_cost(instance.cost);
  row.set_order(instance.order);
  row.set_create_time(instance.created);
  batch->Put(log_keys::Instance(owner), row.SerializeAsString());
}

void LogStore::PutVisit(const LogOwner& owner, uint64_t number, const Visit& visit,
                        rocksdb::WriteBatch* batch) {
  record::LogVisit row;
  row.set_text(visit.text);
  row.set_ordinal(visit.ordinal);
  row.set_node(visit.node);
  for (const auto& [claim, last] : visit.numbers) {
    record::LogNumber* to = row.add_numbers();
    to->set_claim(claim);
    to->set_number(last);
  }
  row.set_tail(visit.tail);
  if (visit.open.first != 0) {
    record::LogOpen* open = row.mutable_open();
    open->set_first(visit.open.first);
    open->set_text(visit.open.text);
    open->set_cost(visit.open.cost);
    open->set_offset(visit.open.offset);
    open->set_head(visit.open.head);
    open->set_claim(visit.open.claim);
  }
  batch->Put(log_keys::Visit(owner, number), row.SerializeAsString());
}

Result<Ok> LogStore::Commit(rocksdb::WriteBatch* batch) {
  if (batch->Count() == 0) return Ok{};
  batch->Put(std::string(log_keys::kTotal), NumberText(total_));
  auto written = Outcome(db_->Write({}, batch));
  if (!written) {
    (void)db_->Resume();
    Revert();
  }
  bytes_ = total_;
  unsynced_ = true;
  return written;
}

Result<Ok> LogStore::Sync() {
  if (!std::exchange(unsynced_, false)) return Ok{};
  return Outcome(db_->SyncWAL());
}

// Appending --------------------------------------------------------------------------------------

// Fills the chunks of one visit with lines.
class LogStore::Writing {
 public:
  Writing(const LogOwner& owner, const LogClaim& claim, Instance* instance, Visit* visit,
          rocksdb::WriteBatch* batch)
      : owner_(owner), claim_(claim), instance_(*instance), visit_(*visit), batch_(*batch) {}

  void Add(const LogLine& line, uint64_t skipped) {
    instance_.arrival += skipped + 1;
    visit_.ordinal += skipped + 1;
    const bool head = visit_.text + line.text.size() <= kLogHead;
    if (!Fits(head, line.text.size())) Begin(head);
    record::LogText* to = piece_.add_lines();
    to->set_arrival(static_cast<uint32_t>(instance_.arrival - visit_.open.first));
    to->set_ordinal(visit_.ordinal);
    to->set_number(line.number);
    to->set_time(Micros(line.time));
    to->set_stream(line.stream);
    to->set_text(line.text);
    visit_.text += line.text.size();
    visit_.open.text += line.text.size();
  }

  // Returns what the chunks cost in all.
  uint64_t End() {
    Flush();
    return cost_;
  }

 private:
  bool Fits(bool head, size_t text) const {
    const OpenChunk& open = visit_.open;
    return open.first != 0 && open.head == head && open.claim == claim_.claim &&
           open.text + text <= kChunkText && instance_.arrival - open.first < kSpan;
  }

  void Begin(bool head) {
    Flush();
    visit_.open = {instance_.arrival, 0, 0, visit_.text, head, claim_.claim};
    if (!head && visit_.tail == 0) visit_.tail = instance_.arrival;
    piece_.set_claim(claim_.claim);
    piece_.set_node(claim_.node);
    piece_.set_visit(claim_.visit);
    piece_.set_attempt(claim_.attempt);
    piece_.set_worker(claim_.worker);
    piece_.set_dry_run(claim_.dry_run);
    piece_.set_offset(visit_.text);
  }

  void Flush() {
    if (piece_.lines().empty()) return;
    OpenChunk& open = visit_.open;
    const std::string bytes = piece_.SerializeAsString();
    const uint64_t cost = bytes.size() + (open.cost == 0 ? kChunkCost : 0);
    open.cost += cost;
    cost_ += cost;
    record::LogPlace place;
    place.set_offset(open.offset);
    place.set_cost(open.cost);
    batch_.Merge(log_keys::Chunk(owner_, open.first), bytes);
    batch_.Put(log_keys::Place(owner_, claim_.visit, open.first), place.SerializeAsString());
    piece_.Clear();
  }

  const LogOwner& owner_;
  const LogClaim& claim_;
  Instance& instance_;
  Visit& visit_;
  rocksdb::WriteBatch& batch_;
  record::LogChunk piece_;
  uint64_t cost_ = 0;
};

Result<Ok> LogStore::AppendPiece(const Piece& piece, Timestamp time, rocksdb::WriteBatch* batch) {
  auto found = InstanceOf(piece.owner, time);
  if (!found) return found.error();
  Instance& instance = **found;
  auto at = VisitOf(piece.owner, instance, piece.claim);
  if (!at) return at.error();
  Visit& visit = **at;
  uint64_t* last = visit.NumberOf(piece.claim.claim);
  Writing writing(piece.owner, piece.claim, &instance, &visit, batch);
  uint64_t taken = 0;
  uint64_t left_out = 0;
  for (const LogLine& line : piece.lines) {
    if (line.number <= *last) continue;
    const uint64_t skipped = line.number - *last - 1;
    writing.Add(line, skipped);
    *last = line.number;
    ++taken;
    left_out += skipped;
  }
  if (taken == 0) return Ok{};
  const uint64_t cost = writing.End();
  instance.cost += cost;
  total_ += cost;
  if (instance.order == 0) {
    instance.order = kRuns;
    batch->Put(log_keys::Turn(kRuns, instance.created, piece.owner), "");
  }
  PutVisit(piece.owner, piece.claim.visit, visit, batch);
  PutInstance(piece.owner, instance, batch);
  lines_ += taken;
  left_out_ += left_out;
  return Ok{};
}

Result<Ok> LogStore::Append(std::span<const Piece> pieces, Timestamp time) {
  if (visits_ + instances_.size() > kVisitsInMemory) Forget();
  rocksdb::WriteBatch batch;
  for (const Piece& piece : pieces) {
    auto appended = AppendPiece(piece, time, &batch);
    if (!appended) {
      Revert();
      return appended;
    }
  }
  auto written = Commit(&batch);
  if (!written) return written;
  rocksdb::WriteBatch trims;
  for (const Piece& piece : pieces) {
    auto trimmed = Trim(piece.owner, piece.claim.visit, &trims);
    if (!trimmed) return trimmed;
  }
  return Commit(&trims);
}

// Drops chunks of a visit that hold nothing of its last lines any more.
Result<Ok> LogStore::Trim(const LogOwner& owner, uint64_t number, rocksdb::WriteBatch* batch) {
  auto found = instances_.find(log_keys::Instance(owner));
  if (found == instances_.end()) return Ok{};
  Instance& instance = found->second;
  auto at = instance.visits.find(number);
  if (at == instance.visits.end()) return Ok{};
  Visit& visit = at->second;
  if (visit.tail == 0 || visit.text <= kLogTail || visit.text < visit.trim_at) return Ok{};
  std::optional<std::pair<uint64_t, uint64_t>> oldest;  // its first arrival and its cost
  bool dropped = false;
  auto walked =
      Walk(*db_, log_keys::Places(owner, number), log_keys::Place(owner, number, visit.tail),
           [&](std::string_view key, std::string_view value) {
             record::LogPlace place;
             if (!place.ParseFromArray(value.data(), static_cast<int>(value.size()))) return false;
             visit.trim_at = place.offset() + kLogTail;
             if (oldest && visit.trim_at > visit.text) return false;
             if (oldest) {
               batch->Delete(log_keys::Chunk(owner, oldest->first));
               batch->Delete(log_keys::Place(owner, number, oldest->first));
               instance.cost -= std::min(instance.cost, oldest->second);
               total_ -= std::min(total_, oldest->second);
               dropped = true;
             }
             oldest = {log_keys::Last(key), place.cost()};
             visit.tail = oldest->first;
             return true;
           });
  if (!dropped) return walked;
  PutVisit(owner, number, visit, batch);
  PutInstance(owner, instance, batch);
  return walked;
}

// What goes first --------------------------------------------------------------------------------

Result<Ok> LogStore::Move(const LogOwner& owner, const std::string& turn, int64_t order) {
  Forget();
  record::LogInstance row;
  auto read = Get(*db_, log_keys::Instance(owner), &row);
  if (!read) return read.error();
  rocksdb::WriteBatch batch;
  batch.Delete(turn);
  if (*read) {
    row.set_order(order);
    batch.Put(log_keys::Instance(owner), row.SerializeAsString());
    if (order != 0) batch.Put(log_keys::Turn(order, row.create_time(), owner), "");
  }
  return Commit(&batch);
}

// Finds out which of those that ran have stopped meanwhile.
Result<Ok> LogStore::Reorder(const StandingOf& standing) {
  std::vector<std::string> running;
  std::string begin(log_keys::kTurns);
  begin += log_keys::Turn(kRuns, 0, {}).substr(1, sizeof(int64_t));
  auto walked = Walk(*db_, log_keys::kTurns, begin, [&](std::string_view key, std::string_view) {
    running.emplace_back(key);
    return true;
  });
  if (!walked) return walked;
  for (const std::string& turn : running) {
    const auto owner = log_keys::OwnerOfTurn(turn);
    if (!owner) continue;
    const Standing now = standing(*owner);
    if (now.kind == Standing::Kind::kRuns) continue;
    auto done =
        now.kind == Standing::Kind::kGone ? Drop(*owner) : Move(*owner, turn, Micros(now.time));
    if (!done) return done;
  }
  return Ok{};
}

Result<Ok> LogStore::Shrink(uint64_t bytes, const StandingOf& standing) {
  if (total_ <= bytes) return Ok{};
  auto ordered = Reorder(standing);
  if (!ordered) return ordered;
  while (total_ > bytes) {
    std::string first;
    auto walked = Walk(*db_, log_keys::kTurns, log_keys::kTurns,
                       [&first](std::string_view key, std::string_view) {
                         first = key;
                         return false;
                       });
    if (!walked) return walked;
    if (first.empty()) {  // nobody is left who could have any
      total_ = 0;
      bytes_ = 0;
      return Ok{};
    }
    auto shrunk = ShrinkOne(first, bytes, standing);
    if (!shrunk) return shrunk;
  }
  return Ok{};
}

// Drops of the first one of the list what has to go, and takes it from the list when nothing is
// left of it.
Result<Ok> LogStore::ShrinkOne(const std::string& turn, uint64_t bytes,
                               const StandingOf& standing) {
  const auto owner = log_keys::OwnerOfTurn(turn);
  if (!owner) {
    rocksdb::WriteBatch batch;
    batch.Delete(turn);
    return Commit(&batch);
  }
  const int64_t order = log_keys::OrderOfTurn(turn);
  const Standing now = standing(*owner);
  if (now.kind == Standing::Kind::kGone) return Drop(*owner);
  const bool runs = now.kind == Standing::Kind::kRuns;
  const int64_t right = runs ? kRuns : Micros(now.time);
  if (right != order) return Move(*owner, turn, right);  // it was resumed, or has stopped just now
  auto dropped = DropFirstChunks(*owner, !runs, total_ - bytes);
  if (!dropped || total_ <= bytes) return dropped;
  return Move(*owner, turn, 0);
}

Result<Ok> LogStore::DropFirstChunks(const LogOwner& owner, bool stopped, uint64_t bytes) {
  Forget();
  record::LogInstance row;
  auto read = Get(*db_, log_keys::Instance(owner), &row);
  if (!read) return read.error();
  rocksdb::WriteBatch batch;
  uint64_t freed = 0;
  const std::string prefix = log_keys::Chunks(owner);
  bool all = true;
  auto walked = Walk(*db_, prefix, prefix, [&](std::string_view key, std::string_view value) {
    all = freed < bytes;
    if (!all) return false;
    record::LogChunk chunk;
    if (chunk.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      batch.Delete(log_keys::Place(owner, chunk.visit(), log_keys::Last(key)));
    }
    batch.Delete({key.data(), key.size()});
    freed += value.size() + kChunkCost;
    return true;
  });
  if (!walked) return walked;
  if (all) freed = std::max(freed, row.cost());  // whatever was reckoned wrongly ends here
  if (all && stopped) {
    const std::string visits = log_keys::Visits(owner);
    walked = Walk(*db_, visits, visits, [&batch](std::string_view key, std::string_view) {
      batch.Delete({key.data(), key.size()});
      return true;
    });
    if (!walked) return walked;
  }
  total_ -= std::min(total_, freed);
  row.set_cost(row.cost() - std::min<uint64_t>(row.cost(), freed));
  batch.Put(log_keys::Instance(owner), row.SerializeAsString());
  return Commit(&batch);
}

Result<Ok> LogStore::Drop(const LogOwner& owner) {
  Forget();
  record::LogInstance row;
  auto read = Get(*db_, log_keys::Instance(owner), &row);
  if (!read) return read.error();
  rocksdb::WriteBatch batch;
  for (const std::string& prefix :
       {log_keys::Chunks(owner), log_keys::Visits(owner), log_keys::PlacesOf(owner)}) {
    auto walked = Walk(*db_, prefix, prefix, [&batch](std::string_view key, std::string_view) {
      batch.Delete({key.data(), key.size()});
      return true;
    });
    if (!walked) return walked;
  }
  batch.Delete(log_keys::Instance(owner));
  if (row.order() != 0) batch.Delete(log_keys::Turn(row.order(), row.create_time(), owner));
  total_ -= std::min(total_, row.cost());
  return Commit(&batch);
}

Result<bool> LogStore::DropGone(const std::string& ns, const std::string& instance,
                                const StandingOf& standing) {
  if (!names_.contains(NameHash(ns, instance))) return false;
  std::vector<LogOwner> owners;
  const std::string prefix = log_keys::InstancesOf(ns, instance);
  auto walked = Walk(*db_, prefix, prefix, [&](std::string_view key, std::string_view) {
    if (auto owner = log_keys::OwnerOfInstance(key)) owners.push_back(*std::move(owner));
    return true;
  });
  if (!walked) return walked.error();
  bool left = false;
  for (const LogOwner& owner : owners) {
    if (standing(owner).kind != Standing::Kind::kGone) {
      left = true;
      continue;
    }
    auto dropped = Drop(owner);
    if (!dropped) return dropped.error();
  }
  if (!left) names_.erase(NameHash(ns, instance));
  owners_ = names_.size();
  return true;
}

Result<bool> LogStore::SweepGone(const StandingOf& standing) {
  std::vector<LogOwner> owners;
  bool more = false;
  auto walked = Walk(*db_, log_keys::kInstances,
                     swept_.empty() ? std::string(log_keys::kInstances) : swept_ + '\0',
                     [&](std::string_view key, std::string_view) {
                       more = owners.size() == kSweep;
                       if (more) return false;
                       swept_ = key;
                       if (auto owner = log_keys::OwnerOfInstance(key)) {
                         owners.push_back(*std::move(owner));
                       }
                       return true;
                     });
  if (!walked) return walked.error();
  for (const LogOwner& owner : owners) {
    if (standing(owner).kind != Standing::Kind::kGone) continue;
    auto dropped = Drop(owner);
    if (!dropped) return dropped.error();
  }
  return more;
}

Result<Ok> LogStore::Reclaim() {
  auto flushed = Outcome(db_->Flush({}));
  if (!flushed) return flushed;
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  return Outcome(db_->CompactRange(options, nullptr, nullptr));
}

}  // namespace dfsmr
