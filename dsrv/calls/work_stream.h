// Work: a stream that hands out tasks as capacity frees up, and answers reports in batches.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/exchange.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class WorkStream : public grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>,
                   public Revocable,
                   public std::enable_shared_from_this<WorkStream> {
 public:
  // The stream owns itself until it is done.
  static WorkStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                           const Method& method);

 private:
  enum class Session { kNone, kOpen, kClosed };

  WorkStream(const Backend& backend, grpc::CallbackServerContext* context);

  void Revoke(const Error& error) override { EndWith(error); }
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Whether the caller may enter each namespace that the message names.
  Result<Ok> MayEnter() const;
  // Checks the message that was read, and posts it to the loop. An error ends the stream.
  Result<Ok> Take();
  Result<Ok> TakeOpen();

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
  void CloseSession(Engine& engine);

  Result<Ok> Post(std::function<void(Engine&)> run, size_t bytes);
  void PostEnd(std::function<void(Engine&)> run);
  // From the loop or the committer.
  void Update(SessionUpdate update);
  // `more`: another message for the client follows at once, and these answers go with it.
  void AnswerWith(v1::WorkResponse* answers, bool more);

  void EndWith(const Error& error);
  void ReadOn() REQUIRES(mutex_);
  // Writes what waits, or ends the stream, or neither when it is too early.
  void WriteOrFinish() REQUIRES(mutex_);

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WorkStream> self_;  // until OnDone
  bool entered_ = false;              // through the gate
  Caller caller_;

  // The loop's.
  Session session_ = Session::kNone;
  SessionId session_id_ = 0;

  // The reader's, while a read is under way or its message is being dealt with.
  v1::WorkRequest incoming_;
  bool opened_ = false;  // the first message has been taken
  std::string ns_;       // of the stream, for items that name none

  Mutex mutex_;
  Exchange exchange_ GUARDED(mutex_);
};

}  // namespace dfsmr
