// One call with one request and one reply, on its way through the server, whatever protocol it came
// by. A protocol derives from it once; the methods know nothing else.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "dsrv/calls/backend.h"

namespace dfsmr {

// The server, or the disk, has more to do than it can.
Error Overloaded();
Error DeadlinePassed();
Error Stopping();

class Call : public Origin {
 public:
  // What must be undone when a call ends without its reply having arrived.
  class Follower {
   public:
    virtual ~Follower() = default;
    virtual void OnCancel() = 0;               // the caller gave up, or is gone
    virtual void OnDone(bool cancelled) = 0;  // the call is over; after OnCancel, if that comes
  };

  explicit Call(const Backend& backend) : backend_(backend) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  virtual Timestamp Deadline() const = 0;  // kNever: the caller waits for ever
  // Travels behind the reply, or the error. Before one of the three below.
  virtual void AddTrailer(const std::string& key, const std::string& value) = 0;

  // Each call ends by one of these, once; then it may be gone. Refuse is for a request that nothing
  // was done for: the audit trail has heard of it at the door, if it had to. Fail and Succeed tell
  // the audit trail how a change ended.
  void Refuse(const Error& error);
  void Fail(const Error& error);
  void Succeed();

  const Backend& backend() const { return backend_; }
  const Caller& caller() const { return caller_; }
  void SetCaller(Caller caller) { caller_ = std::move(caller); }
  // Lets the call in, so that a stop waits for its end. False: the server stops, and the call has
  // failed.
  bool Enter();
  // At most one follower, from before the call's handler returns.
  void Follow(std::shared_ptr<Follower> follower) { follower_ = std::move(follower); }

 protected:
  ~Call() override = default;  // a protocol's call deletes itself

  // The protocol calls them.
  void Cancelled();
  void Done(bool cancelled);  // after it the call may be deleted

 private:
  // Null: all went well.
  virtual void Send(const Error* error) = 0;

  const Backend& backend_;
  Caller caller_;
  std::shared_ptr<Follower> follower_;
  bool entered_ = false;
};

}  // namespace dfsmr
