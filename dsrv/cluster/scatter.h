// A call with items of several partitions: each part is asked through the front as a call of its
// own, and the replies are joined.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dsrv/cluster/front.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// A batch on its way: what each partition takes of it, and what came back.
class PartedBatch {
 public:
  virtual ~PartedBatch() = default;
  virtual size_t parts() const = 0;
  virtual PartitionId PartitionAt(size_t part) const = 0;
  virtual std::string RequestAt(size_t part) const = 0;
  // The reply of a part, or why there is none. Parts may come at once, each once.
  virtual void Take(size_t part, const grpc::Status& status, const std::string& reason,
                    const std::string& reply) = 0;
  // The reply to the whole, when all parts are here. False: it fails as the first part did.
  virtual bool Join(std::string* reply) = 0;
};
// Null: the method takes no such batches, or the request is not one.
std::unique_ptr<PartedBatch> MakeBatch(const std::string& method, const std::string& request,
                                 uint16_t partitions, PartitionId any);

// Owns itself from Begin until it is done.
class Scatter final : public grpc::ServerGenericBidiReactor,
                      public std::enable_shared_from_this<Scatter> {
 public:
  // Whether a call is to be scattered: it comes from a client, and there are several partitions.
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  Scatter(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context), method_(context->method()) {}
  void Begin();

 private:
  // A part, as it is asked.
  struct Asked {
    grpc::ClientContext context;
    grpc::ByteBuffer request;
    grpc::ByteBuffer reply;
  };

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }
  void AskAll();
  void Answered(size_t part, Asked* asked, const grpc::Status& status);
  void End();

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  const std::string method_;
  std::shared_ptr<Scatter> self_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::unique_ptr<PartedBatch> batch_;
  std::atomic<size_t> left_ = 0;  // parts that are not answered
  std::pair<grpc::Status, Asked*> first_;  // how the first part ended

  Mutex mutex_;
  bool cancelled_ GUARDED(mutex_) = false;
  std::vector<std::unique_ptr<Asked>> asked_ GUARDED(mutex_);
};

}  // namespace dfsmr
