// Ready, Transition, Report, Relinquish and Extend: what workers call. (Work: work_stream.h.)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/polls.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

// The poll, narrowed to what the caller may see, and to as many tasks as one reply holds.
Result<PollArgs> ToAllowedPoll(const v1::ReadyRequest& request, const Call& call);

Result<PollCommand> ParseReady(const v1::ReadyRequest& request, const Call& call);
std::optional<Error> HandReady(const std::vector<Task>& tasks, const PollCommand::Asked&,
                               v1::ReadyResponse* reply);

Result<ReportCommand> ParseTransition(const v1::TransitionRequest& request, const Call& call);
void ReplyTransition(const Answer& answer, const ReportCommand& command,
                     v1::TransitionResponse* reply);

// The namespaces of a report, without its own: those of what it starts.
template <typename Enter>
void EnterStarts(const v1::TransitionRequest& request, Enter enter) {
  for (const v1::StartRequest& start : request.starts()) {
    if (!start.namespace_().empty()) enter(start.namespace_());  // empty: the report's
  }
}
struct OfReport {
  template <typename Enter>
  void operator()(const v1::TransitionRequest& request, Enter enter) const {
    enter(request.namespace_());
    EnterStarts(request, enter);
  }
};
struct OfReports {
  static constexpr bool kOfItems = true;
  template <typename Enter>
  void operator()(const v1::ReportRequest& request, Enter enter) const {
    if (!request.transitions().empty()) enter(request.transitions(0).namespace_());
    if (request.has_next()) enter(request.next().namespace_());
    for (const auto& start : request.starts()) enter(start.namespace_());
    if (request.transitions().empty() && request.starts().empty() && !request.has_next()) enter("");
    for (const auto& transition : request.transitions()) {
      enter(transition.namespace_());
      EnterStarts(transition, enter);
    }
  }
};
Result<PollCommand> ParseReport(const v1::ReportRequest& request, const Call& call);
void AnswerReport(const std::string& instance, const Result<Answer>& answer,
                  v1::ReportResponse* reply);
void AnswerStarts(const std::vector<Result<Started>>& results, v1::ReportResponse* reply);
std::optional<Error> HandReport(const std::vector<Task>& tasks, const PollCommand::Asked&,
                                v1::ReportResponse* reply);

Result<RelinquishCommand> ParseRelinquish(const v1::RelinquishRequest& request, const Call& call);
void ReplyRelinquish(const std::string& node, const RelinquishCommand& command,
                     v1::RelinquishResponse* reply);

using Extends = std::vector<Result<ExtendCommand>>;
Result<Extends> ParseExtend(const v1::ExtendRequest& request, const Call&);
Result<std::vector<Extended>> RunExtend(Engine& engine, const Caller& caller, Extends& extends);
void ReplyExtend(const std::vector<Extended>& items, const Extends&, v1::ExtendResponse* reply);

}  // namespace dfsmr
