// Calls from within the process, without gRPC.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dsrv/access/direct.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/message_pool.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// A unary call. Owns itself until it has ended.
class DirectCall final : public Call,
                         public DirectServices::Call,
                         public std::enable_shared_from_this<DirectCall> {
 public:
  // Releases the messages at its end.
  DirectCall(const Backend& backend, CallMessages* messages,
             std::shared_ptr<const DirectOrigin> origin, DirectServices::Deadline deadline,
             DirectServices::Done done)
      : dfsmr::Call(backend),
        messages_(messages),
        origin_(std::move(origin)),
        deadline_(deadline),
        done_(std::move(done)) {}
  ~DirectCall() override { messages_->Release(); }

  // False: it is no request, and the call has ended.
  bool Read(const std::string& request);

  void Cancel() override;

  std::string Peer() const override { return origin_->Peer(); }
  std::string_view Bearer() const override { return origin_->Bearer(); }
  std::string Certificate() const override { return origin_->Certificate(); }
  std::string_view Door() const override { return origin_->Door(); }
  std::string RequestId() const override { return origin_->RequestId(); }
  std::string_view Besides() const override { return origin_->Besides(); }
  Timestamp Deadline() const override;
  std::string_view Traceparent() const override { return origin_->traceparent(); }
  void AddTrailer(const std::string& key, const std::string& value) override {
    reply_.trailers.emplace_back(key, value);
  }

 private:
  void Send(const Error* error) override;
  bool ByHttp() const override { return origin_->Door() == "http"; }
  void End();

  CallMessages* const messages_;
  const std::shared_ptr<const DirectOrigin> origin_;
  const DirectServices::Deadline deadline_;
  DirectServices::Done done_;
  DirectServices::Reply reply_;

  Mutex mutex_;
  std::shared_ptr<DirectCall> self_ GUARDED(mutex_);
  bool cancelled_ GUARDED(mutex_) = false;
  bool cancelling_ GUARDED(mutex_) = false;  // the follower is being told
  bool sent_ GUARDED(mutex_) = false;
};

// The unary methods that services have, by their paths.
class DirectRows final : public DirectServices {
 public:
  explicit DirectRows(const Backend& backend) : backend_(backend) {}

  // `make` gives the messages of a call; `serve` has the row serve it.
  using Make = std::function<CallMessages*()>;
  using Serve = std::function<void(dfsmr::Call& call, CallMessages& messages)>;
  void Add(std::string path, Make make, Serve serve) {
    rows_[std::move(path)] = {std::move(make), std::move(serve)};
  }
  std::shared_ptr<DirectServices::Call> Ask(const std::string& path, const std::string& request,
                                            std::shared_ptr<const DirectOrigin> origin,
                                            Deadline deadline, Done done) override;

 private:
  struct Row {
    Make make;
    Serve serve;
  };
  const Backend& backend_;
  std::map<std::string, Row, std::less<>> rows_;
};

}  // namespace dfsmr
