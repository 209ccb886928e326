// The stream of one partition in a stream that several have a share in. It is asked through the
// front, and ends when its partition changes hands.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "dsrv/cluster/front.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done.
class PartStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public std::enable_shared_from_this<PartStream> {
 public:
  using Ptr = std::shared_ptr<PartStream>;
  // The stream as a whole. It lives as long as its parts.
  class Whole {
   public:
    virtual ~Whole() = default;
    virtual Mutex& mutex() = 0;
    // Called without the mutex, from any thread; nothing follows TakeEnd.
    virtual void TakeReply(const Ptr& from, const std::string& bytes) = 0;
    virtual void TakeEnd(const Ptr& from, const grpc::Status& status) = 0;
  };

  PartStream(std::shared_ptr<Whole> whole, PartitionId of)
      : partition(of), whole_(std::move(whole)) {}

  // With the mutex of the whole held. -----------------------------------------------------------

  void Begin(Front& front, const grpc::GenericCallbackServerContext& outer, const char* method);
  void Say(std::string bytes);
  // Nothing is said any more but what is unsent.
  void SayEnd();
  // Nothing at all.
  void Close();
  // Nothing, and nothing is heard.
  void Cancel();

  const PartitionId partition;
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  grpc::ClientContext context;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void WriteOn();

  std::shared_ptr<Whole> whole_;
  Ptr self_;
  std::shared_ptr<grpc::GenericStub> own_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  std::deque<std::string> unsent_;
  bool writing_ = false;
  bool ends_ = false;
  bool said_all_ = false;
};

}  // namespace dfsmr
