// Watch: sends what a viewer is shown. What it has not read yet is replaced by what comes later, so
// a slow one costs no more than a quick one.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dsrv/calls/counted.h"
#include "dsrv/calls/looks.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class WatchStream : public Counted<grpc::ServerWriteReactor<v1::WatchResponse>>,
                    public Looks::Viewer,
                    public Revocable {
 public:
  // The stream owns itself until it is done. `caller` is the caller who was admitted, or the
  // refusal.
  static WatchStream* Begin(const Backend& backend, Looks& looks,
                            grpc::CallbackServerContext* context, const Method& method,
                            const Result<Caller>& caller, const v1::WatchRequest& request);

 private:
  WatchStream(const Backend& backend, Looks& looks, grpc::CallbackServerContext* context,
              const v1::WatchRequest& request)
      : backend_(backend),
        looks_(looks),
        context_(context),
        request_(request),
        pending_(static_cast<size_t>(request.topics_size())),
        told_(pending_.size()),
        lost_(pending_.size()) {}

  void Show(size_t topic, Looks::ValuePtr value) override;
  void Beat() override;
  void Stop() override;
  void Revoke(const Error& error) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void EndWith(grpc::Status status);
  // Writes or finishes, if it is time for that.
  void Step() REQUIRES(mutex_);
  void Fill(size_t topic, const Looks::Value& value) REQUIRES(mutex_);

  const Backend& backend_;
  Looks& looks_;
  grpc::CallbackServerContext* const context_;
  const v1::WatchRequest request_;
  bool entered_ = false;  // through the gate

  Mutex mutex_;
  std::shared_ptr<WatchStream> self_ GUARDED(mutex_);  // until OnDone
  bool writing_ GUARDED(mutex_) = false;
  bool finished_ GUARDED(mutex_) = false;
  bool beat_ GUARDED(mutex_) = false;  // something is to be sent though nothing has changed
  std::optional<grpc::Status> end_ GUARDED(mutex_);
  std::vector<Looks::ValuePtr> pending_ GUARDED(mutex_);       // by topic; null: nothing new
  std::vector<std::optional<uint64_t>> told_ GUARDED(mutex_);  // of instances: up to which record
  std::vector<uint64_t> lost_ GUARDED(mutex_);  // changes of the feed that were replaced
  size_t next_ GUARDED(mutex_) = 0;             // topic, in turn
  v1::WatchResponse outgoing_;                  // while it is written
  std::chrono::steady_clock::time_point last_ GUARDED(mutex_) = std::chrono::steady_clock::now();
};

}  // namespace dfsmr
