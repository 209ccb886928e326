// Calls that hand out tasks and may wait for them: Ready and Report. A task that does not reach its
// worker goes back as if it had never been claimed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsrv/calls/call.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// What such a call asks for. The reports and starts are taken before the poll begins.
struct PollCommand {
  struct Asked {
    std::string worker;
    Timestamp at;
  };
  std::vector<Result<ReportCommand>> reports;
  std::vector<Result<StartArgs>> starts;
  std::optional<PollArgs> poll;  // absent: reports and starts only
  Asked asked;
  size_t bytes = 0;  // its size in the mailbox
};

// Serves one such call, and ends it when its reports are durable and its poll is answered.
class Poll final : public Call::Follower,
                   public Revocable,
                   public std::enable_shared_from_this<Poll> {
 public:
  struct Sinks {
    // Takes the result of one report.
    std::function<void(const std::string& instance, const Result<Answer>&)> answer;
    // Takes the results of all starts.
    std::function<void(const std::vector<Result<Started>>&)> started;
    // Puts tasks into the reply, or returns the error with which the call fails without any.
    std::function<std::optional<Error>(const std::vector<Task>&)> hand;
  };
  static void Begin(Call& call, PollCommand command, Sinks sinks);

  void OnCancel() override;
  void OnDone(bool cancelled) override;
  void Revoke(const Error& why) override;

 private:
  Poll(Call& call, Sinks sinks);

  // In the loop. AskFirst: what it starts is run again when home has said whether limits let it in.
  bool AskFirst(Engine& engine, const std::shared_ptr<PollCommand>& command);
  void Run(Engine& engine, PollCommand& command);
  void Park(Engine& engine, PollArgs poll);
  // One of the things that the reply waits for has happened.
  void Arrived();

  Call& call_;  // not used after it has ended: the poll may live longer, in the engine
  Loop& loop_;
  const Caller caller_;
  const Sinks sinks_;
  std::atomic<bool> cancelled_{false};
  bool sent_ = false;  // the reply may have arrived, even if gRPC says that the call was cancelled
  std::atomic<int> awaited_{0};  // how many things the reply still waits for
  WaiterId waiter_ = 0;          // in the loop only
  std::vector<Result<Started>> started_;
  std::vector<Task> tasks_;
  std::optional<Error> error_;
};

}  // namespace dfsmr
