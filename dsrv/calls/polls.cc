#include "dsrv/calls/polls.h"

#include "storage/rows/plan.h"

namespace dfsmr {

void PollCall::Arrived(const std::shared_ptr<State>& state) {
  if (state->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (state->error) {
    state->call->FinishWith(*state->error);
  } else {
    state->sent = !state->cancelled;
    state->call->FinishWell();
  }
}

void PollCall::State::Revoke(const Error& why) {
  (void)loop.Post({.run = [state = shared_from_this(), why](Engine& engine) {
                     if (state->poll == 0 || !engine.CancelPoll(state->poll)) return;
                     state->error = why;
                     engine.AfterCommit([state] { Arrived(state); });
                   },
                   .drop = [] {}});
}

Result<Answer> ReportAs(const Caller& caller, Engine& engine, ReportCommand* report) {
  auto allowed = caller.MayReport(engine, report->ns, report->instance, report->args.claim);
  for (const rows::ChildStart& child : report->children) {
    if (allowed) allowed = caller.MayStart(child.machine, !child.spec.flow.empty());
  }
  if (!allowed) return allowed.error();
  const bool outside = report->args.claim.empty() && caller.AuditedOutside() && !caller.Audited();
  const std::string transition = outside ? report->args.transition : "";
  auto answer = engine.Report(report->ns, report->instance, std::move(report->args),
                              report->children);
  if (!outside) return answer;
  std::optional<Error> error;
  if (!answer) error = answer.error();
  engine.AfterCommit([caller, instance = report->instance, transition, error] {
    caller.NoteOutside(instance, transition, error ? &*error : nullptr);
  });
  return answer;
}

// Runs in the loop. The sink may be called from the loop or the committer, once.
void PollCall::Park(Engine& engine, const std::shared_ptr<State>& state, PollArgs poll, Fill fill) {
  if (state->cancelled) {
    engine.AfterCommit([state] { Arrived(state); });
    return;
  }
  auto give = [state, fill = std::move(fill)](std::vector<Task> tasks) {
    if (auto error = fill(tasks)) state->error = std::move(error);
    state->tasks = std::move(tasks);
    Arrived(state);
  };
  auto parked = engine.Poll(std::move(poll), std::move(give));
  if (parked) {
    state->poll = *parked;
  } else {
    state->error = parked.error();
    engine.AfterCommit([state] { Arrived(state); });
  }
}

void PollCall::Send(Mailbox::Mail mail) {
  mail.deadline = DeadlineOf(*context_);
  mail.drop = [state = state_] { state->call->FinishWith(Dropped()); };
  if (!loop_.Post(std::move(mail))) FinishWith(Overloaded());
}

PollCall::Fill Into(google::protobuf::RepeatedPtrField<v1::Task>* out) {
  return [out](const std::vector<Task>& tasks) -> std::optional<Error> {
    for (const Task& task : tasks) ToProto(task, out->Add());
    return std::nullopt;
  };
}

void PollCall::Ready(PollArgs poll, Fill fill) {
  if (!admitted()) return;
  state_->pending = 1;
  access_.Watch(caller_, state_);
  Mailbox::Mail mail;
  mail.bytes = 256;
  mail.run = [state = state_, poll = std::move(poll),
              fill = std::move(fill)](Engine& engine) mutable {
    Park(engine, state, std::move(poll), std::move(fill));
  };
  Send(std::move(mail));
}

void PollCall::Report(std::vector<Result<ReportCommand>> reports, std::optional<PollArgs> poll,
                      v1::ReportResponse* reply, size_t bytes) {
  if (!admitted()) return;
  state_->pending = poll ? 2 : 1;
  if (poll) access_.Watch(caller_, state_);
  Mailbox::Mail mail;
  mail.bytes = bytes;
  mail.run = [state = state_, caller = caller_, reports = std::move(reports),
              poll = std::move(poll), reply](Engine& engine) mutable {
    reply->mutable_results()->Reserve(static_cast<int>(reports.size()));
    for (auto& report : reports) {
      Result<Answer> answer = report ? ReportAs(caller, engine, &*report)
                                     : Result<Answer>(report.error());
      ToProto(report ? report->instance : std::string(), answer, reply->add_results());
    }
    engine.AfterCommit([state] { Arrived(state); });
    if (poll) Park(engine, state, *std::move(poll), Into(reply->mutable_tasks()));
  };
  Send(std::move(mail));
}

void PollCall::OnCancel() {
  state_->cancelled = true;
  loop_.Post({.run = [state = state_](Engine& engine) {
                if (state->poll != 0 && engine.CancelPoll(state->poll)) {
                  engine.AfterCommit([state] { Arrived(state); });
                }
              },
              .drop = [] {},
              .owed = true});
}

void PollCall::OnDone() {
  if (!state_->tasks.empty() && context_->IsCancelled()) {
    auto give_back = [state = state_](Engine& engine) {
      engine.Undelivered(state->tasks, /*perhaps=*/state->sent);
    };
    loop_.Post({.run = std::move(give_back), .drop = [] {}, .owed = true});
  }
  UnaryCall::OnDone();
}

}  // namespace dfsmr
