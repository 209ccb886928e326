#include "dsrv/calls/polls.h"

#include "dsrv/calls/items.h"
#include "dsrv/calls/method.h"

namespace dfsmr {

Poll::Poll(Call& call, Sinks sinks)
    : call_(call), loop_(call.backend().loop), caller_(call.caller()), sinks_(std::move(sinks)) {}

void Poll::Begin(Call& call, PollCommand command, Sinks sinks) {
  const std::shared_ptr<Poll> poll(new Poll(call, std::move(sinks)));
  call.Follow(poll);
  const bool changes = !command.reports.empty() || !command.starts.empty();
  poll->awaited_ = changes && command.poll ? 2 : 1;
  if (command.poll) call.backend().access.Watch(call.caller(), poll);
  Mailbox::Mail mail;
  mail.deadline = call.Deadline();
  mail.bytes = command.bytes;
  const auto kept = std::make_shared<PollCommand>(std::move(command));
  mail.run = [poll, kept](Engine& engine) {
    if (!kept->starts.empty() && poll->AskFirst(engine, kept)) return;
    poll->Run(engine, *kept);
  };
  mail.drop = [poll] { poll->call_.Fail(DeadlinePassed()); };
  if (!call.backend().loop.Post(std::move(mail))) call.Fail(Overloaded());
}

bool Poll::AskFirst(Engine& engine, const std::shared_ptr<PollCommand>& command) {
  const auto then = [self = shared_from_this(), command] {
    PostFor(self->call_, command->bytes,
            [self, command](Engine& again) { self->Run(again, *command); });
  };
  return AskHome(call_.backend(), engine, StartsOf(command->starts), then);
}

void Poll::Run(Engine& engine, PollCommand& command) {
  for (auto& report : command.reports) {
    Result<Answer> answer =
        report ? ReportAs(engine, caller_, *report) : Result<Answer>(report.error());
    sinks_.answer(report ? report->instance : std::string(), answer);
  }
  started_.reserve(command.starts.size());
  for (auto& start : command.starts) started_.push_back(StartAs(engine, caller_, start));
  if (!command.reports.empty() || !command.starts.empty() || !command.poll) {
    engine.AfterCommit([self = shared_from_this()] { self->Arrived(); });
  }
  if (command.poll) Park(engine, *std::move(command.poll));
}

// The engine may call the sink from the loop or from the committer, once.
void Poll::Park(Engine& engine, PollArgs poll) {
  auto self = shared_from_this();
  if (cancelled_) return engine.AfterCommit([self] { self->Arrived(); });
  auto parked = engine.Poll(std::move(poll), [self](std::vector<Task> tasks) {
    if (auto error = self->sinks_.hand(tasks)) self->error_ = std::move(error);
    self->tasks_ = std::move(tasks);
    self->Arrived();
  });
  if (parked) {
    waiter_ = *parked;
    if (waiter_ != 0) call_.Waits();
  } else {
    error_ = parked.error();
    engine.AfterCommit([self] { self->Arrived(); });
  }
}

void Poll::Arrived() {
  if (awaited_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (error_) return call_.Fail(*error_);
  if (!started_.empty()) sinks_.started(started_);
  sent_ = !cancelled_;
  call_.Succeed();
}

void Poll::Revoke(const Error& why) {
  (void)loop_.Post({.run = [self = shared_from_this(), why](Engine& engine) {
                      if (self->waiter_ == 0 || !engine.CancelPoll(self->waiter_)) return;
                      self->error_ = why;
                      engine.AfterCommit([self] { self->Arrived(); });
                    },
                    .drop = [] {}});
}

void Poll::OnCancel() {
  cancelled_ = true;
  loop_.Post({.run = [self = shared_from_this()](Engine& engine) {
                if (self->waiter_ != 0 && engine.CancelPoll(self->waiter_)) {
                  engine.AfterCommit([self] { self->Arrived(); });
                }
              },
              .drop = [] {},
              .owed = true});
}

void Poll::OnDone(bool cancelled) {
  if (tasks_.empty() || !cancelled) return;
  auto give_back = [self = shared_from_this()](Engine& engine) {
    engine.Undelivered(self->tasks_, /*perhaps=*/self->sent_);
  };
  loop_.Post({.run = give_back, .drop = [] {}, .owed = true});
}

}  // namespace dfsmr
