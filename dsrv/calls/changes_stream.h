// The stream that sends the feed, for Changes of either service.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsrv/calls/counted.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// By which way a watcher reads the feed.
enum class WatcherClass : uint8_t { kGrpc, kHttp, kConsole, kOtlp };
inline constexpr size_t kWatcherClasses = 4;
WatcherClass ClassOf(const GrpcOrigin& origin);

class ChangesStream : public Counted<grpc::ServerWriteReactor<grpc::ByteBuffer>>,
                      public Changes::Watcher,
                      public Revocable {
 public:
  // Turns a portion into messages.
  using Encode = std::function<void(const Changes::PortionPtr&, const std::string& cursor,
                                    std::deque<grpc::ByteBuffer>* out)>;
  struct Open {
    ChangeFilter filter;
    uint64_t after = 0;
    bool from_first = false;  // but not before the first that is kept, which the store is asked for
    uint64_t until = UINT64_MAX;  // the stream ends there; UINT64_MAX: it follows the feed
    bool beats = true;            // sends a message now and then when there are no changes
  };
  // `caller` is the caller who was admitted, or the refusal. `open` is called last, when nothing
  // else refuses the stream. The stream owns itself until it is done.
  static ChangesStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                              const Method& method, const Result<Caller>& caller,
                              const std::function<Result<Open>()>& open, Encode encode);

 private:
  friend class Watchers;
  enum class Stage {
    kIdle,     // waits to be woken
    kBusy,     // writes, or reads the feed: the thread that set it goes on with the stream
    kFinished  // gRPC has been told the end
  };

  ChangesStream(const Backend& backend, grpc::CallbackServerContext* context, Encode encode);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Wake() override { Step(); }
  void Revoke(const Error& error) override;

  void Step();
  // False: there is nothing to write, and the feed is to be read.
  bool WriteOrFinish() REQUIRES(mutex_);
  void ReadStore(const std::shared_ptr<ChangesStream>& self);
  void Take(const Changes::PortionPtr& portion);
  void End(grpc::Status status);

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  const Encode encode_;
  bool entered_ = false;  // through the gate

  // Changed while kBusy, by the thread that set it.
  Open open_;
  const WatcherClass class_;
  std::atomic<uint64_t> read_up_to_ = UINT64_MAX;  // as open_.after; UINT64_MAX: not open yet

  Mutex mutex_;
  std::shared_ptr<ChangesStream> self_ GUARDED(mutex_);  // until OnDone
  Stage stage_ GUARDED(mutex_) = Stage::kBusy;
  bool first_ GUARDED(mutex_) = true;  // nothing has been sent yet
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  std::deque<grpc::ByteBuffer> messages_ GUARDED(mutex_);
  std::chrono::steady_clock::time_point last_message_ GUARDED(mutex_);
};

// The streams that watch the feed. Their number is limited, and a stop ends them all. Any thread.
// It must outlive them.
class Watchers {
 public:
  // False: there are too many. The stream was added nevertheless, until it ends and is removed.
  bool Add(ChangesStream* stream);
  void Remove(ChangesStream* stream);
  // Ends all that are open with UNAVAILABLE.
  void EndAll();
  // Also called by EndAll: for other streams that watch.
  void OnEnd(std::function<void()> end) {
    const Lock lock(mutex_);
    ends_.push_back(std::move(end));
  }
  size_t size() {
    const Lock lock(mutex_);
    return open_.size();
  }
  // Of a class of watchers that follow the feed: how many there are, and up to where the slowest
  // has read.
  struct Reading {
    size_t count = 0;
    uint64_t slowest = UINT64_MAX;
  };
  std::array<Reading, kWatcherClasses> ByClass();

 private:
  Mutex mutex_;
  std::set<ChangesStream*> open_ GUARDED(mutex_);
  std::vector<std::function<void()>> ends_ GUARDED(mutex_);
};

}  // namespace dfsmr
