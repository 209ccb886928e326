// A Watch of a store of several partitions. What is of one instance is watched where that lives;
// the feed is read as any client reads it; what is of all partitions is asked of them again and
// again, and told when it has changed.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/cluster/front.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class Watching final : public grpc::ServerGenericBidiReactor,
                       public std::enable_shared_from_this<Watching> {
 public:
  // Whether a call is such a one: it comes from a client, and is asked in parts (Front::Parts).
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Watching(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context) {}
  void Begin();

 private:
  class Stream;  // of one topic
  using StreamPtr = std::shared_ptr<Stream>;
  struct Look {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };
  struct Topic {
    v1::WatchRequest::Topic of;
    bool told = false;  // anything
    bool over = false;
    std::string bytes;                   // of what was seen last, as far as they count as a change
    std::optional<std::string> pending;  // to be written
    StreamPtr stream;                    // open; null: it is looked at, or opened soon
    std::shared_ptr<Look> look;          // under way
  };

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Open(size_t topic) REQUIRES(mutex_);
  void OpenStream(size_t topic) REQUIRES(mutex_);
  void BeginLook(size_t topic) REQUIRES(mutex_);
  void Later(std::chrono::milliseconds time, size_t topic) REQUIRES(mutex_);
  void Beat() REQUIRES(mutex_);

  // What comes.
  void Take(size_t topic, const StreamPtr& from, const grpc::ByteBuffer& message);
  void TakeEnd(size_t topic, const StreamPtr& from, const grpc::Status& status);
  void TakeLook(size_t topic, const std::shared_ptr<Look>& look, const grpc::Status& status);
  void Show(size_t topic, const v1::WatchResponse& message) REQUIRES(mutex_);
  void ShowGone(size_t topic, const grpc::ClientContext& context, const grpc::Status& status)
      REQUIRES(mutex_);
  void EndAs(const grpc::ClientContext& context, const grpc::Status& status) REQUIRES(mutex_);

  void Step() REQUIRES(mutex_);
  void End(const grpc::Status& status) REQUIRES(mutex_);
  bool ended() const REQUIRES(mutex_) { return end_ || finished_; }

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  grpc::ByteBuffer request_;
  std::chrono::milliseconds every_{1'000};

  Mutex mutex_;
  std::shared_ptr<Watching> self_ GUARDED(mutex_);
  std::vector<Topic> topics_ GUARDED(mutex_);
  size_t next_ GUARDED(mutex_) = 0;  // whose turn it is to be written
  grpc::ByteBuffer reply_;
  bool writing_ GUARDED(mutex_) = false;
  bool beat_ GUARDED(mutex_) = false;
  std::chrono::steady_clock::time_point last_ GUARDED(mutex_) = std::chrono::steady_clock::now();
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  bool finished_ GUARDED(mutex_) = false;
};

}  // namespace dfsmr
