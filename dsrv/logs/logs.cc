#include "dsrv/logs/logs.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "dsrv/engine/residents.h"
#include "storage/logs/rocks_table.h"
#include "storage/rows/instance.h"

namespace dfsmr {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kCalls = 20'000;           // AppendLogs and ReadLogs that are open
constexpr int64_t kQueuedBytes = 64 << 20;  // of requests that wait
constexpr size_t kKnown = 50'000;           // claims
constexpr auto kSyncEvery = seconds(2);     // promised: a line is on disk within 5 s
constexpr auto kTick = milliseconds(250);
constexpr auto kRest = seconds(60);         // where there is nothing to do
constexpr auto kRoomEvery = milliseconds(500);
constexpr auto kRemovedAfter = seconds(1);  // then the removal is on disk
constexpr auto kGiveWay = seconds(5);
constexpr uint64_t kLittle = 8 << 20;  // so few bytes of logs are not halved, but dropped
// Of a store that is far.
constexpr auto kGather = milliseconds(100);
constexpr auto kGatherLonger = milliseconds(500);  // at most, where writing takes long
constexpr size_t kEnough = 1 << 20;                // bytes, for one write
constexpr auto kAgain = milliseconds(500);
constexpr auto kSweepEvery = milliseconds(500);
constexpr size_t kNamesAtOnce = 500;

// Threads of logs come behind those of calls and of the engine.
void GiveWayToOthers() {
  constexpr int kNice = 5;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

Result<std::unique_ptr<LogStore>> OpenOwn(const Logs::Options& options) {
  auto table = OpenRocksLogTable(options.path, options.bytes);
  if (!table) return table.error();
  auto store = std::make_unique<LogStore>(*std::move(table),
                                          LogStore::Options{options.bytes, options.clock()});
  auto loaded = store->Load();
  if (!loaded) return loaded.error();
  return store;
}

std::unique_ptr<LogStore> OpenStore(const Logs::Options& options) {
  std::error_code failure;
  if (options.path.empty()) return nullptr;
  if (options.bytes == 0) {
    std::filesystem::remove_all(options.path, failure);
    return nullptr;
  }
  auto store = OpenOwn(options);
  if (store) return *std::move(store);
  spdlog::error("{}; the logs that were kept are dropped", store.error().message);
  std::filesystem::remove_all(options.path, failure);
  store = OpenOwn(options);
  if (store) return *std::move(store);
  spdlog::error("{}; no logs are kept", store.error().message);
  return nullptr;
}

bool IsGone(const rows::Reader& rows, const LogOwner& owner) {
  auto spec = rows::FindSpec(rows, {owner.ns, owner.instance});
  return spec && (!*spec || (*spec)->first_seq != owner.born);
}

LogStore::Standing StandingIn(const rows::Reader& rows, const LogOwner& owner,
                              const Registry& registry) {
  using Kind = LogStore::Standing::Kind;
  const rows::InstanceName name{owner.ns, owner.instance};
  if (IsGone(rows, owner)) return {Kind::kGone};
  auto live = rows::IsLive(rows, name);
  if (!live || *live) return {};
  auto instance = rows::GetInstance(rows, name, registry.resolve());
  if (!instance || !instance->Stopped()) return {};
  return {Kind::kStopped, instance->end_time};
}

}  // namespace

Logs::Logs(Options options, std::unique_ptr<LogTable> table) : options_(std::move(options)) {
  if (!table) {
    store_ = OpenStore(options_);
    loaded_ = true;
  } else if (options_.bytes > 0) {  // the thread that writes reads what is there
    store_ = std::make_unique<LogStore>(std::move(table),
                                        LogStore::Options{options_.bytes, options_.clock()});
  } else {
    discarded_ = std::move(table);
  }
}

Logs::~Logs() { Stop(); }

void Logs::Start(const Reader& reader, Loop& loop) {
  reader_.emplace(reader);
  loop_ = &loop;
  writer_ = std::thread([this] { Write(); });
}

void Logs::Stop() {
  EndAll();
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  {
    const Lock lock(read_mutex_);
    read_stopped_ = true;
  }
  changed_.NotifyAll();
  read_changed_.NotifyAll();
  if (store_) store_->Hurry();
  if (writer_.joinable()) writer_.join();
  if (reading_.joinable()) reading_.join();
  if (store_) (void)store_->Sync();
}

void Logs::EndAll() {
  std::vector<std::shared_ptr<Call>> open;
  {
    const Lock lock(calls_mutex_);
    ended_ = true;
    for (const auto& [key, weak] : calls_) {
      if (auto call = weak.lock()) open.push_back(std::move(call));
    }
  }
  for (const auto& call : open) call->Stop();
}

// Calls ------------------------------------------------------------------------------------------

bool Logs::Enter(const std::shared_ptr<Call>& call) {
  const Lock lock(calls_mutex_);
  if (ended_ || calls_.size() >= kCalls) return false;
  calls_.emplace(call.get(), call);
  return true;
}

void Logs::Leave(Call* call) {
  const Lock lock(calls_mutex_);
  calls_.erase(call);
}

void Logs::Post(std::function<void()> job) {
  {
    const Lock lock(mutex_);
    if (stopped_) return;
    jobs_.push_back(std::move(job));
  }
  changed_.NotifyOne();
}

void Logs::PostLater(milliseconds delay, std::function<void()> job) {
  {
    const Lock lock(mutex_);
    if (!stopped_) later_.emplace(Clock::now() + delay, std::move(job));
  }
  Post([] {});  // the thread that writes may be at rest
}

void Logs::PostRead(std::function<void()> job) {
  {
    const Lock lock(read_mutex_);
    if (read_stopped_) return;
    reads_.push_back(std::move(job));
    if (!reading_.joinable()) reading_ = std::thread([this] { Read(); });
  }
  read_changed_.NotifyOne();
}

bool Logs::MayRead(const std::shared_ptr<Sender>& sender) {
  if (queued_.load(std::memory_order_relaxed) < kQueuedBytes) return true;
  const Lock lock(calls_mutex_);
  paused_.push_back(sender);
  return false;
}

void Logs::ResumeSenders() {
  if (queued_.load(std::memory_order_relaxed) > kQueuedBytes / 2) return;
  std::vector<std::weak_ptr<Sender>> paused;
  {
    const Lock lock(calls_mutex_);
    paused.swap(paused_);
  }
  for (const auto& weak : paused) {
    if (auto sender = weak.lock()) sender->Resume();
  }
}

void Logs::Follow(const std::string& ns, const std::string& instance,
                  const std::shared_ptr<Follower>& follower) {
  {
    const Lock lock(followers_mutex_);
    followers_[ResidentKey(ns, instance)].emplace(follower.get(), follower);
  }
  Post([] {});  // the thread that writes may be at rest
}

void Logs::Unfollow(const std::string& ns, const std::string& instance, Follower* follower) {
  const Lock lock(followers_mutex_);
  const auto found = followers_.find(ResidentKey(ns, instance));
  if (found == followers_.end()) return;
  found->second.erase(follower);
  if (found->second.empty()) followers_.erase(found);
}

// The thread that reads --------------------------------------------------------------------------

void Logs::Read() {
  GiveWayToOthers();
  while (true) {
    Lock lock(read_mutex_);
    read_changed_.Wait(lock,
                       [this]() REQUIRES(read_mutex_) { return read_stopped_ || !reads_.empty(); });
    if (reads_.empty()) return;
    auto job = std::move(reads_.front());
    reads_.pop_front();
    lock.Unlock();
    job();
  }
}

// The thread that writes -------------------------------------------------------------------------

void Logs::Write() {
  GiveWayToOthers();
  while (true) {
    {
      Lock lock(mutex_);
      auto until = std::min(Clock::now() + (AtRest() ? kRest : kTick), NextDue());
      if (!later_.empty()) until = std::min(until, later_.begin()->first);
      changed_.WaitUntil(lock, until,
                         [this]() REQUIRES(mutex_) { return stopped_ || !jobs_.empty(); });
      if (stopped_ && jobs_.empty()) break;
    }
    for (int i = 0; i < 100 && RunOne(); ++i) {
    }
    if (NextDue() <= Clock::now()) Flush();
    Tend();
  }
  again_ = {};
  Flush();  // what is not written now is not answered, and is sent again
}

bool Logs::RunOne() {
  std::function<void()> job;
  {
    const Lock lock(mutex_);
    if (!later_.empty() && later_.begin()->first <= Clock::now()) {
      job = std::move(later_.begin()->second);
      later_.erase(later_.begin());
    } else if (!jobs_.empty()) {
      job = std::move(jobs_.front());
      jobs_.pop_front();
    } else {
      return false;
    }
  }
  job();
  return true;
}

// Nothing is kept, nobody reads, and nothing waits: so it is in a partition without logs.
bool Logs::AtRest() {
  if (discarded_ || (store_ && (!loaded_ || sweeping_ || !store_->empty()))) return false;
  if (queued_.load(std::memory_order_relaxed) > 0) return false;
  const Lock lock(followers_mutex_);
  return followers_.empty();
}

// What is to be done now and then, and what is bounded.
void Logs::Tend() {
  const auto now = Clock::now();
  ResumeSenders();
  if (now >= wake_due_) {
    wake_due_ = now + kTick;
    WakeFollowers();
  }
  if (discarded_ && now >= again_) Discard();
  if (store_ && BeReady()) TendStore(now);
}

void Logs::TendStore(Clock::time_point now) {
  const auto standing = [this](std::span<const LogOwner> owners) { return StandingsOf(owners); };
  if (store_->bytes() > store_->bound()) {
    Settle("cannot drop logs",
           store_->Shrink(store_->bound() - store_->bound() / 64, standing));
  }
  if (now >= room_due_) {
    room_due_ = now + kRoomEvery;
    TendRoom();
    while (DropRemoved()) {
    }
  }
  if (now >= sync_due_) {
    sync_due_ = now + kSyncEvery;
    Settle("cannot sync logs", store_->Sync());
  }
  if (sweeping_ && now >= sweep_due_) {  // what was removed while nobody listened
    if (store_->far()) sweep_due_ = now + kSweepEvery;
    auto more =
        store_->SweepGone([this](std::span<const LogOwner> owners) { return GoneOf(owners); });
    sweeping_ = more ? *more : store_->far();
    if (!more) Settle("cannot drop logs", more.error());
  }
}

// No logs are to be kept: those of before go.
void Logs::Discard() {
  again_ = Clock::now() + kAgain;
  const std::unique_ptr<LogBatch> all = discarded_->NewBatch();
  all->DeletePrefix("");
  const auto done = discarded_->Write(*all);
  if (!done) return Note("cannot drop logs", done.error());
  discarded_.reset();
}

// A disk that fills up loses its logs before anything is refused, half of them at a time.
void Logs::TendRoom() {
  scarce_ = pressed_.exchange(false) || (options_.scarce && options_.scarce());
  const uint64_t bytes = store_->bytes();
  if (!scarce_ || bytes == 0) {
    gives_way_until_ = 0;
    warned_ = false;
    return;
  }
  if (!std::exchange(warned_, true)) {
    spdlog::warn("the disk is nearly full: logs are dropped, {} MiB are kept", bytes >> 20);
  }
  auto shrunk = store_->Shrink(
      bytes <= kLittle ? 0 : bytes / 2,
      [this](std::span<const LogOwner> owners) { return StandingsOf(owners); });
  if (shrunk) shrunk = store_->Reclaim();
  Settle("cannot drop logs", shrunk);
}

bool Logs::GiveWay() {
  if (!store_ || store_->bytes() == 0) return false;
  const auto now = Clock::now();
  int64_t none = 0;
  gives_way_until_.compare_exchange_strong(none, (now + kGiveWay).time_since_epoch().count());
  pressed_ = true;
  return gives_way_until_.load() > now.time_since_epoch().count();
}

void Logs::Removed(const std::string& ns, const std::string& id) {
  if (!store_ || store_->empty()) return;
  const Lock lock(mutex_);
  removed_.push_back({ns, id, Clock::now() + kRemovedAfter});
}

// False: no more of them is due.
bool Logs::DropRemoved() {
  std::vector<LogStore::Name> due;
  std::set<std::string> gone;
  {
    const Lock lock(mutex_);
    const auto now = Clock::now();
    for (; !removed_.empty() && due.size() < kNamesAtOnce; removed_.pop_front()) {
      Removal& first = removed_.front();
      if (first.due > now) break;
      gone.insert(ResidentKey(first.ns, first.id));
      due.push_back({std::move(first.ns), std::move(first.id)});
    }
  }
  if (due.empty()) return false;
  absl::erase_if(known_, [&gone](const auto& one) {
    return gone.contains(ResidentKey(one.second.owner.ns, one.second.owner.instance));
  });
  auto dropped =
      store_->DropGone(due, [this](std::span<const LogOwner> owners) { return GoneOf(owners); });
  if (dropped) return true;
  sweeping_ = true;
  Settle("cannot drop logs", dropped.error());
  return false;
}

std::vector<LogStore::Standing> Logs::StandingsOf(std::span<const LogOwner> owners) const {
  const std::unique_ptr<const View> view = reader_->store.Snapshot();
  std::vector<LogStore::Standing> all;
  all.reserve(owners.size());
  for (const LogOwner& owner : owners) {
    all.push_back(StandingIn({*view, reader_->partition}, owner, reader_->registry));
  }
  return all;
}

std::vector<LogStore::Standing> Logs::GoneOf(std::span<const LogOwner> owners) const {
  using Kind = LogStore::Standing::Kind;
  const std::unique_ptr<const View> view = reader_->store.Snapshot();
  std::vector<LogStore::Standing> all;
  all.reserve(owners.size());
  for (const LogOwner& owner : owners) {
    all.push_back({IsGone({*view, reader_->partition}, owner) ? Kind::kGone : Kind::kRuns});
  }
  return all;
}

const Logs::Known* Logs::Find(const std::string& claim) {
  const auto found = known_.find(claim);
  if (found == known_.end() || found->second.until < loop_->Now()) return nullptr;
  return &found->second;
}

void Logs::Learn(Known known) {
  if (known_.size() >= kKnown) {
    const Timestamp now = loop_->Now();
    absl::erase_if(known_, [now](const auto& one) { return one.second.until < now; });
    if (known_.size() >= kKnown) known_.clear();
  }
  std::string key = known.claim.claim;
  known_.insert_or_assign(std::move(key), std::move(known));
}

// An error: nothing was written, and it is to be tried again.
Result<Ok> Logs::AppendNow(std::span<const LogStore::Piece> pieces) {
  const bool takes = store_ && !scarce_;
  auto appended = takes ? store_->Append(pieces, options_.clock()) : Ok{};
  if (!takes || !appended) {
    if (takes && store_->far() && appended.error().code != Code::kDataLoss) return appended;
    for (const LogStore::Piece& piece : pieces) dropped_ += piece.lines.size();
    if (!appended) Note("cannot write logs", appended.error());
    return Ok{};
  }
  std::vector<std::shared_ptr<Follower>> awake;
  {
    const Lock lock(followers_mutex_);
    if (followers_.empty()) return Ok{};
    std::set<std::string> told;
    for (const LogStore::Piece& piece : pieces) {
      std::string key = ResidentKey(piece.owner.ns, piece.owner.instance);
      const auto found = followers_.find(key);
      if (found == followers_.end() || !told.insert(std::move(key)).second) continue;
      for (const auto& [at, weak] : found->second) {
        if (auto follower = weak.lock()) awake.push_back(std::move(follower));
      }
    }
  }
  for (const auto& follower : awake) follower->Wake(/*news=*/true);
  return Ok{};
}

void Logs::Append(std::vector<LogStore::Piece> pieces, size_t bytes, std::function<void()> done) {
  if (!store_ || !store_->far()) {
    if (!pieces.empty()) (void)AppendNow(pieces);
    return done();
  }
  if (gathered_.empty()) flush_due_ = std::max(flush_due_, Clock::now() + kGather);
  gathered_bytes_ += bytes;
  gathered_.push_back({pieces.size(), bytes, std::move(done)});
  std::ranges::move(pieces, std::back_inserter(pieces_));
  if (gathered_bytes_ >= kEnough) Flush();
}

// When gathered lines are to be written.
Logs::Clock::time_point Logs::NextDue() const {
  const bool never = gathered_.empty() || superseded_;
  return never ? Clock::time_point::max() : std::max(flush_due_, again_);
}

// Whether the store may be used now.
bool Logs::BeReady() {
  if (superseded_ || Clock::now() < again_) return false;
  if (loaded_) return true;
  const auto loaded = store_->Load();
  loaded_ = loaded.has_value();
  Settle("cannot read logs", loaded);
  return loaded_;
}

void Logs::Flush() {
  const auto begin = Clock::now();
  while (!gathered_.empty() && BeReady() && FlushSome()) {
  }
  // A database that is slow has larger writes, not more of them.
  const auto took = Clock::now() - begin;
  flush_due_ = Clock::now() + std::min<Clock::duration>(3 * took, kGatherLonger);
}

// False: nothing was written, and it is to be tried again.
bool Logs::FlushSome() {
  size_t requests = 0;
  size_t pieces = 0;
  size_t bytes = 0;
  for (; requests < gathered_.size() && bytes < kEnough; ++requests) {
    pieces += gathered_[requests].pieces;
    bytes += gathered_[requests].bytes;
  }
  const auto appended = AppendNow({pieces_.data(), pieces});
  if (!appended) {
    Settle("cannot write logs", appended);
    return false;
  }
  pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<ptrdiff_t>(pieces));
  gathered_bytes_ -= bytes;
  for (; requests > 0; --requests) {
    const auto done = std::move(gathered_.front().done);
    gathered_.pop_front();
    done();
  }
  return true;
}

// What the store could not do. One that is far, and away, has a rest.
void Logs::Settle(std::string_view doing, const Result<Ok>& done) {
  if (done) return;
  if (store_->far()) again_ = Clock::now() + kAgain;
  superseded_ = superseded_ || done.error().code == Code::kAborted;
  Note(doing, done.error());
}

void Logs::WakeFollowers() {
  std::vector<std::shared_ptr<Follower>> awake;
  {
    const Lock lock(followers_mutex_);
    for (const auto& [key, of_instance] : followers_) {
      for (const auto& [at, weak] : of_instance) {
        if (auto follower = weak.lock()) awake.push_back(std::move(follower));
      }
    }
  }
  for (const auto& follower : awake) follower->Wake(/*news=*/false);
}

// One line of what goes wrong in ten seconds is enough.
void Logs::Note(std::string_view doing, const Error& error) {
  const auto now = Clock::now();
  if (now < noted_) return;
  noted_ = now + seconds(10);
  spdlog::warn("{}: {}", doing, error.message);
}

}  // namespace dfsmr
