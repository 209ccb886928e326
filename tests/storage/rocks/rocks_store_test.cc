// What the store on disk does about damage: it opens with all that was acknowledged, or not at all.
#include "storage/rocks/rocks_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "storage/rocks/high_water.h"
#include "tests/storage/rocks/temporary_folder.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;

constexpr int kBatches = 300;

Result<std::unique_ptr<RocksStore>> Open(const fs::path& path,
                                         std::chrono::milliseconds high_water_period = 1h) {
  return RocksStore::Open({.path = path,
                           .cache_mb = 8,
                           .memtable_mb = 4,
                           .high_water_period = high_water_period});
}

std::unique_ptr<RocksStore> MustOpen(const fs::path& path,
                                     std::chrono::milliseconds high_water_period = 1h) {
  auto store = Open(path, high_water_period);
  REQUIRE_MESSAGE(store, (store ? "" : store.error().message));
  return *std::move(store);
}

// That the store is refused, again and again, with a message that has all these words.
void CheckRefused(const fs::path& path, Code code, const std::vector<std::string>& words) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto store = Open(path);
    REQUIRE_FALSE(store);
    CAPTURE(store.error().message);
    CHECK(store.error().code == code);
    for (const std::string& word : words) {
      CAPTURE(word);
      CHECK(store.error().message.find(word) != std::string::npos);
    }
  }
}

std::string RowKey(int batch, char row) {
  std::string number = std::to_string(batch);
  number.insert(0, 6 - number.size(), '0');
  return std::string("\0\1\1", 3) + number + row;
}

// Every batch puts two rows, so that half a batch shows.
Result<Ok> WriteBatch(Store& store, Epoch epoch, int number) {
  Batch batch;
  for (const char row : {'a', 'b'}) {
    batch.Put(RowKey(number, row), std::string(100, static_cast<char>('a' + number % 26)));
  }
  return store.Write(1, epoch, batch);
}

void Fill(Store& store, int batches) {
  const auto epoch = store.Acquire(1);
  REQUIRE(epoch);
  for (int number = 0; number < batches; ++number) REQUIRE(WriteBatch(store, *epoch, number));
}

// How many batches are there: without a hole, without a half.
int CountBatches(const Store& store) {
  int rows = 0;
  bool in_order = true;
  const auto scanned = store.Scan("", "", [&](std::string_view key, std::string_view) {
    in_order = in_order && key == RowKey(rows / 2, rows % 2 == 0 ? 'a' : 'b');
    ++rows;
    return true;
  });
  REQUIRE(scanned);
  CHECK(in_order);
  CHECK(rows % 2 == 0);
  return rows / 2;
}

// A closed store of kBatches batches, all of them in the log or, if `flushed`, in a table.
void MakeStore(const fs::path& path, bool flushed) {
  Fill(*MustOpen(path), kBatches);
  if (flushed) MustOpen(path).reset();  // recovery turns the log into a table
}

// The largest file with this ending.
fs::path FileOf(const fs::path& path, std::string_view ending) {
  fs::path largest;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (!entry.path().filename().string().ends_with(ending)) continue;
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  }
  REQUIRE_FALSE(largest.empty());
  return largest;
}

void FlipBit(const fs::path& path, uintmax_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 0x10));
  file.flush();
  REQUIRE(file);
}

void WriteText(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  REQUIRE(file);
}

// What a disk would hold if the machine died now. HIGH_WATER first: nothing that is copied later
// may be older than it claims. Not LOCK: to close any handle of it would unlock the original.
void CopyAsIfCrashed(const fs::path& from, const fs::path& to) {
  fs::create_directory(to);
  fs::copy_file(from / "HIGH_WATER", to / "HIGH_WATER");
  for (const auto& entry : fs::directory_iterator(from)) {
    const auto name = entry.path().filename();
    if (name != "LOCK" && name != "HIGH_WATER") fs::copy_file(entry.path(), to / name);
  }
}

uint64_t HighWaterOf(const fs::path& store) {
  const auto file = HighWater::Open(store / "HIGH_WATER");
  REQUIRE(file);
  return (*file)->mark().sequence;
}

TEST_CASE("an unharmed store opens with all its rows, from the log and from tables") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", false);
  CHECK(CountBatches(*MustOpen(folder / "store")) == kBatches);
  CHECK(CountBatches(*MustOpen(folder / "store")) == kBatches);
  auto verified = RocksStore::Open({.path = folder / "store/", .verify_checksums = true});
  REQUIRE(verified);
  CHECK(CountBatches(**verified) == kBatches);
}

TEST_CASE("folders above the store are made, and none when no store is to be made") {
  const TemporaryFolder folder;
  const auto none = RocksStore::Open({.path = folder / "a/b", .create_if_missing = false});
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Code::kNotFound);
  CHECK_FALSE(fs::exists(folder / "a"));
  fs::create_directory(folder / "empty");
  const auto empty = RocksStore::Open({.path = folder / "empty", .create_if_missing = false});
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code == Code::kNotFound);
  CHECK(MustOpen(folder / "a/b"));
  CHECK(RocksStore::Open({.path = folder / "a/b", .create_if_missing = false}));
}

TEST_CASE("a crash while writing loses nothing that was acknowledged, and leaves no half batch") {
  const TemporaryFolder folder;
  const auto store = MustOpen(folder / "store", 1ms);
  const auto epoch = store->Acquire(1);
  REQUIRE(epoch);
  std::atomic<int> acknowledged = 0;
  std::atomic<bool> done = false;
  std::thread owner([&] {
    for (int number = 0; !done && WriteBatch(*store, *epoch, number); ++number) ++acknowledged;
  });
  for (int crash = 0; crash < 10; ++crash) {
    while (acknowledged < 20 * crash) std::this_thread::yield();
    const int before = acknowledged;
    const fs::path copy = folder / ("crash" + std::to_string(crash)).c_str();
    CopyAsIfCrashed(folder / "store", copy);
    const int after = acknowledged + 1;
    const int found = CountBatches(*MustOpen(copy));
    CHECK(found >= before);
    CHECK(found <= after);
  }
  done = true;
  owner.join();
}

TEST_CASE("a torn last record of the log was never acknowledged: all before it is there") {
  const TemporaryFolder folder;
  const auto store = MustOpen(folder / "store");
  const auto epoch = store->Acquire(1);
  REQUIRE(epoch);
  for (int number = 0; number < 99; ++number) REQUIRE(WriteBatch(*store, *epoch, number));
  fs::copy_file(folder / "store" / "HIGH_WATER", folder / "before");
  REQUIRE(WriteBatch(*store, *epoch, 99));
  for (const uintmax_t cut : {1, 50, 200}) {
    CAPTURE(cut);
    const fs::path copy = folder / ("cut" + std::to_string(cut)).c_str();
    CopyAsIfCrashed(folder / "store", copy);
    fs::copy_file(folder / "before", copy / "HIGH_WATER", fs::copy_options::overwrite_existing);
    const fs::path log = FileOf(copy, ".log");
    fs::resize_file(log, fs::file_size(log) - cut);
    CHECK(CountBatches(*MustOpen(copy)) == 99);
    CHECK(CountBatches(*MustOpen(copy)) == 99);
  }
}

TEST_CASE("a flipped bit in the log is refused, wherever it is") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", false);
  const fs::path log = FileOf(folder / "store", ".log");
  for (const uintmax_t percent : {0, 1, 50, 99}) {
    CAPTURE(percent);
    const uintmax_t offset = fs::file_size(log) * percent / 100 + 5;
    FlipBit(log, offset);
    CheckRefused(folder / "store", Code::kDataLoss, {"damaged", folder / "store", "backup"});
    FlipBit(log, offset);
  }
  CHECK(CountBatches(*MustOpen(folder / "store")) == kBatches);
}

TEST_CASE("a log that is gone, emptied or cut is missed") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", false);
  const uint64_t durable = HighWaterOf(folder / "store");
  CHECK(durable == 1 + 2 * kBatches);  // the epoch, and two rows each
  const fs::path log = FileOf(folder / "store", ".log");
  SUBCASE("gone") { fs::remove(log); }
  SUBCASE("emptied") { fs::resize_file(log, 0); }
  SUBCASE("cut in half") { fs::resize_file(log, fs::file_size(log) / 2); }
  CheckRefused(folder / "store", Code::kDataLoss,
               {"lost writes", std::to_string(durable), "HIGH_WATER", "backup"});

  // The way out that the message names.
  fs::remove(folder / "store" / "HIGH_WATER");
  CHECK(CountBatches(*MustOpen(folder / "store")) < kBatches);
}

TEST_CASE("older files in the place of newer ones are missed") {
  const TemporaryFolder folder;
  {
    const auto store = MustOpen(folder / "store");
    Fill(*store, 10);
    CopyAsIfCrashed(folder / "store", folder / "older");
    Fill(*store, 20);
  }
  fs::copy_file(folder / "store" / "HIGH_WATER", folder / "older" / "HIGH_WATER",
                fs::copy_options::overwrite_existing);
  CheckRefused(folder / "older", Code::kDataLoss, {"lost writes", "ends at sequence number 21,",
                                                   "62 was durable", "41 operations"});
}

TEST_CASE("a missing or damaged file of the database is refused") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", true);
  const fs::path store = folder / "store";
  SUBCASE("a table is gone") { fs::remove(FileOf(store, ".sst")); }
  SUBCASE("a table is cut") {
    const fs::path table = FileOf(store, ".sst");
    fs::resize_file(table, fs::file_size(table) - 100);
  }
  SUBCASE("CURRENT is gone") { fs::remove(store / "CURRENT"); }
  SUBCASE("CURRENT names nothing") { WriteText(store / "CURRENT", "MANIFEST-999999\n"); }
  SUBCASE("the MANIFEST is gone, or has a flipped bit") {
    for (const auto& entry : fs::directory_iterator(store)) {
      if (!entry.path().filename().string().starts_with("MANIFEST-")) continue;
      SUBCASE("gone") { fs::remove(entry.path()); }
      SUBCASE("flipped") { FlipBit(entry.path(), entry.file_size() / 2); }
      break;
    }
  }
  CheckRefused(store, Code::kDataLoss, {"damaged", store, "backup"});
}

TEST_CASE("a damaged table block fails reads, and never shortens them") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", true);
  const fs::path table = FileOf(folder / "store", ".sst");
  FlipBit(table, fs::file_size(table) / 4);
  {
    const auto store = MustOpen(folder / "store");
    for (const bool reverse : {false, true}) {
      const auto scanned =
          store->Scan("", "", [](std::string_view, std::string_view) { return true; }, reverse);
      REQUIRE_FALSE(scanned);
      CHECK(scanned.error().code == Code::kDataLoss);
    }
    int failed = 0;
    for (int number = 0; number < kBatches; ++number) {
      const auto row = store->Get(RowKey(number, 'a'));
      if (row) {
        REQUIRE(row->has_value());
      } else {
        CHECK(row.error().code == Code::kDataLoss);
        ++failed;
      }
    }
    CHECK(failed > 0);
    CHECK(failed < kBatches);
  }
  const auto verified = RocksStore::Open({.path = folder / "store", .verify_checksums = true});
  REQUIRE_FALSE(verified);
  CHECK(verified.error().code == Code::kDataLoss);
}

// A store that is open shows all of it, or a failure where it is looked for.
void CheckWholeOrRefused(const fs::path& path) {
  const auto store = Open(path);
  if (!store) {
    const bool doubt = store.error().code == Code::kDataLoss ||
                       store.error().code == Code::kFailedPrecondition;
    CHECK_MESSAGE(doubt, store.error().message);
    CHECK_MESSAGE(store.error().message.find(path) != std::string::npos, store.error().message);
    return;
  }
  int rows = 0;
  const auto count = [&rows](std::string_view, std::string_view) { return ++rows; };
  const auto scanned = (*store)->Scan("", "", count);
  if (scanned) CHECK(rows == 2 * kBatches);
  if (!scanned) CHECK(scanned.error().code == Code::kDataLoss);
  for (const int number : {0, kBatches / 2, kBatches - 1}) {
    const auto row = (*store)->Get(RowKey(number, 'b'));
    if (row) CHECK(row->has_value());
    if (!row) CHECK(row.error().code == Code::kDataLoss);
  }
}

// How often a test of random damage tries.
int Tries(int usual) {
  const char* given = std::getenv("DFSMR_DAMAGES");
  return given ? std::atoi(given) : usual;
}

//   DFSMR_DAMAGES=2000 storage_test -tc='*any bit*,*any length*'    does so more often
TEST_CASE("a store with any bit flipped in any of its files is whole, or refused") {
  const TemporaryFolder folder;
  bool flushed = false;
  SUBCASE("while it lies in the log") {}
  SUBCASE("while it lies in a table") { flushed = true; }
  MakeStore(folder / "store", flushed);
  std::mt19937_64 random(flushed ? 1 : 2);
  for (int attempt = 0; attempt < Tries(60); ++attempt) {
    const fs::path copy = folder / "copy";
    fs::copy(folder / "store", copy);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(copy)) {
      const std::string name = entry.path().filename();
      if (entry.file_size() > 0 && !name.starts_with("LOG")) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    const fs::path& file = files[random() % files.size()];
    const uintmax_t offset = random() % fs::file_size(file);
    CAPTURE(file.filename());
    CAPTURE(offset);
    FlipBit(file, offset);
    CheckWholeOrRefused(copy);
    fs::remove_all(copy);
  }
}

TEST_CASE("a store with any of its files cut to any length is whole, or refused") {
  const TemporaryFolder folder;
  bool flushed = false;
  SUBCASE("while it lies in the log") {}
  SUBCASE("while it lies in a table") { flushed = true; }
  MakeStore(folder / "store", flushed);
  const fs::path cut = FileOf(folder / "store", flushed ? ".sst" : ".log");
  std::mt19937_64 random(3);
  for (int attempt = 0; attempt < Tries(30); ++attempt) {
    const fs::path copy = folder / "copy";
    fs::copy(folder / "store", copy);
    const uintmax_t length = random() % fs::file_size(cut);
    CAPTURE(length);
    fs::resize_file(copy / cut.filename(), length);
    CheckWholeOrRefused(copy);
    fs::remove_all(copy);
  }
}

TEST_CASE("the high-water file follows the writes and outlives a torn write of its own") {
  const TemporaryFolder folder;
  const fs::path store = folder / "store";
  {
    const auto open = MustOpen(store, 1ms);
    Fill(*open, 10);
    while (HighWaterOf(store) < 21) std::this_thread::yield();
    CHECK(HighWaterOf(store) == 21);
  }
  SUBCASE("one slot is torn: the other counts") {
    SUBCASE("the first") { FlipBit(store / "HIGH_WATER", 20); }
    SUBCASE("the second") { FlipBit(store / "HIGH_WATER", 4096 + 20); }
    CHECK(HighWaterOf(store) <= 21);
    CHECK(CountBatches(*MustOpen(store)) == 10);
    CHECK(HighWaterOf(store) == 21);
  }
  SUBCASE("both are torn: nobody knows what was lost") {
    FlipBit(store / "HIGH_WATER", 20);
    FlipBit(store / "HIGH_WATER", 4096 + 39);
    CheckRefused(store, Code::kDataLoss, {"HIGH_WATER is damaged", "delete"});
  }
  SUBCASE("it is empty") {
    WriteText(store / "HIGH_WATER", "");
    CheckRefused(store, Code::kDataLoss, {"HIGH_WATER is damaged", "delete"});
  }
}

TEST_CASE("a store lives the same life until its high-water file is deleted") {
  const TemporaryFolder folder;
  const uint64_t first = MustOpen(folder / "store")->incarnation();
  CHECK(MustOpen(folder / "store")->incarnation() == first);
  fs::remove(folder / "store" / "HIGH_WATER");
  const uint64_t second = MustOpen(folder / "store")->incarnation();
  CHECK(second != first);
  CHECK(MustOpen(folder / "store")->incarnation() == second);
}

TEST_CASE("a store has one process") {
  const TemporaryFolder folder;
  SUBCASE("opened twice in one") {
    const auto store = MustOpen(folder / "store");
    CheckRefused(folder / "store", Code::kFailedPrecondition, {"another dsrv holds", "stop it"});
    Fill(*store, 1);
  }
  SUBCASE("held by another") {
    MustOpen(folder / "store").reset();
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    const std::string lock_file = folder / "store" / "LOCK";
    const pid_t other = fork();
    if (other == 0) {  // system calls only: the threads of the parent are not here
      struct flock lock = {};
      lock.l_type = F_WRLCK;
      const int file = open(lock_file.c_str(), O_RDWR);
      if (fcntl(file, F_SETLK, &lock) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    CheckRefused(folder / "store", Code::kFailedPrecondition, {"another dsrv holds", "stop it"});
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
  }
  CHECK(MustOpen(folder / "store"));
}

TEST_CASE("a store of a newer format is left to the newer server") {
  const TemporaryFolder folder;
  MakeStore(folder / "store", false);
  WriteText(folder / "store" / "FORMAT", "dfsmr store format 2\n");
  CheckRefused(folder / "store", Code::kFailedPrecondition, {"newer dsrv", "format 2"});
  for (const char* damaged : {"", "1\n", "dfsmr store format x\n"}) {
    WriteText(folder / "store" / "FORMAT", damaged);
    CheckRefused(folder / "store", Code::kDataLoss, {"FORMAT is damaged", "dfsmr store format 1"});
  }
  WriteText(folder / "store" / "FORMAT", "dfsmr store format 1\n");
  CHECK(CountBatches(*MustOpen(folder / "store")) == kBatches);
}

TEST_CASE("what is no store is left alone") {
  const TemporaryFolder folder;
  SUBCASE("a file") {
    WriteText(folder / "file", "mine");
    CheckRefused(folder / "file", Code::kFailedPrecondition, {"not a directory"});
    CheckRefused(folder / "file/store", Code::kUnavailable, {"file"});
  }
  SUBCASE("a folder of somebody else") {
    fs::create_directory(folder / "home");
    WriteText(folder / "home" / "letter.txt", "mine");
    CheckRefused(folder / "home", Code::kFailedPrecondition, {"not empty", "letter.txt", "FORMAT"});
    CHECK(std::distance(fs::directory_iterator(folder / "home"), {}) == 1);
  }
  SUBCASE("a store that lost FORMAT and CURRENT") {
    MakeStore(folder / "store", true);
    fs::remove(folder / "store" / "FORMAT");
    fs::remove(folder / "store" / "CURRENT");
    CheckRefused(folder / "store", Code::kFailedPrecondition, {"not empty", ".sst"});
  }
}

TEST_CASE("a store whose making was cut short is made again") {
  const TemporaryFolder folder;
  MustOpen(folder / "store").reset();
  fs::remove(folder / "store" / "FORMAT");
  SUBCASE("right at the end") {}
  SUBCASE("early") {
    fs::remove(FileOf(folder / "store", ".log"));
    fs::remove(folder / "store" / "CURRENT");
    fs::remove(folder / "store" / "HIGH_WATER");
  }
  MakeStore(folder / "store", false);
  CHECK(CountBatches(*MustOpen(folder / "store")) == kBatches);
}

// Lets no file grow beyond `bytes`: what a full disk does, for this process.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_CASE("after a failed write nothing more is written until a restart") {
  const TemporaryFolder folder;
  {
    const auto store = MustOpen(folder / "store");
    Fill(*store, 10);
    const auto epoch = store->Acquire(2);
    REQUIRE(epoch);
    Batch large;
    large.Put(std::string("\0\2\1", 3), std::string(1 << 20, 'x'));
    {
      const FullDisk full(64 << 10);
      const auto failed = store->Write(2, *epoch, large);
      REQUIRE_FALSE(failed);
      CHECK(failed.error().code == Code::kUnavailable);
    }
    Batch small;
    small.Put(std::string("\0\2\1", 3), "y");
    const auto refused = store->Write(2, *epoch, small);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Code::kUnavailable);
    CHECK(refused.error().message.find("after a restart") != std::string::npos);
    CHECK_FALSE(store->Acquire(3));
    CHECK(CountBatches(*store) == 10);
  }
  CHECK(HighWaterOf(folder / "store") == 22);
  CHECK(CountBatches(*MustOpen(folder / "store")) == 10);
}

uint64_t BytesIn(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code gone;
    const uint64_t size = entry.file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

TEST_CASE("a range that is deleted is soon gone from the disk, too") {
  const TemporaryFolder folder;
  const auto store = MustOpen(folder / "store");
  const auto epoch = store->Acquire(1);
  REQUIRE(epoch);
  std::mt19937 random(1);
  std::string bytes(1 << 20, '\0');
  for (int piece = 0; piece < 20; ++piece) {
    std::ranges::generate(bytes, [&random] { return static_cast<char>(random()); });
    Batch batch;
    batch.Put(RowKey(piece, 'a'), bytes);
    REQUIRE(store->Write(1, *epoch, batch));
  }
  CHECK(BytesIn(folder / "store") > 20u << 20);
  Batch batch;
  batch.DeleteRange(RowKey(0, 'a'), RowKey(20, 'a'));
  REQUIRE(store->Write(1, *epoch, batch));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (BytesIn(folder / "store") > 2u << 20 && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  CHECK(BytesIn(folder / "store") < 2u << 20);
}

TEST_CASE("a store tells about how large the rows of each kind are, and how long it synced") {
  const TemporaryFolder folder;
  const auto store = MustOpen(folder / "store");
  Fill(*store, 200);
  const auto sizes = store->SizesOf(1, {{0x01}, {0x05, 0x06}});
  REQUIRE(sizes.of.size() == 2);
  CHECK(sizes.of[0] > 10'000);  // 400 rows of a hundred bytes
  CHECK(sizes.of[0] < 400'000);
  CHECK(sizes.of[1] == 0);
  CHECK(sizes.all >= sizes.of[0]);
  CHECK(store->SizesOf(2, {}).all == 0);
  CHECK_FALSE(store->Stalls());
  uint64_t syncs = 0;
  for (uint64_t count : store->syncs().counts()) syncs += count;
  CHECK(syncs > 0);
  CHECK(syncs <= 201);  // the epoch's, too
}

}  // namespace
}  // namespace dfsmr
