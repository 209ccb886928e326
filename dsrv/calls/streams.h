// The two streams: Work hands out tasks as capacity frees up and answers reports in batches;
// Changes sends the feed.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_set>
#include <vector>

#include "dsrv/calls/calls.h"
#include "fsm/base/mutex.h"

namespace dfsmr {

class WorkStream : public grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>,
                   public Revocable,
                   public std::enable_shared_from_this<WorkStream> {
 public:
  // Owns itself until it is done.
  static WorkStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                           const Method& method);

 private:
  WorkStream(const Backend& backend, grpc::CallbackServerContext* context);

  void Revoke(const Error& error) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  Result<Ok> Admit();

  // The loop.
  void Open(Engine& engine, Filter filter, std::string worker, int32_t capacity);
  void Handle(Engine& engine, const v1::WorkRequest& request);
  void CloseSession(Engine& engine);

  Result<Ok> Post(std::function<void(Engine&)> run, size_t bytes);
  void PostEnd(std::function<void(Engine&)> run);
  void Update(SessionUpdate update);
  // With `more` to follow at once it waits for that.
  void Answer(std::shared_ptr<v1::WorkResponse> answers, bool more);
  void End(const grpc::Status& status);
  void EndWith(const Error& error);
  void WriteOrFinish(Lock& lock);
  void ReadOn(Lock& lock);

  const Backend backend_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<WorkStream> self_;  // until OnDone
  bool admitted_ = false;
  Caller caller_;

  // The loop's.
  SessionId session_ = 0;
  std::string ns_;
  bool closed_ = false;

  v1::WorkRequest incoming_;
  bool opened_ = false;
  Mutex mutex_;
  v1::WorkResponse writing_;
  v1::WorkResponse next_;
  std::vector<Task> writing_tasks_;
  std::vector<Task> next_tasks_;
  std::vector<Task> undelivered_;  // never written
  std::vector<Task> doubtful_;     // written as the stream broke
  bool write_pending_ = false;
  bool next_filled_ = false;
  bool reading_ = false;
  bool read_ended_ = false;
  size_t unanswered_ = 0;  // messages read whose answers are not out yet
  std::optional<grpc::Status> end_;
  bool finished_ = false;
};

// Changes, of either service: `encode` turns a portion into messages.
class ChangesStream : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                      public Changes::Watcher,
                      public Revocable {
 public:
  using Encode = std::function<void(const Changes::PortionPtr&, const std::string& cursor,
                                    std::deque<grpc::ByteBuffer>* out)>;
  struct Open {
    ChangeFilter filter;
    uint64_t after = 0;
    uint64_t until = UINT64_MAX;  // ends there; UINT64_MAX: follows
    bool beats = true;            // sends a message now and then when there is nothing to say
  };
  static ChangesStream* Begin(const Backend& backend, grpc::CallbackServerContext* context,
                              const Result<Caller>& caller,
                              const std::function<Result<Open>()>& open, Encode encode);
  // Ends all that are open with UNAVAILABLE.
  static void EndAll();

 private:
  ChangesStream(const Backend& backend, grpc::CallbackServerContext* context, Encode encode);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Wake() override;
  void Revoke(const Error& error) override;

  void Step();
  void Take(const Changes::PortionPtr& portion);
  void End(grpc::Status status);

  Changes& changes_;
  Gate& gate_;
  bool admitted_ = false;
  grpc::CallbackServerContext* const context_;
  const Encode encode_;
  Open open_;
  std::shared_ptr<ChangesStream> self_;  // until OnDone

  Mutex mutex_;
  bool busy_ = true;  // writing, or reading the store
  bool first_ = true;
  bool finished_ = false;
  std::optional<grpc::Status> end_;
  std::deque<grpc::ByteBuffer> messages_;
  std::chrono::steady_clock::time_point last_message_;
};

}  // namespace dfsmr
