// Ready and Report: calls that hand out tasks, and may wait for them. A task that does not reach
// its worker goes back as if it had never been claimed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "dsrv/calls/calls.h"

namespace dfsmr {

// One call that hands out tasks. Finishes when its reports are durable and its poll is answered.
class PollCall : public UnaryCall {
 public:
  PollCall(const Backend& backend, grpc::CallbackServerContext* context, Caller caller)
      : UnaryCall(backend, context, std::move(caller)),
        loop_(backend.loop),
        access_(backend.access),
        state_(std::make_shared<State>(this, backend.loop)) {}

  // Puts tasks into the reply, or refuses to be without any.
  using Fill = std::function<std::optional<Error>(const std::vector<Task>&)>;
  void Ready(PollArgs poll, Fill fill);
  // The reports first, then the poll, if there is one.
  void Report(std::vector<Result<ReportCommand>> reports, std::optional<PollArgs> poll,
              v1::ReportResponse* reply, size_t bytes);

 private:
  // Outlives the call where the engine still holds the poll.
  struct State : Revocable, std::enable_shared_from_this<State> {
    State(PollCall* of, Loop& in) : call(of), loop(in) {}
    void Revoke(const Error& why) override;

    PollCall* const call;
    Loop& loop;
    std::atomic<bool> cancelled{false};
    bool sent = false;  // the reply was on its way: perhaps it arrived, whatever is said of it
    std::atomic<int> pending{0};  // what the reply still waits for
    WaiterId poll = 0;            // in the loop only
    std::vector<Task> tasks;
    std::optional<Error> error;
  };

  void OnCancel() override;
  void OnDone() override;
  static void Arrived(const std::shared_ptr<State>& state);
  static void Park(Engine& engine, const std::shared_ptr<State>& state, PollArgs poll, Fill fill);
  void Send(Mailbox::Mail mail);

  Loop& loop_;
  Access& access_;
  std::shared_ptr<State> state_;
};

// A report of this caller's, in the loop; its args are moved away. What an operator's does without
// a claim is noted when it is durable, unless the call itself is.
Result<Answer> ReportAs(const Caller& caller, Engine& engine, ReportCommand* report);

// Appends tasks to a repeated field of the reply.
PollCall::Fill Into(google::protobuf::RepeatedPtrField<v1::Task>* out);

}  // namespace dfsmr
