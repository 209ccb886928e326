#include "storage/logs/log_store.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "record.pb.h"
#include "storage/logs/keys.h"
#include "storage/logs/row.h"

namespace dfsmr {
namespace {

constexpr uint64_t kChunkText = 32 << 10;
constexpr size_t kNumbers = 100;  // claims remembered of a visit, as limits.h has it
constexpr size_t kVisitsInMemory = 20'000;
// In a far table so much more of a visit's text is kept at times: its oldest chunks are looked for,
// and go, some at once.
constexpr uint64_t kTrimLate = 512 << 10;

std::string_view BytesOf(const uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

uint64_t ArrivalAt(Timestamp time) {
  return static_cast<uint64_t>(std::max<int64_t>(0, Micros(time)) / 1'000) << 20;
}

}  // namespace

// Opening ----------------------------------------------------------------------------------------

LogStore::LogStore(std::unique_ptr<LogTable> table, const Options& options)
    : table_(std::move(table)),
      far_(table_->Far()),
      bound_(options.bytes),
      first_arrival_(ArrivalAt(options.now)) {}

LogStore::~LogStore() { (void)Sync(); }

Result<Ok> LogStore::ReadTotal() {
  auto total = table_->Get(log_keys::kTotal);
  if (!total) return total.error();
  total_ = 0;
  if (*total && (*total)->size() == sizeof total_) {
    std::memcpy(&total_, (*total)->data(), sizeof total_);
  }
  bytes_ = total_;
  return Ok{};
}

Result<Ok> LogStore::Load() {
  auto total = ReadTotal();
  if (!total) return total;
  names_.clear();
  auto walked = Walk(log_keys::kInstances, log_keys::kInstances,
                     [this](std::string_view key, std::string_view) {
                       if (auto owner = log_keys::OwnerOfInstance(key)) {
                         names_.insert(LogNameHash(owner->ns, owner->instance));
                       }
                       return true;
                     });
  if (walked) owners_ = names_.size();
  return walked;
}

Result<Ok> LogStore::Sync() { return table_->Sync(); }

Result<Ok> LogStore::Reclaim() { return table_->Reclaim(); }

// Visits the rows of a prefix, from `begin` on, until `visit` returns false.
Result<Ok> LogStore::Walk(std::string_view prefix, std::string_view begin,
                          const View::Visit& visit) const {
  return table_->Scan(begin, PrefixEnd(prefix), visit);
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

// Readers may have come to where lines were that are lost, so those that follow arrive later.
void LogStore::Revert() {
  Forget();
  reverted_ = arrives_anew_ = true;
}

Result<Ok> LogStore::BeReady() {
  if (!reverted_) return Ok{};
  auto total = ReadTotal();
  if (total) reverted_ = false;
  return total;
}

Result<LogStore::Instance*> LogStore::InstanceOf(const LogOwner& owner, Timestamp time) {
  const std::string key = log_keys::Instance(owner);
  if (auto found = instances_.find(key); found != instances_.end()) return &found->second;
  record::LogInstance row;
  auto read = Get(key, &row);
  if (!read) return read.error();
  Instance& instance = instances_[key];
  instance.arrival = std::max(row.arrival(), first_arrival_);
  instance.cost = row.cost();
  instance.order = row.order();
  instance.created = *read ? row.create_time() : Micros(time);
  if (!*read && names_.insert(LogNameHash(owner.ns, owner.instance)).second) {
    owners_ = names_.size();
  }
  return &instance;
}

Result<LogStore::Visit*> LogStore::VisitOf(const LogOwner& owner, Instance& instance,
                                           const LogClaim& claim) {
  if (auto found = instance.visits.find(claim.visit); found != instance.visits.end()) {
    return &found->second;
  }
  record::LogVisit row;
  auto read = Get(log_keys::Visit(owner, claim.visit), &row);
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
  auto listed = Get(log_keys::Place(owner, claim.visit, visit.open.first), &place);
  if (!listed) return listed.error();
  if (!*listed) visit.open = {};
  return &visit;
}

void LogStore::PutInstance(const LogOwner& owner, const Instance& instance,
                           LogBatch& batch) const {
  record::LogInstance row;
  row.set_arrival(instance.arrival);
  row.set_cost(instance.cost);
  row.set_order(instance.order);
  row.set_create_time(instance.created);
  batch.Put(log_keys::Instance(owner), row.SerializeAsString());
}

void LogStore::PutVisit(const LogOwner& owner, uint64_t number, const Visit& visit,
                        LogBatch& batch) const {
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
  if (visit.open.first != 0 && !far_) {
    record::LogOpen* open = row.mutable_open();
    open->set_first(visit.open.first);
    open->set_text(visit.open.text);
    open->set_cost(visit.open.cost);
    open->set_offset(visit.open.offset);
    open->set_head(visit.open.head);
    open->set_claim(visit.open.claim);
  }
  batch.Put(log_keys::Visit(owner, number), row.SerializeAsString());
}

Result<Ok> LogStore::Commit(LogBatch& batch) {
  if (batch.empty()) return Ok{};
  batch.Put(log_keys::kTotal, BytesOf(total_));
  auto written = table_->Write(batch);
  if (!written) {
    Revert();
    if (!far_) (void)BeReady();
    return written;
  }
  bytes_ = total_;
  return written;
}

// Appending --------------------------------------------------------------------------------------

// Fills the chunks of one visit with lines.
class LogStore::Writing {
 public:
  Writing(const LogOwner& owner, const LogClaim& claim, Instance* instance, Visit* visit,
          const LogStore& store, LogBatch& batch)
      : owner_(owner),
        claim_(claim),
        instance_(*instance),
        visit_(*visit),
        span_(store.span()),
        chunk_cost_(LogChunkCost(store.far())),
        batch_(batch) {}

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
           open.text + text <= kChunkText && instance_.arrival - open.first < span_;
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
    const uint64_t cost = bytes.size() + (open.cost == 0 ? chunk_cost_ : 0);
    open.cost += cost;
    cost_ += cost;
    record::LogPlace place;
    place.set_offset(open.offset);
    place.set_cost(open.cost);
    batch_.Append(log_keys::Chunk(owner_, open.first), bytes);
    batch_.Put(log_keys::Place(owner_, claim_.visit, open.first), place.SerializeAsString());
    piece_.Clear();
  }

  const LogOwner& owner_;
  const LogClaim& claim_;
  Instance& instance_;
  Visit& visit_;
  const uint64_t span_;
  const uint64_t chunk_cost_;
  LogBatch& batch_;
  record::LogChunk piece_;
  uint64_t cost_ = 0;
};

Result<Ok> LogStore::AppendPiece(const Piece& piece, Timestamp time, LogBatch& batch) {
  auto found = InstanceOf(piece.owner, time);
  if (!found) return found.error();
  Instance& instance = **found;
  auto at = VisitOf(piece.owner, instance, piece.claim);
  if (!at) return at.error();
  Visit& visit = **at;
  uint64_t* last = visit.NumberOf(piece.claim.claim);
  Writing writing(piece.owner, piece.claim, &instance, &visit, *this, batch);
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
    instance.order = kLogRuns;
    batch.Put(log_keys::Turn(kLogRuns, instance.created, piece.owner), "");
  }
  PutVisit(piece.owner, piece.claim.visit, visit, batch);
  PutInstance(piece.owner, instance, batch);
  lines_ += taken;
  left_out_ += left_out;
  return Ok{};
}

// Reads what is known of the pieces' instances and visits, and is not in memory, in one go.
Result<Ok> LogStore::Fetch(std::span<const Piece> pieces) {
  std::set<std::string> wanted;
  for (const Piece& piece : pieces) {
    std::string key = log_keys::Instance(piece.owner);
    const auto found = instances_.find(key);
    if (found != instances_.end() && found->second.visits.contains(piece.claim.visit)) continue;
    if (found == instances_.end()) wanted.insert(std::move(key));
    wanted.insert(log_keys::Visit(piece.owner, piece.claim.visit));
  }
  if (wanted.empty()) return Ok{};
  const std::vector<std::string> keys(wanted.begin(), wanted.end());
  auto values = table_->GetMany(keys);
  if (!values) return values.error();
  for (size_t i = 0; i < keys.size(); ++i) fetched_.emplace(keys[i], std::move((*values)[i]));
  return Ok{};
}

// Each chunk is written once.
void LogStore::Close(std::span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    const auto found = instances_.find(log_keys::Instance(piece.owner));
    if (found == instances_.end()) continue;
    const auto visit = found->second.visits.find(piece.claim.visit);
    if (visit != found->second.visits.end()) visit->second.open = {};
  }
}

Result<Ok> LogStore::AppendAll(std::span<const Piece> pieces, Timestamp time) {
  const std::unique_ptr<LogBatch> batch = table_->NewBatch();
  for (const Piece& piece : pieces) {
    auto appended = AppendPiece(piece, time, *batch);
    if (!appended) return appended;
  }
  for (const Piece& piece : pieces) {
    auto trimmed = Trim(piece.owner, piece.claim.visit, *batch);
    if (!trimmed) return trimmed;
  }
  return Commit(*batch);
}

Result<Ok> LogStore::Append(std::span<const Piece> pieces, Timestamp time) {
  if (auto ready = BeReady(); !ready) return ready;
  if (visits_ + instances_.size() > kVisitsInMemory) Forget();
  if (std::exchange(arrives_anew_, false)) {
    first_arrival_ = std::max(first_arrival_, ArrivalAt(time));
  }
  const uint64_t lines = lines_;
  const uint64_t left_out = left_out_;
  auto appended = far_ ? Fetch(pieces) : Ok{};
  if (appended) appended = AppendAll(pieces, time);
  fetched_.clear();
  if (appended) {
    if (far_) Close(pieces);
    return appended;
  }
  lines_ = lines;
  left_out_ = left_out;
  Revert();
  if (!far_) (void)BeReady();
  return appended;
}

// Drops chunks of a visit that hold nothing of its last lines any more.
Result<Ok> LogStore::Trim(const LogOwner& owner, uint64_t number, LogBatch& batch) {
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
      Walk(log_keys::Places(owner, number), log_keys::Place(owner, number, visit.tail),
           [&](std::string_view key, std::string_view value) {
             record::LogPlace place;
             if (!place.ParseFromArray(value.data(), static_cast<int>(value.size()))) return false;
             const uint64_t trim_at = place.offset() + kLogTail;
             visit.trim_at = trim_at + (far_ ? kTrimLate : 0);
             if (oldest && trim_at > visit.text) return false;
             if (oldest) {
               batch.Delete(log_keys::Chunk(owner, oldest->first));
               batch.Delete(log_keys::Place(owner, number, oldest->first));
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

}  // namespace dfsmr
