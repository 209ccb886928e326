// Work: a stream that hands out tasks as capacity frees up, and answers reports in batches.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/counted.h"
#include "dsrv/calls/exchange.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// What the streams of workers share. A stream owns itself until it is done.
class WorkStream : public Revocable, public std::enable_shared_from_this<WorkStream> {
 public:
  WorkStream(const Backend& backend, grpc::CallbackServerContext* context);
  // Once, before gRPC calls: admits the caller, and reads the first message.
  void Begin(std::shared_ptr<WorkStream> self, const Method& method);

 protected:
  // What gRPC does for the stream: reads into `incoming_` and calls ReadDone, writes and calls
  // WriteDone, ends the call and calls Done.
  virtual void ReadNext() = 0;
  virtual void WriteNext(const v1::WorkResponse& message) = 0;
  virtual void EndCall(const grpc::Status& status) = 0;
  // Checks the message that was read besides `incoming_`. What it returns runs in the loop before
  // the message is dealt with; it may be empty.
  virtual Result<std::function<void(Engine&)>> TakeRest() { return std::function<void(Engine&)>(); }
  virtual Result<SessionId> OpenIn(Engine& engine, const PollArgs& poll, int32_t capacity,
                                   SessionSink sink);
  // Whether messages may be written yet.
  virtual bool MayWrite() REQUIRES(mutex_) { return true; }
  virtual void Heeded(const SessionUpdate&) REQUIRES(mutex_) {}
  // How the stream of the worker ends; asked when nothing more is read, and again when the call is
  // done. `half_closed`: as far as the call tells.
  virtual StreamEnd EndOf(bool half_closed) const {
    return half_closed ? StreamEnd::kHalfClosed : StreamEnd::kBroken;
  }

  void ReadDone(bool ok);
  void WriteDone(bool ok);
  void Cancelled();
  void Done();
  void EndWith(const Error& error);
  // Writes what waits, or ends the stream, or neither when it is too early.
  void WriteOrFinish() REQUIRES(mutex_);
  SessionId session() const { return session_id_; }  // in the loop
  const std::string& space() const { return ns_; }    // the stream's namespace, once it is open
  const grpc::CallbackServerContext& context() const { return *context_; }
  const Backend& backend() const { return backend_; }

  // The reader's, while a read is under way or its message is being dealt with.
  v1::WorkRequest incoming_;

  std::atomic<bool> revoked_ = false;  // nobody may report what is in hand any more

  Mutex mutex_;
  Exchange exchange_ GUARDED(mutex_);
  bool half_closed_ GUARDED(mutex_) = false;  // or broken: the call's end tells

 private:
  enum class Session { kNone, kOpen, kClosed };

  void Revoke(const Error& error) override;

  // Whether the caller may enter each namespace that the message names.
  Result<Ok> MayEnter() const;
  // Checks the message that was read, and posts it to the loop. An error ends the stream.
  Result<Ok> Take();
  Result<std::function<void(Engine&)>> TakeOpen();  // what it is to do in the loop

  // What a message asks for. Read before it enters the loop, which others wait for.
  struct Message {
    struct Report {
      std::string instance;
      Result<ReportCommand> command;
    };
    std::vector<Report> reports;
    std::vector<Result<ExtendCommand>> extends;
    std::vector<RelinquishCommand> relinquishes;
    bool drain = false;
  };
  Message Read() const;

  // In the loop.
  void OpenSession(Engine& engine, const PollArgs& poll, int32_t capacity);
  void Handle(Engine& engine, Message& message);
  void CloseSession(Engine& engine, StreamEnd how);

  Result<Ok> Post(std::function<void(Engine&)> run, size_t bytes);
  void PostEnd(std::function<void(Engine&)> run);
  // From the loop or the committer.
  void Update(SessionUpdate update);
  // `more`: another message for the client follows at once, and these answers go with it.
  void AnswerWith(v1::WorkResponse* answers, bool more);
  // The extends of a message, ahead of its other answers; `all`: it has no others. From the loop.
  void AnswerEarly(v1::WorkResponse* extended, bool all, bool more);
  bool TakeExtends(bool early);  // as Exchange's

  void ReadOn() REQUIRES(mutex_);

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WorkStream> self_;  // until OnDone
  bool entered_ = false;              // through the gate
  Caller caller_;

  // The loop's.
  Session session_ = Session::kNone;
  SessionId session_id_ = 0;
  bool keeps_ = false;  // a session keeps what is in hand when the stream breaks

  // The reader's, as incoming_.
  bool opened_ = false;  // the first message has been taken
  std::string ns_;       // of the stream, for items that name none
};

// RunnerService.Work.
class WorkReactor final
    : public Counted<grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>>,
      public WorkStream {
 public:
  using WorkStream::WorkStream;

 private:
  void OnReadDone(bool ok) override { ReadDone(ok); }
  void OnWriteDone(bool ok) override { WriteDone(ok); }
  void OnCancel() override { Cancelled(); }
  void OnDone() override { Done(); }
  void ReadNext() override { StartRead(&incoming_); }
  void WriteNext(const v1::WorkResponse& message) override { StartWrite(&message); }
  void EndCall(const grpc::Status& status) override { Finish(status); }
};

}  // namespace dfsmr
