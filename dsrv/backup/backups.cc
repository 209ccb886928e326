#include "dsrv/backup/backups.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "dsrv/feed/cursor.h"
#include "storage/backup/folders.h"
#include "storage/rocks/copy.h"
#include "storage/rows/feed.h"

namespace dfsmr {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

constexpr size_t kJobs = 2;                       // beside --backup-every
constexpr uint64_t kPace = 16 << 20;              // bytes read in a second
constexpr auto kLook = std::chrono::seconds(30);  // how often the clock is looked at

Error Stops() {
  return {Code::kUnavailable, Reason::kNotReady,
          "the server is stopping; try again when it is back"};
}

void GiveWayToOthers() {
  constexpr int kNice = 10;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

fs::path CopiesOf(const fs::path& data) { return data / "copies"; }

std::string Hex(uint64_t number) {
  std::string text;
  do {
    text.insert(text.begin(), "0123456789abcdef"[number & 15]);
  } while ((number >>= 4) != 0);
  return text;
}

}  // namespace

Backups::Copy::~Copy() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

Backups::Backups(Options options, const RocksStore* store, const LogStore* logs)
    : options_(std::move(options)), store_(store), logs_(logs) {
  std::error_code ignored;
  if (store_) fs::remove_all(CopiesOf(options_.data), ignored);
}

Backups::~Backups() { Stop(); }

void Backups::Start(Loop& loop) {
  loop_ = &loop;
  if (options_.every == Duration::zero()) return;
  ReadStatus();
  keeper_ = std::thread([this] { Keep(); });
}

void Backups::EndAll() {
  const Lock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void Backups::Stop() {
  EndAll();
  std::list<Job> jobs;
  {
    Lock lock(mutex_);
    changed_.Wait(lock, [this]() REQUIRES(mutex_) {
      return std::ranges::all_of(jobs_, [](const Job& job) { return job.over; });
    });
    jobs.swap(jobs_);
  }
  for (Job& job : jobs) job.thread.join();
  if (keeper_.joinable()) keeper_.join();
}

bool Backups::Run(std::function<void()> job) {
  std::list<Job> over;
  const Lock lock(mutex_);
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const auto one = at++;
    if (one->over) over.splice(over.end(), jobs_, one);
  }
  for (Job& one : over) one.thread.join();  // has nothing left to do but to return
  if (ended_ || jobs_.size() >= kJobs) return false;
  Job& added = jobs_.emplace_back();
  added.thread = std::thread([this, &added, job = std::move(job)] {
    GiveWayToOthers();
    job();
    const Lock ending(mutex_);
    added.over = true;
    changed_.NotifyAll();
  });
  return true;
}

bool Backups::Ended() const {
  const Lock lock(mutex_);
  return ended_;
}

BackupStatus Backups::status() const {
  const Lock lock(mutex_);
  return status_;
}

// A copy of one moment ---------------------------------------------------------------------------

// Claims are written a little later than they are handed out: the copy is to have them.
Result<Ok> Backups::Settle() {
  struct Waiting {
    Mutex mutex;
    ConditionVariable changed;
    std::optional<Result<Ok>> outcome GUARDED(mutex);
  };
  auto waiting = std::make_shared<Waiting>();
  const auto tell = [waiting](Result<Ok> outcome) {
    const Lock lock(waiting->mutex);
    waiting->outcome = std::move(outcome);
    waiting->changed.NotifyAll();
  };
  const bool posted = loop_->Post({.run =
                                       [tell](Engine& engine) {
                                         auto settled = engine.Settle("", "");
                                         engine.AfterCommit([tell, settled] { tell(settled); });
                                       },
                                   .drop = [tell] { tell(Stops()); },
                                   .owed = true});
  if (!posted) return Stops();
  Lock lock(waiting->mutex);
  waiting->changed.Wait(lock,
                        [&]() REQUIRES(waiting->mutex) { return waiting->outcome.has_value(); });
  return *waiting->outcome;
}

Result<Ok> Backups::Link(Copy* copy) {
  std::error_code failure;
  fs::create_directories(copy->folder().parent_path(), failure);
  const fs::path logs = copy->folder().string() + "-logs";
  if (logs_) {
    if (auto copied = logs_->Copy(logs); !copied) return copied;
  }
  if (auto copied = store_->Copy(copy->folder()); !copied) return copied;
  if (logs_) fs::rename(logs, copy->folder() / "logs", failure);
  if (!failure) return Ok{};
  return Error{Code::kUnavailable, Reason::kNone,
               "cannot make " + copy->folder().string() + ": " + failure.message()};
}

Result<std::string> Backups::CursorOf(const fs::path& folder) const {
  auto copy = StoredCopy::Open(folder);
  if (!copy) return copy.error();
  auto last = rows::LastSeq({(*copy)->view(), options_.partition});
  if (!last) return last.error();
  return CursorText({options_.life, {*last}});
}

Result<std::unique_ptr<Backups::Copy>> Backups::Take() {
  if (!store_) {
    return Error{Code::kFailedPrecondition, Reason::kNotEmbedded,
                 "the store is in a database, which does that better: back up the database"};
  }
  uint64_t number = 0;
  {
    const Lock lock(mutex_);
    if (ended_) return Stops();
    number = next_++;
  }
  auto copy = std::make_unique<Copy>(CopiesOf(options_.data) / std::to_string(number));
  copy->manifest.time = options_.clock();
  copy->manifest.incarnation = Hex(options_.life);
  copy->manifest.version = options_.version;
  if (auto settled = Settle(); !settled) return settled.error();
  if (auto linked = Link(copy.get()); !linked) return linked.error();
  auto cursor = CursorOf(copy->folder());
  if (!cursor) return cursor.error();
  copy->manifest.cursor = *std::move(cursor);
  return copy;
}

Backups::Pacer::Pacer(Backups& backups) : backups_(backups), begin_(steady_clock::now()) {}

Result<Ok> Backups::Pacer::operator()(size_t bytes) {
  bytes_ += bytes;
  const auto due = begin_ + std::chrono::milliseconds(bytes_ * 1000 / kPace);
  Lock lock(backups_.mutex_);
  backups_.changed_.WaitUntil(lock, due,
                              [this]() REQUIRES(backups_.mutex_) { return backups_.ended_; });
  if (backups_.ended_) return Stops();
  return Ok{};
}

// --backup-every ---------------------------------------------------------------------------------

void Backups::ReadStatus() {
  BackupStatus known{.asked = true};
  auto all = ListBackups(options_.to);
  if (all && !all->empty()) {
    auto last = ReadKnownBackup(all->back());
    if (last) {
      known.last_time = last->manifest.time;
      known.last_bytes = last->bytes;
    }
  }
  const Lock lock(mutex_);
  status_ = std::move(known);
}

bool Backups::WaitUntil(Timestamp time) {
  Lock lock(mutex_);
  while (!ended_) {
    const Duration left = time - options_.clock();
    if (left <= Duration::zero()) return true;
    changed_.WaitFor(lock, std::min<Duration>(left, kLook),
                     [this]() REQUIRES(mutex_) { return ended_; });
  }
  return false;
}

void Backups::Keep() {
  GiveWayToOthers();
  Timestamp due = After(status().last_time, options_.every);
  while (WaitUntil(due)) {
    const Timestamp begun = options_.clock();
    SaveOne();
    due = After(begun, options_.every);
  }
}

void Backups::SaveOne() {
  auto copy = Take();
  const auto saved =
      copy ? SaveBackup((*copy)->folder(), (*copy)->manifest, options_.to, Pacer(*this))
           : Result<uint64_t>(copy.error());
  const auto dropped = saved ? DropBackups(options_.to, options_.keep) : Result<Ok>(Ok{});
  if (!saved && Ended()) return;
  const std::string error = !saved     ? saved.error().message
                            : !dropped ? dropped.error().message
                                       : "";
  if (error.empty()) {
    spdlog::info("backup: {} bytes are in {}", *saved, options_.to.string());
  } else {
    spdlog::error("backup: {}", error);
  }
  const Lock lock(mutex_);
  status_.error = error;
  if (!error.empty()) ++status_.failures;
  if (!saved) return;
  status_.last_time = (*copy)->manifest.time;
  status_.last_bytes = *saved;
}

}  // namespace dfsmr
