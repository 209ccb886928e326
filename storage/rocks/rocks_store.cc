#include "storage/rocks/rocks_store.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/iostats_context.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/sst_partitioner.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

#include "storage/fence.h"
#include "storage/moved.h"
#include "storage/rocks/copy.h"
#include "storage/rocks/environment.h"
#include "storage/rocks/file.h"
#include "storage/rocks/insert_hints.h"
#include "storage/rocks/rocks_view.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;

constexpr int kFormat = 1;
constexpr std::string_view kFormatText = "dfsmr store format ";
constexpr size_t kMemtables = 3;
// Rows are on the disk twice for moments: in the log and in the table that it becomes, or in tables
// and in those that they are merged into. That is at most about four memtables: as many lie in logs
// or are merged at once (level0_file_num_compaction_trigger). While rows that cannot be compressed
// came in archives of 60 and 250 MiB, up to 110 MiB were measured with memtables of 64 MiB.
constexpr size_t kWorkingMemtables = 4;
constexpr size_t kProtectionBytes = 8;  // a checksum per operation, from our batch to the table

// How long this thread waits for syncs, from its making on. RocksDB counts that for each thread,
// which costs a few readings of the clock for each write.
class SyncClock {
 public:
  SyncClock() {
    thread_local const bool counts = [] {
      rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableTimeExceptForMutex);
      return true;
    }();
    (void)counts;
    before_ = Now();
  }
  uint64_t Microseconds() const { return (Now() - before_) / 1'000; }

 private:
  static uint64_t Now() { return rocksdb::get_iostats_context()->fsync_nanos; }
  uint64_t before_;
};

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

rocksdb::Options DatabaseOptions(const RocksStore::Options& ours) {
  rocksdb::Options options;
  options.env = StoreEnvironment();
  // After a power cut the log may end in half a record, which was never acknowledged. Anything else
  // that cannot be read is a loss, and refused; RocksDB's default mode would quietly drop all rows
  // after it. This mode rules out recycled log files: RocksDB turns them off.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  options.paranoid_checks = true;
  options.memtable_protection_bytes_per_key = kProtectionBytes;

  options.IncreaseParallelism(ours.background_threads);
  options.bytes_per_sync = 1 << 20;  // tables reach the disk as they are written, not in one burst
  options.compression = rocksdb::kLZ4Compression;
  options.level_compaction_dynamic_level_bytes = true;
  options.write_buffer_size = ours.memtable_mb << 20;
  // The level that new tables are merged into holds about as much as four of them, which compressed
  // and without what was overwritten are a seventh of their memtables. In a larger one rows that
  // rest would stay, and be written again with each merge.
  options.max_bytes_for_level_base = options.write_buffer_size / 2;
  options.target_file_size_base = options.write_buffer_size / 8;
  options.target_file_size_multiplier = 2;
  options.compaction_pri = rocksdb::kOldestLargestSeqFirst;  // what rests moves down first
  // A table holds rows of one kind: those of the feed, which grows at its end only, then move down
  // as they are.
  options.sst_partitioner_factory = rocksdb::NewSstPartitionerFixedPrefixFactory(kKindEnds);
  options.max_write_buffer_number = kMemtables;
  options.max_open_files = ours.max_open_files;
  options.max_log_file_size = 16 << 20;
  options.keep_log_file_num = 4;

  rocksdb::BlockBasedTableOptions table;
  const size_t memtables = kMemtables * options.write_buffer_size;
  table.block_cache = rocksdb::NewLRUCache((ours.cache_mb << 20) + memtables);
  // In pieces of a block: one of a whole table is up to a megabyte, read again for every key once
  // the cache does not hold them all.
  table.partition_filters = true;
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(memtables, table.block_cache);
  return options;
}

// A file that a crash leaves behind while a store is being made, before it holds any rows.
bool IsLeftover(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  for (const std::string_view exact : {"CURRENT", "IDENTITY", "LOCK", "LOG", "HIGH_WATER",
                                       "HIGH_WATER.new", "FORMAT.new", "lost+found"}) {
    if (name == exact) return true;
  }
  for (const std::string_view start : {"MANIFEST-", "OPTIONS-", "LOG.old."}) {
    if (name.starts_with(start)) return true;
  }
  std::error_code failure;
  return name.ends_with(".dbtmp") || (name.ends_with(".log") && entry.file_size(failure) == 0);
}

Result<Ok> CheckFormat(const fs::path& path) {
  std::ifstream file(path / "FORMAT");
  if (!file) return FileError("read", path / "FORMAT");
  std::string text;
  std::getline(file, text);
  const auto format = text.starts_with(kFormatText)
                          ? ParseNumber<int>(std::string_view(text).substr(kFormatText.size()))
                          : std::nullopt;
  if (!format) {
    return Error{Code::kDataLoss, Reason::kNone,
                 (path / "FORMAT").string() + " is damaged: it should say \"" +
                     std::string(kFormatText) + std::to_string(kFormat) +
                     "\"; restore the store from a backup"};
  }
  if (*format > kFormat) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 "store " + path.string() + " was written by a newer dsrv: it has format " +
                     std::to_string(*format) + ", this dsrv knows up to " +
                     std::to_string(kFormat) + "; run the newer dsrv, or restore an older backup"};
  }
  return Ok{};
}

// By itself RocksDB makes a new database wherever CURRENT is missing, even on top of an old one.
// True: there is a store, so RocksDB must not make one. False: there is none, and one may be made.
Result<bool> Inspect(const fs::path& path, bool create_if_missing) {
  const Error none{Code::kNotFound, Reason::kNone, "no store in " + path.string()};
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) {
    if (!create_if_missing) return none;
    if (const auto made = CreateFolders(path); !made) return made.error();
  } else if (!fs::is_directory(status)) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 path.string() + " is not a directory: name one for the store"};
  }
  if (access(path.c_str(), R_OK | W_OK | X_OK) != 0) return FileError("write in directory", path);

  if (fs::exists(path / "FORMAT", failure)) {
    if (const auto known = CheckFormat(path); !known) return known.error();
    if (fs::exists(path / "CURRENT", failure)) return true;
    return Error{Code::kDataLoss, Reason::kNone,
                 "store " + path.string() + " is damaged: its file CURRENT is missing; restore " +
                     "the store from a backup"};
  }
  if (fs::exists(path / kRestoring, failure)) {
    return Error{Code::kFailedPrecondition, Reason::kNone,
                 path.string() + " is half restored (" + std::string(kRestoring) +
                     "): a restore into it was broken off; repeat it: dsrv --restore FILE|FOLDER " +
                     "--data " + path.string()};
  }
  fs::directory_iterator entries(path, failure);
  if (failure) return FileError("list", path);
  for (const auto& entry : entries) {
    if (IsLeftover(entry)) continue;
    return Error{
        Code::kFailedPrecondition, Reason::kNone,
        path.string() + " is not empty (" + entry.path().filename().string() +
            "), and not a store, since it has no file FORMAT: name an empty directory; or, " +
            "if only that file was lost, put it back: it says \"" + std::string(kFormatText) +
            std::to_string(kFormat) + "\""};
  }
  if (!create_if_missing) return none;
  return false;
}

Error OpenError(const fs::path& path, const rocksdb::Status& status) {
  const std::string store = "store " + path.string();
  const std::string text = status.ToString();
  const std::string lock_file = (path / "LOCK").string();
  if (status.IsIOError() && text.find("lock") != std::string::npos &&
      text.find(lock_file) != std::string::npos) {
    return {Code::kFailedPrecondition, Reason::kNone,
            "another dsrv holds " + store + ": stop it first, or name another directory (" + text +
                ")"};
  }
  if (status.IsCorruption() || status.IsPathNotFound()) {
    return {Code::kDataLoss, Reason::kNone,
            store + " is damaged and was not opened: " + text + "; restore it from a backup"};
  }
  if (status.IsIOError()) {
    return {Code::kUnavailable, Reason::kNone,
            store + " cannot be opened: " + text +
                "; check the disk, its free space, and who may write in the directory"};
  }
  return {Code::kFailedPrecondition, Reason::kNone, store + " cannot be opened: " + text};
}

// Opening a store writes tables from its logs, so it needs as much space and a little more. RocksDB
// ends the process by an assertion when the disk is full while it does that.
Result<Ok> CheckRoom(const fs::path& path) {
  uintmax_t needed = 1 << 20;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(path, failure)) {
    if (entry.path().extension() != ".log") continue;
    const uintmax_t size = entry.file_size(failure);
    if (!failure) needed += size;
  }
  const fs::space_info disk = fs::space(path, failure);
  if (failure || disk.available >= needed) return Ok{};
  return Error{Code::kUnavailable, Reason::kNone,
               "the disk of store " + path.string() + " is full: to be opened it needs " +
                   std::to_string(needed >> 10) + " KiB, and " +
                   std::to_string(disk.available >> 10) +
                   " KiB are free; make room and start again"};
}

uint64_t DrawIncarnation() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

Result<std::unique_ptr<HighWater>> CheckHighWater(const fs::path& path, uint64_t sequence) {
  const fs::path file = path / "HIGH_WATER";
  auto opened = HighWater::Open(file);
  if (!opened && opened.error().code == Code::kNotFound) {
    return HighWater::Create(file, {sequence, DrawIncarnation()});
  }
  const std::string accept =
      " restore the store from a backup; or, to go on with what is there, delete " + file.string() +
      " and start again";
  if (!opened && opened.error().code == Code::kDataLoss) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "store " + path.string() + " may have lost writes, and nothing shows whether: " +
                     opened.error().message + ";" + accept};
  }
  if (!opened) return opened.error();
  const uint64_t remembered = (*opened)->mark().sequence;
  if (sequence < remembered) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "store " + path.string() + " has lost writes: it ends at sequence number " +
                     std::to_string(sequence) + ", and " + std::to_string(remembered) +
                     " was durable (" + std::to_string(remembered - sequence) +
                     " operations are missing). A log file (*.log) was deleted or cut, or older " +
                     "files were put in place:" + accept};
  }
  return opened;
}

rocksdb::WriteBatch ToRocks(const Batch& batch, PartitionId partition, Epoch epoch) {
  constexpr size_t kPerOperation = 16;  // tag and lengths
  rocksdb::WriteBatch rows(batch.bytes() + batch.operations().size() * kPerOperation, 0,
                           kProtectionBytes, 0);
  bool ranges = false;
  for (const auto& [kind, key, value] : batch.operations()) {
    switch (kind) {
      case Batch::Operation::Kind::kPut:
        rows.Put(key, value);
        break;
      case Batch::Operation::Kind::kDelete:
        rows.Delete(key);
        break;
      case Batch::Operation::Kind::kDeleteRange:
        Check(!value.empty(), "a range to delete has an end");
        if (key >= value) break;
        InsertHints::AddRange(&rows, key, value);
        ranges = true;
        break;
    }
  }
  // A range may cover the whole partition, but must not delete its epoch.
  if (ranges) rows.Put(EpochKey(partition), std::to_string(epoch));
  return rows;
}

// "": there is none.
Result<std::string> ReadMark(const fs::path& path) {
  std::error_code failure;
  if (!fs::exists(path / "MOVED", failure)) return std::string();
  std::ifstream file(path / "MOVED");
  std::string mark;
  if (std::getline(file, mark) && !mark.empty()) return mark;
  return FileError("read", path / "MOVED");
}

}  // namespace

std::string FormatText() { return std::string(kFormatText) + std::to_string(kFormat) + "\n"; }

Result<std::unique_ptr<RocksStore>> RocksStore::Open(const Options& options) {
  fs::path path = fs::absolute(options.path).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "data/"
  const auto exists = Inspect(path, options.create_if_missing);
  if (!exists) return exists.error();
  const auto mark = ReadMark(path);
  if (!mark) return mark.error();
  if (!mark->empty() && !options.marked_too) return NotHere("store " + path.string(), *mark);
  if (const auto room = CheckRoom(path); !room) return room.error();

  rocksdb::Options database = DatabaseOptions(options);
  database.create_if_missing = !*exists;
  const auto hints = std::make_shared<InsertHints>();
  database.memtable_insert_with_hint_prefix_extractor = hints;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(database, path.string(), &opened);
  if (!status.ok()) return OpenError(path, status);
  std::unique_ptr<rocksdb::DB> db(opened);
  hints->Begin();
  if (options.verify_checksums) {
    if (const auto sound = db->VerifyChecksum(); !sound.ok()) return OpenError(path, sound);
  }

  // Recovery has flushed what it read from the log: all up to here is durable.
  const uint64_t sequence = db->GetLatestSequenceNumber();
  auto high_water = *exists ? CheckHighWater(path, sequence)
                            : HighWater::Create(path / "HIGH_WATER", {sequence, DrawIncarnation()});
  if (!high_water) return high_water.error();
  if (!*exists) {
    const auto made = ReplaceFile(path / "FORMAT", FormatText());
    if (!made) return made.error();
  }
  return std::unique_ptr<RocksStore>(new RocksStore(
      std::move(path), std::move(db), *std::move(high_water), options.high_water_period));
}

RocksStore::RocksStore(fs::path path, std::unique_ptr<rocksdb::DB> db,
                       std::unique_ptr<HighWater> high_water,
                       std::chrono::milliseconds high_water_period)
    : path_(std::move(path)),
      db_(std::move(db)),
      durable_sequence_(db_->GetLatestSequenceNumber()),
      high_water_(std::move(high_water)),
      incarnation_(high_water_->mark().incarnation),
      reclaimer_(*db_),
      follower_([this, high_water_period] { FollowHighWater(high_water_period); }) {
  if (const auto raised = high_water_->Raise(durable_sequence_); !raised) {
    Stop(raised.error().message);
  }
}

RocksStore::~RocksStore() {
  {
    const Lock lock(closing_mutex_);
    closing_ = true;
  }
  closing_changed_.NotifyOne();
  follower_.join();
}

void RocksStore::FollowHighWater(std::chrono::milliseconds period) {
  Lock lock(closing_mutex_);
  for (bool last = false; !last;) {
    last = closing_changed_.WaitFor(lock, period,
                                    [this]() REQUIRES(closing_mutex_) { return closing_; });
    lock.Unlock();
    const auto synced = high_water_->Sync();
    if (!synced) Stop(synced.error().message);
    lock.Relock();
  }
}

RocksStore::Owner& RocksStore::OwnerOf(PartitionId partition) {
  const Lock lock(owners_mutex_);
  return owners_[partition];
}

uint64_t RocksStore::WorkingBytes(size_t memtable_mb) {
  return kWorkingMemtables * (uint64_t{memtable_mb} << 20);
}

std::string RocksStore::Version() {
  return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
         std::to_string(ROCKSDB_PATCH);
}

Result<std::string> RocksStore::Mark() const { return ReadMark(path_); }

Result<Ok> RocksStore::SetMark(const std::string& mark) {
  if (!mark.empty()) return ReplaceFile(path_ / "MOVED", mark + "\n");
  std::error_code failure;
  fs::remove(path_ / "MOVED", failure);
  return failure ? Result<Ok>(FileError("delete", path_ / "MOVED")) : Result<Ok>(Ok{});
}

Result<Epoch> RocksStore::AcquireAbove(PartitionId partition, Epoch above) {
  Owner& owner = OwnerOf(partition);
  const Lock lock(owner.mutex);
  const std::string key = EpochKey(partition);
  const auto stored = Get(key);
  if (!stored) return stored.error();
  const auto epoch = *stored ? ParseNumber<Epoch>(**stored) : Epoch{0};
  if (!epoch) {
    return Error{Code::kDataLoss, Reason::kNone,
                 "the epoch of partition " + std::to_string(partition) + " is unreadable: \"" +
                     **stored + "\""};
  }
  const Epoch next = std::max(*epoch, above) + 1;
  rocksdb::WriteBatch batch;
  batch.Put(key, std::to_string(next));
  if (const auto committed = Commit(batch); !committed) return committed.error();
  return owner.epoch = next;
}

std::unique_ptr<const View> RocksStore::Snapshot() const { return SnapshotOf(*db_); }

Result<std::optional<std::string>> RocksStore::Get(std::string_view key) const {
  return RocksView(*db_).Get(key);
}

Result<Ok> RocksStore::Scan(std::string_view begin, std::string_view end, const Visit& visit,
                            bool reverse) const {
  return RocksView(*db_).Scan(begin, end, visit, reverse);
}

Result<Ok> RocksStore::ScanOnce(std::string_view begin, std::string_view end,
                                const Visit& visit) const {
  return RocksView(*db_).ScanOnce(begin, end, visit);
}

Result<Ok> RocksStore::Write(PartitionId partition, Epoch epoch, const Batch& batch) {
  Owner& owner = OwnerOf(partition);
  const Lock lock(owner.mutex);
  if (owner.epoch == 0 || epoch != owner.epoch) return Superseded(partition, epoch, owner.epoch);
  rocksdb::WriteBatch rows = ToRocks(batch, partition, epoch);
  if (auto committed = Commit(rows); !committed) return committed;
  for (const size_t at : batch.ranges()) {
    const auto& [kind, begin, end] = batch.operations()[at];
    if (begin < end) reclaimer_.Add(begin, end);
  }
  return Ok{};
}

Result<Ok> RocksStore::Commit(rocksdb::WriteBatch& batch) {
  if (const auto stopped = Stopped()) return *stopped;
  if (batch.Count() == 0) return Ok{};
  rocksdb::WriteOptions options;
  options.sync = true;
  options.protection_bytes_per_key = kProtectionBytes;
  const SyncClock clock;
  const rocksdb::Status status = db_->Write(options, &batch);
  if (const uint64_t us = clock.Microseconds(); us > 0) syncs_.Add(us);
  if (!status.ok()) {
    return Stop(status.ToString() +
                (status.IsNoSpace() ? " (it needs room before it can be started again)" : ""));
  }
  const uint64_t durable = durable_sequence_ += batch.Count();
  const auto raised = high_water_->Raise(durable);
  if (!raised) return Stop(raised.error().message);
  return Ok{};
}

RocksStore::Sizes RocksStore::SizesOf(PartitionId partition,
                                      const std::vector<std::vector<uint8_t>>& groups) const {
  const auto key = [partition](unsigned kind) {
    std::string text = {static_cast<char>(partition >> 8), static_cast<char>(partition & 0xff)};
    text += static_cast<char>(kind);
    return text;
  };
  rocksdb::SizeApproximationOptions options;
  options.include_memtables = true;
  const auto size = [&](const std::string& begin, const std::string& end) {
    const rocksdb::Range range(begin, end);
    uint64_t bytes = 0;
    const auto status =
        db_->GetApproximateSizes(options, db_->DefaultColumnFamily(), &range, 1, &bytes);
    return status.ok() ? bytes : 0;
  };
  Sizes sizes;
  sizes.all = size(key(0), key(0xff));
  for (const auto& group : groups) {
    uint64_t& sum = sizes.of.emplace_back(0);
    for (uint8_t kind : group) sum += size(key(kind), key(kind + 1u));
  }
  return sizes;
}

bool RocksStore::Stalls() const {
  uint64_t stopped = 0;
  uint64_t rate = 0;
  db_->GetIntProperty(rocksdb::DB::Properties::kIsWriteStopped, &stopped);
  db_->GetIntProperty(rocksdb::DB::Properties::kActualDelayedWriteRate, &rate);
  return stopped > 0 || rate > 0;
}

Error RocksStore::Stop(std::string_view why) {
  {
    const Lock lock(why_stopped_mutex_);
    if (!stopped_) why_stopped_ = why;
    stopped_ = true;
  }
  return *Stopped();
}

std::optional<Error> RocksStore::Stopped() const {
  if (!stopped_) return std::nullopt;
  const Lock lock(why_stopped_mutex_);
  return Error{Code::kUnavailable, Reason::kNone,
               "a write to store " + path_.string() + " failed: " + why_stopped_ +
                   "; whether it was kept shows after a restart, and until then nothing more is " +
                   "written"};
}

}  // namespace dfsmr
