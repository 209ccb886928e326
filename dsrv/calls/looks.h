// What is watched: each topic is looked at once for all that watch the same, and passed on to them
// when it has changed. Nothing is looked at while nobody watches.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/calls/backend.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class Looks {
 public:
  // A topic as it was when it was looked at. It never changes.
  struct Value {
    v1::WatchResponse message;        // without its key
    std::vector<v1::Change> changes;  // of an instance: its latest records, oldest first
    uint64_t records = 0;             // of an instance: how many there are, about
  };
  using ValuePtr = std::shared_ptr<const Value>;

  class Viewer {
   public:
    virtual ~Viewer() = default;
    // `topic` is what it is now. Replaces what has not been read yet. Must not block.
    virtual void Show(size_t topic, ValuePtr value) = 0;
    // Nothing need have changed: called every second.
    virtual void Beat() = 0;
    // The server is stopping.
    virtual void Stop() = 0;
  };

  explicit Looks(const Backend& backend);
  ~Looks();
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;

  // Shows `viewer` the topics from now on. `caller` has been admitted to all of them. False: there
  // are too many viewers.
  bool Add(const std::shared_ptr<Viewer>& viewer, const v1::WatchRequest& request,
           std::chrono::milliseconds every, const Caller& caller);
  void Remove(const Viewer* viewer);

 private:
  using Clock = std::chrono::steady_clock;
  using Topic = v1::WatchRequest::Topic;

  struct Seen {
    std::weak_ptr<Viewer> viewer;
    size_t topic = 0;
  };
  struct Look {
    std::string name;  // in looks_
    Topic topic;
    Caller caller;  // whose sight it is; of all namespaces that one matters
    std::chrono::milliseconds every{};
    bool under_way = false;
    Clock::time_point next;
    ValuePtr last;
    std::string bytes;   // of `last`, as far as they count as a change
    uint64_t after = 0;  // of the feed: the last record that was passed on
    std::multimap<const Viewer*, Seen> viewers;
  };
  using LookPtr = std::shared_ptr<Look>;

  void Run();
  void Begin(const LookPtr& look);
  template <typename Row, typename Request, typename Take>
  void Ask(const Row& row, const LookPtr& look, const Request& request, Take take);
  void AskFeed(const LookPtr& look);
  // A look has come to its end; `error` null: `value` is what was seen.
  void Arrived(const LookPtr& look, const Error* error, std::shared_ptr<Value> value);
  void Publish(const LookPtr& look, std::shared_ptr<Value> value);
  void AddHistory(const LookPtr& look, std::shared_ptr<Value> value);
  void StopAll();

  const Backend& backend_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::map<std::string, LookPtr> looks_ GUARDED(mutex_);
  std::map<const Viewer*, std::weak_ptr<Viewer>> viewers_ GUARDED(mutex_);
  uint64_t stirred_ GUARDED(mutex_) = 0;  // counts what changes when the next look is due
  bool ended_ GUARDED(mutex_) = false;
  std::thread thread_ GUARDED(mutex_);
};

}  // namespace dfsmr
