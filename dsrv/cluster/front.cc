#include "dsrv/cluster/front.h"

#include <algorithm>

#include "dsrv/cluster/appending.h"
#include "dsrv/cluster/callback_queue.h"
#include "dsrv/cluster/feeds.h"
#include "dsrv/cluster/passing.h"
#include "dsrv/cluster/peers.h"
#include "dsrv/cluster/ready_call.h"
#include "dsrv/cluster/scatter.h"
#include "dsrv/cluster/watching.h"
#include "dsrv/cluster/working.h"

namespace dfsmr {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);

// A call that owns itself from Begin until it is done.
template <typename Reactor>
grpc::ServerGenericBidiReactor* BeginCall(Front& front,
                                          grpc::GenericCallbackServerContext* context) {
  auto call = std::make_shared<Reactor>(front, context);
  call->Begin();
  return call.get();
}

}  // namespace

Front::Front(Outside outside)
    : outside_(std::move(outside)),
      routes_(outside_.partitions, std::make_shared<const Route>()) {
  KeepCallbackQueue();
  tender_ = std::thread([this] { Tend(); });
}

Front::~Front() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.NotifyAll();
  tender_.join();
}

grpc::ServerGenericBidiReactor* Front::CreateReactor(grpc::GenericCallbackServerContext* context) {
  if (Scatter::Wants(*this, *context)) return BeginCall<Scatter>(*this, context);
  if (Working::Wants(*this, *context)) return BeginCall<Working>(*this, context);
  if (Appending::Wants(*this, *context)) return BeginCall<Appending>(*this, context);
  if (ReadyCall::Wants(*this, *context)) return BeginCall<ReadyCall>(*this, context);
  if (Feeds::Wants(*this, *context)) return BeginCall<Feeds>(*this, context);
  if (Watching::Wants(*this, *context)) return BeginCall<Watching>(*this, context);
  if (IsOfPeer(*context)) return TakeFromPeer(*this, *context);
  return BeginCall<Passing>(*this, context);
}

void Front::SetRoutes(Routes routes) {
  {
    const Lock lock(route_mutex_);
    for (auto& [partition, route] : routes) {
      routes_[partition] = std::make_shared<const Route>(std::move(route));
    }
  }
  for (const auto& call : All()) call->Rerouted();
  parts_.Rerouted();
}

void Front::SetRoute(PartitionId partition, Route route) {
  Routes one;
  one.emplace(partition, std::move(route));
  SetRoutes(std::move(one));
}

void Front::SetOwn(std::shared_ptr<grpc::GenericStub> own) {
  const Lock lock(route_mutex_);
  own_ = std::move(own);
}

void Front::ClearRoutes() {
  Routes none;
  for (PartitionId partition = 0; partition < outside_.partitions; ++partition) none[partition];
  SetRoutes(std::move(none));
}

PartitionId Front::AnyPartition() {
  const Lock lock(route_mutex_);
  for (const auto least : {Route::Kind::kHere, Route::Kind::kThere}) {
    for (size_t tries = 0; tries < routes_.size(); ++tries) {
      any_ = static_cast<PartitionId>((any_ + 1u) % routes_.size());
      const Route::Kind kind = routes_[any_]->kind;
      if (kind == Route::Kind::kHere || kind == least) return any_;
    }
  }
  return any_;
}

std::vector<bool> Front::ServedHere(const std::vector<PartitionId>& others) const {
  const Lock lock(route_mutex_);
  std::vector<const Peer*> peers;
  for (const PartitionId other : others) peers.push_back(routes_[other]->peer.get());
  std::vector<bool> here;
  here.reserve(routes_.size());
  for (const auto& route : routes_) {
    const bool there = route->peer && std::ranges::find(peers, route->peer.get()) != peers.end();
    here.push_back(route->kind == Route::Kind::kHere || there);
  }
  return here;
}

void Front::LoseInside(std::optional<PartitionId> of) {
  for (const auto& call : All()) call->LoseInside(of);
  parts_.Lose(of, ending_);
}

void Front::Stop() {
  stops_ = true;
  std::deque<std::weak_ptr<Stoppable>> all;
  {
    const Lock lock(mutex_);
    all.swap(stoppable_);
  }
  for (const auto& one : all) {
    if (const auto call = one.lock()) call->Stop();
  }
}

// The oldest that are over go, two for each that comes: so it holds few more than there are.
void Front::TellOfStop(std::weak_ptr<Stoppable> call) {
  const Lock lock(mutex_);
  for (int looked = 0; looked < 2 && !stoppable_.empty(); ++looked) {
    if (!stoppable_.front().expired()) stoppable_.push_back(stoppable_.front());
    stoppable_.pop_front();
  }
  stoppable_.push_back(std::move(call));
}

void Front::EndAll() {
  closed_ = true;
  ending_ = true;
  for (const auto& call : All()) call->End();
  parts_.Lose({}, /*ending=*/true);
}

void Front::Enter(const std::shared_ptr<Passing>& call) {
  const Lock lock(mutex_);
  calls_.insert(call.get());
}

void Front::Leave(Passing* call) {
  const Lock lock(mutex_);
  calls_.erase(call);
}

void Front::Wait(const std::shared_ptr<Passing>& call) {
  const Lock lock(mutex_);
  waiting_.push_back(call);
  if (waiting_.size() == 1) changed_.NotifyAll();
}

std::vector<std::shared_ptr<Passing>> Front::All() {
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<Passing>> all;
  for (Passing* call : calls_) all.push_back(call->shared_from_this());
  return all;
}

bool Front::Await(std::chrono::steady_clock::time_point until, const Counts& counts,
                  std::optional<PartitionId> of, bool brief) {
  while (true) {
    const auto all = All();
    const bool any = std::ranges::any_of(all, [&](const auto& call) { return counts(*call); });
    if (!any && !parts_.Any(of, brief)) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kTick);
  }
}

bool Front::AwaitInside(std::chrono::steady_clock::time_point until, const Inside& which) {
  return Await(until, [&which](Passing& call) { return call.IsInside(which); }, which.of,
               /*brief=*/false);
}

bool Front::AwaitAll(std::chrono::steady_clock::time_point until, bool brief) {
  const auto counts = [brief](Passing& call) { return !brief || call.Brief(); };
  while (Await(until, counts, {}, brief)) {
    if (parted_ == 0) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kTick);
  }
  return false;
}

void Front::Tend() {
  Lock lock(mutex_);
  while (!ended_) {
    changed_.Wait(lock, [this]() REQUIRES(mutex_) { return ended_ || !waiting_.empty(); });
    std::vector<std::shared_ptr<Passing>> waiting;
    waiting.swap(waiting_);
    lock.Unlock();
    const LeaseTime now = LeaseTimeNow();
    std::erase_if(waiting, [now](const auto& call) { return !call->Tick(now); });
    lock.Relock();
    waiting_.insert(waiting_.end(), waiting.begin(), waiting.end());
    changed_.WaitFor(lock, kTick, [this]() REQUIRES(mutex_) { return ended_; });
  }
}

}  // namespace dfsmr
