// Work: a stream that hands out tasks as capacity frees up, and answers reports in batches.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/grpc_call.h"
#include "dsrv/wire/requests.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

// What a stream has to write, a message at a time: what comes while one is written is merged into
// the next. One thread at a time.
class Outbox {
 public:
  void Add(SessionUpdate update);
  void Add(v1::WorkResponse* answers);  // takes them out of it
  // Whether there is something to write, and nothing is being written.
  bool Ready() const { return !writing_ && Filled(); }
  bool writing() const { return writing_; }
  // Answers that wait for a client that does not read.
  int answers() const { return next_.results_size() + next_.extended_size(); }
  size_t tasks() const { return next_tasks_.size(); }

  // The next message; stays valid until Written or Broke.
  const v1::WorkResponse* Write();
  void Written();
  // The stream broke as it was written: its tasks may have arrived.
  void Broke();
  // Nothing more is written after the message that is being written.
  void Drop();
  // For an update that comes when nothing is written any more.
  void Return(std::vector<Task> tasks);

  // Tasks that never reached their worker, and tasks of which nobody knows: each is given once.
  struct Unsent {
    std::vector<Task> undelivered;
    std::vector<Task> doubtful;
  };
  Unsent TakeUnsent() { return std::exchange(unsent_, {}); }

 private:
  bool Filled() const;

  bool writing_ = false;
  v1::WorkResponse current_;
  v1::WorkResponse next_;
  std::vector<Task> current_tasks_;
  std::vector<Task> next_tasks_;
  Unsent unsent_;
};

class WorkStream : public grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>,
                   public Revocable,
                   public std::enable_shared_from_this<WorkStream> {
 public:
  // Owns itself until it is done.
  static WorkStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                           const Method& method);

 private:
  // Each only goes on to one that stands below it.
  enum class Stage {
    kServing,
    kEnding,    // end_ says how: what is unanswered or unwritten goes out first
    kFinished,  // gRPC has been told the end
    kDone,      // and is done with the stream
  };
  enum class Reading {
    kPaused,  // too much is unanswered or unwritten
    kActive,  // a read is under way, or its message is being looked at
    kEnded,   // the client has half-closed, or is gone
  };
  enum class Session { kNone, kOpen, kClosed };

  WorkStream(const Backend& backend, grpc::CallbackServerContext* context);

  void Revoke(const Error& error) override { EndWith(error); }
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Of the message that was read: whether all that it names may be entered, and whether it may be
  // handled.
  Result<Ok> MayEnter() const;
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
  void OpenSession(Engine& engine, Filter filter, std::string worker, int32_t capacity);
  void Handle(Engine& engine, Message& message);
  void CloseSession(Engine& engine);

  Result<Ok> Post(std::function<void(Engine&)> run, size_t bytes);
  void PostEnd(std::function<void(Engine&)> run);
  // From the loop or the committer.
  void Update(SessionUpdate update);
  // `more` follows at once: the answers wait for it, to share its message.
  void AnswerWith(v1::WorkResponse* answers, bool more);

  void EndWith(const Error& error);
  void End(const grpc::Status& status) REQUIRES(mutex_);
  void WriteOrFinish() REQUIRES(mutex_);
  void ReadOn() REQUIRES(mutex_);

  const Backend& backend_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WorkStream> self_;  // until OnDone
  bool entered_ = false;              // through the gate
  Caller caller_;

  // The loop's.
  Session session_ = Session::kNone;
  SessionId session_id_ = 0;

  // The reader's, while reading_ is kActive.
  v1::WorkRequest incoming_;
  bool opened_ = false;  // the first message has been taken
  std::string ns_;       // of the stream, for items that name none

  Mutex mutex_;
  Stage stage_ GUARDED(mutex_) = Stage::kServing;
  std::optional<grpc::Status> end_ GUARDED(mutex_);  // set once it is not kServing
  Reading reading_ GUARDED(mutex_) = Reading::kPaused;
  Outbox outbox_ GUARDED(mutex_);
  size_t unanswered_ GUARDED(mutex_) = 0;  // messages read whose answers are not in the outbox yet
};

}  // namespace dfsmr
