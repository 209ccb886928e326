// One call with one request and one reply, on its way through the server, whatever its protocol.
// Each protocol derives one class from it; the methods see only this one.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "dsrv/calls/backend.h"

namespace dfsmr {

// The server or the disk has more work than it can do.
Error Overloaded();
Error DeadlinePassed();
Error Stopping();

class Call : public Origin {
 public:
  // Undoes what was done for a call when it ends and its reply has not arrived.
  class Follower {
   public:
    virtual ~Follower() = default;
    virtual void OnCancel() = 0;              // the caller has given up, or is gone
    virtual void OnDone(bool cancelled) = 0;  // the call is over; after OnCancel, if it is called
  };

  explicit Call(const Backend& backend) : backend_(backend) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  virtual Timestamp Deadline() const = 0;  // kNever: the caller waits for ever
  // The caller's W3C Trace Context, as it came; empty: none.
  virtual std::string_view Traceparent() const { return {}; }
  // Goes out after the reply or the error. Call it before one of the three methods below.
  virtual void AddTrailer(const std::string& key, const std::string& value) = 0;

  // Each call ends with exactly one of these, and may be deleted at once. Refuse is for a request
  // for which nothing was done; a refusal that belongs into the audit trail is there already. Fail
  // and Succeed tell the audit trail how a change ended.
  void Refuse(const Error& error);
  void Fail(const Error& error);
  void Succeed();

  const Backend& backend() const { return backend_; }
  const Caller& caller() const { return caller_; }
  void SetCaller(Caller caller) { caller_ = std::move(caller); }
  // The call is of this method, and is counted as such from now on.
  void Counts(const Method& method);
  // It waits for something to happen, so how long it takes says nothing of the server.
  void Waits() { waits_ = true; }
  // From now on a stop of the server waits for the end of the call. False: the server is stopping,
  // and the call has failed.
  bool Enter();
  // Keeps something, at most one thing, as long as the call lives.
  template <typename Kept>
  Kept* Keep(Kept kept) {
    auto owned = std::make_shared<Kept>(std::move(kept));
    Kept* const place = owned.get();
    kept_ = std::move(owned);
    return place;
  }
  // At most one follower. Call it before the call's handler returns.
  void Follow(std::shared_ptr<Follower> follower) { follower_ = std::move(follower); }

 protected:
  ~Call() override = default;  // a protocol's call deletes itself

  // For the protocol to call.
  // `how`: kCancelled, or kDeadlineExceeded.
  void Cancelled(Code how);
  void Done(bool cancelled);  // after it the call may be deleted

 private:
  // Null: the call succeeded.
  virtual void Send(const Error* error) = 0;
  // Whether the HTTP door has passed it on.
  virtual bool ByHttp() const = 0;
  void End(const Error* error);

  const Backend& backend_;
  Caller caller_;
  std::shared_ptr<Follower> follower_;
  std::shared_ptr<void> kept_;
  bool entered_ = false;
  bool waits_ = false;
  const Method* method_ = nullptr;  // null: it is not counted
  std::atomic<Code> gone_ = Code::kOk;  // as which the caller has given up
  std::chrono::steady_clock::time_point begun_;
};

}  // namespace dfsmr
