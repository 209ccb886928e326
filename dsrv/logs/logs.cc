#include "dsrv/logs/logs.h"

#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dsrv/engine/residents.h"
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
constexpr auto kRoomEvery = milliseconds(500);
constexpr auto kRemovedAfter = seconds(1);  // then the removal is on disk
constexpr auto kGiveWay = seconds(5);
constexpr uint64_t kLittle = 8 << 20;  // so few bytes of logs are not halved, but dropped

// Threads of logs come behind those of calls and of the engine.
void GiveWayToOthers() {
  constexpr int kNice = 5;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
}

std::unique_ptr<LogStore> OpenStore(const Logs::Options& options) {
  std::error_code failure;
  if (options.bytes == 0) {
    std::filesystem::remove_all(options.path, failure);
    return nullptr;
  }
  const LogStore::Options how{options.path, options.bytes, options.clock()};
  auto store = LogStore::Open(how);
  if (store) return *std::move(store);
  spdlog::error("{}; the logs that were kept are dropped", store.error().message);
  std::filesystem::remove_all(options.path, failure);
  store = LogStore::Open(how);
  if (store) return *std::move(store);
  spdlog::error("{}; no logs are kept", store.error().message);
  return nullptr;
}

}  // namespace

Logs::Logs(Options options) : options_(std::move(options)), store_(OpenStore(options_)) {}

Logs::~Logs() { Stop(); }

void Logs::Start(const Reader& reader, Loop& loop) {
  reader_.emplace(reader);
  loop_ = &loop;
  writer_ = std::thread([this] { Write(); });
  reading_ = std::thread([this] { Read(); });
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
  const Lock lock(mutex_);
  if (!stopped_) later_.emplace(Clock::now() + delay, std::move(job));
}

void Logs::PostRead(std::function<void()> job) {
  {
    const Lock lock(read_mutex_);
    if (read_stopped_) return;
    reads_.push_back(std::move(job));
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
  const Lock lock(followers_mutex_);
  followers_[ResidentKey(ns, instance)].emplace(follower.get(), follower);
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
      const auto until = later_.empty() ? Clock::now() + kTick
                                        : std::min(later_.begin()->first, Clock::now() + kTick);
      changed_.WaitUntil(lock, until,
                         [this]() REQUIRES(mutex_) { return stopped_ || !jobs_.empty(); });
      if (stopped_ && jobs_.empty()) return;
    }
    for (int i = 0; i < 100 && RunOne(); ++i) {
    }
    Tend();
  }
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

// What is to be done now and then, and what is bounded.
void Logs::Tend() {
  const auto now = Clock::now();
  ResumeSenders();
  if (now >= wake_due_) {
    wake_due_ = now + kTick;
    WakeFollowers();
  }
  if (!store_) return;
  const auto standing = [this](const LogOwner& owner) { return StandingOf(owner); };
  if (store_->bytes() > store_->bound()) {
    auto shrunk = store_->Shrink(store_->bound() - store_->bound() / 64, standing);
    if (!shrunk) Note("cannot drop logs", shrunk.error());
  }
  if (now >= room_due_) {
    room_due_ = now + kRoomEvery;
    TendRoom();
    DropRemoved();
  }
  if (now >= sync_due_) {
    sync_due_ = now + kSyncEvery;
    auto synced = store_->Sync();
    if (!synced) Note("cannot sync logs", synced.error());
  }
  if (sweeping_) {  // what was removed while nobody listened
    auto more = store_->SweepGone(standing);
    sweeping_ = more && *more;
  }
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
  auto shrunk = store_->Shrink(bytes <= kLittle ? 0 : bytes / 2,
                               [this](const LogOwner& owner) { return StandingOf(owner); });
  if (shrunk) shrunk = store_->Reclaim();
  if (!shrunk) Note("cannot drop logs", shrunk.error());
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

void Logs::DropRemoved() {
  std::vector<Removal> due;
  {
    const Lock lock(mutex_);
    const auto now = Clock::now();
    const auto first_left =
        std::ranges::find_if(removed_, [now](const Removal& removal) { return removal.due > now; });
    due.assign(std::make_move_iterator(removed_.begin()), std::make_move_iterator(first_left));
    removed_.erase(removed_.begin(), first_left);
  }
  if (due.empty()) return;
  std::set<std::string> gone;
  for (const Removal& removal : due) gone.insert(ResidentKey(removal.ns, removal.id));
  absl::erase_if(known_, [&gone](const auto& one) {
    return gone.contains(ResidentKey(one.second.owner.ns, one.second.owner.instance));
  });
  for (const Removal& removal : due) {
    auto dropped = store_->DropGone(removal.ns, removal.id,
                                    [this](const LogOwner& owner) { return StandingOf(owner); });
    if (!dropped) Note("cannot drop logs", dropped.error());
  }
}

LogStore::Standing Logs::StandingOf(const LogOwner& owner) const {
  using Kind = LogStore::Standing::Kind;
  const std::unique_ptr<const View> view = reader_->store.Snapshot();
  const rows::Reader rows{*view, reader_->partition};
  const rows::InstanceName name{owner.ns, owner.instance};
  auto spec = rows::FindSpec(rows, name);
  if (!spec) return {};
  if (!*spec || (*spec)->first_seq != owner.born) return {Kind::kGone};
  auto live = rows::IsLive(rows, name);
  if (!live || *live) return {};
  auto instance = rows::GetInstance(rows, name, reader_->registry.resolve());
  if (!instance || !instance->Stopped()) return {};
  return {Kind::kStopped, instance->end_time};
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

void Logs::Append(const std::vector<LogStore::Piece>& pieces) {
  if (!store_ || scarce_) {
    for (const LogStore::Piece& piece : pieces) dropped_ += piece.lines.size();
    return;
  }
  auto appended = store_->Append(pieces, options_.clock());
  if (!appended) {
    for (const LogStore::Piece& piece : pieces) dropped_ += piece.lines.size();
    return Note("cannot write logs", appended.error());
  }
  std::vector<std::shared_ptr<Follower>> awake;
  {
    const Lock lock(followers_mutex_);
    if (followers_.empty()) return;
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
