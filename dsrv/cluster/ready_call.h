// A Ready to a store of several partitions, as it comes from a client.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>

#include "dsrv/cluster/front.h"
#include "dsrv/cluster/taking.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// Owns itself from Begin until it is done. What was taken for a worker that is gone meanwhile goes
// back.
class ReadyCall final : public grpc::ServerGenericBidiReactor,
                        public std::enable_shared_from_this<ReadyCall> {
 public:
  // Whether a call is such a one: it comes from a client, and is asked in parts (Front::Parts).
  static bool Wants(const Front& front, const grpc::GenericCallbackServerContext& context);

  ReadyCall(Front& front, grpc::GenericCallbackServerContext* context)
      : front_(front), context_(context) {}
  void Begin();

 private:
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Take(const Taking::Reply& reply, v1::ReadyResponse taken);

  Front& front_;
  grpc::GenericCallbackServerContext* const context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::shared_ptr<const DirectOrigin> origin_;

  Mutex mutex_;
  std::shared_ptr<ReadyCall> self_ GUARDED(mutex_);
  std::shared_ptr<Taking> taking_ GUARDED(mutex_);
  bool cancelled_ GUARDED(mutex_) = false;
  v1::ReadyResponse taken_ GUARDED(mutex_);
};

}  // namespace dfsmr
