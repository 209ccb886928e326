#include "dsrv/calls/tasks.h"

#include <algorithm>
#include <utility>

#include "dsrv/calls/instances.h"
#include "dsrv/calls/items.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"

namespace dfsmr {

Result<PollArgs> ToAllowedPoll(const v1::ReadyRequest& request, const Call& call) {
  auto poll = ToPoll(request, call.Peer(), call.backend().clock());
  if (!poll) return poll;
  auto allowed = call.caller().Narrow(&poll->filter);
  if (!allowed) return allowed.error();
  poll->max_tasks = std::min(poll->max_tasks, limits::kTasks);
  return poll;
}

Result<PollCommand> ParseReady(const v1::ReadyRequest& request, const Call& call) {
  auto poll = ToAllowedPoll(request, call);
  if (!poll) return poll.error();
  PollCommand command;
  command.poll = *std::move(poll);
  command.bytes = 256;
  return command;
}

std::optional<Error> HandReady(const std::vector<Task>& tasks, const PollCommand::Asked&,
                               v1::ReadyResponse* reply) {
  for (const Task& task : tasks) ToProto(task, reply->add_tasks());
  return std::nullopt;
}

Result<ReportCommand> ParseTransition(const v1::TransitionRequest& request, const Call& call) {
  call.caller().On(request.instance(), request.transition());
  auto report = ToReport(request);
  if (!report) return report;
  if (report->args.client.empty() && !report->args.claim.given()) report->args.client = call.Peer();
  for (StartArgs& start : report->starts) Join(call.Traceparent(), &start);
  if (!report->starts.empty() && call.caller().Audited()) {
    call.caller().On(request.instance(), DetailOf(*report));
  }
  return report;
}

void ReplyTransition(const Answer& answer, const ReportCommand& command,
                     v1::TransitionResponse* reply) {
  ToProto(command.instance, answer, reply);
}

Result<PollCommand> ParseReport(const v1::ReportRequest& request, const Call& call) {
  if (call.backend().loop.Overloaded()) return Overloaded();
  auto checked = CheckBatch(request.transitions_size(), "transitions");
  if (checked) checked = CheckStarts(request.transitions(), request.starts_size());
  if (!checked) return checked.error();
  PollCommand command;
  if (!request.starts().empty()) {
    auto starts = ToAllowedStarts(request.starts(), call);
    if (!starts) return starts.error();
    command.starts = *std::move(starts);
  }
  if (request.has_next()) {
    auto next = ToAllowedPoll(request.next(), call);
    if (!next) return next.error();
    command.poll = *std::move(next);
  }
  command.reports.reserve(static_cast<size_t>(request.transitions_size()));
  for (const auto& transition : request.transitions()) {
    auto& report = command.reports.emplace_back(ToReport(transition));
    if (!report) continue;
    for (StartArgs& start : report->starts) Join(call.Traceparent(), &start);
  }
  command.bytes = request.ByteSizeLong();
  return command;
}

void AnswerReport(const std::string& instance, const Result<Answer>& answer,
                  v1::ReportResponse* reply) {
  ToProto(instance, answer, reply->add_results());
}

void AnswerStarts(const std::vector<Result<Started>>& results, v1::ReportResponse* reply) {
  // The rest of the reply has room, too.
  ToProto(results, limits::kMessage / 4, reply->mutable_started());
}

std::optional<Error> HandReport(const std::vector<Task>& tasks, const PollCommand::Asked&,
                                v1::ReportResponse* reply) {
  for (const Task& task : tasks) ToProto(task, reply->add_tasks());
  return std::nullopt;
}

Result<RelinquishCommand> ParseRelinquish(const v1::RelinquishRequest& request, const Call& call) {
  call.caller().On(request.instance());
  auto relinquish = ToRelinquish(request);
  if (relinquish && !relinquish->claim.given()) relinquish->args.client = call.Peer();
  return relinquish;
}

void ReplyRelinquish(const std::string& node, const RelinquishCommand& command,
                     v1::RelinquishResponse* reply) {
  reply->set_instance(command.instance);
  reply->set_node(node);
}

Result<Extends> ParseExtend(const v1::ExtendRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto checked = CheckBatch(request.items_size(), "items");
  if (!checked) return checked.error();
  Extends extends;
  extends.reserve(static_cast<size_t>(request.items_size()));
  for (const auto& item : request.items()) extends.push_back(ToExtend(*ns, item));
  return extends;
}

Result<std::vector<Extended>> RunExtend(Engine& engine, const Caller& caller, Extends& extends) {
  std::vector<Extended> items;
  items.reserve(extends.size());
  for (const auto& extend : extends) items.push_back(ExtendAs(engine, caller, extend));
  return items;
}

void ReplyExtend(const std::vector<Extended>& items, const Extends&, v1::ExtendResponse* reply) {
  for (const Extended& item : items) ToProto(item, reply->add_items());
}

}  // namespace dfsmr
