#include "dsrv/calls/items.h"

#include "fsm/base/limits.h"

namespace dfsmr {

namespace {

Result<Ok> MayStartAll(const Caller& caller, const ReportCommand& report) {
  for (size_t i = 0; i < report.starts.size(); ++i) {
    const StartArgs& start = report.starts[i];
    auto allowed = caller.MayStart(start.machine, start.flow != nullptr);
    if (allowed && start.force) allowed = caller.MayForce();
    if (!allowed) return RefusedStart(i, start.machine, start.id, allowed.error());
  }
  return report.starts.empty() ? Ok{} : caller.MayNoteOutside();
}

}  // namespace

std::string DetailOf(const ReportCommand& report) {
  std::string detail = report.args.transition;
  for (const StartArgs& start : report.starts) {
    detail += " start:" + (start.id.empty() ? start.machine : start.id);
  }
  if (!report.reason.empty()) detail += ": " + report.reason;
  return detail;
}

Result<Answer> ReportAs(Engine& engine, const Caller& caller, ReportCommand& report) {
  auto allowed = caller.MayReport(engine, report.ns, report.instance, report.args.claim);
  for (const rows::ChildStart& child : report.children) {
    if (allowed) allowed = caller.MayStart(child.machine, !child.spec.flow.empty());
  }
  if (!allowed) return allowed.error();
  auto starts = MayStartAll(caller, report);
  if (!starts && !report.args.fault) report.args.fault = starts.error();
  const bool noted = (!report.args.claim.given() || !report.starts.empty()) &&
                     caller.AuditedOutside() && !caller.Audited();
  const std::string detail = noted ? DetailOf(report) : "";
  auto answer = engine.Report(report.ns, report.instance, std::move(report.args), report.children,
                              std::move(report.starts), report.reason);
  if (!noted) return answer;
  std::optional<Error> error;
  if (!answer) error = answer.error();
  engine.AfterCommit([caller, instance = report.instance, detail, error] {
    caller.NoteOutside(instance, detail, error ? &*error : nullptr);
  });
  return answer;
}

void Join(std::string_view traceparent, StartArgs* start) {
  if (traceparent.empty() || start->spec.trace) return;
  if (auto trace = ReadTraceparent(traceparent)) start->spec.trace = *std::move(trace);
}

Result<Started> StartAs(Engine& engine, const Caller& caller, Result<StartArgs>& start) {
  if (!start) return start.error();
  auto noted = caller.MayNoteOutside();
  if (!noted) return noted.error();
  const bool notes = caller.AuditedOutside() && !caller.Audited();
  const std::string machine = start->machine;
  const std::string name = start->id.empty() ? machine : start->id;
  auto started = engine.Start(*std::move(start));
  if (!notes) return started;
  std::optional<Error> error;
  if (!started) error = started.error();
  engine.AfterCommit([caller, name, machine, error] {
    caller.NoteOutside(name, machine, error ? &*error : nullptr);
  });
  return started;
}

Result<Ok> CheckStarts(const google::protobuf::RepeatedPtrField<v1::TransitionRequest>& transitions,
                       int besides) {
  constexpr int kMost = static_cast<int>(limits::kBatchItems);
  int64_t starts = besides;
  for (const v1::TransitionRequest& transition : transitions) {
    // A list that is too long by itself refuses its own report only.
    if (transition.starts_size() <= kMost) starts += transition.starts_size();
  }
  if (starts <= kMost) return Ok{};
  return Error{Code::kInvalidArgument, Reason::kTooLarge,
               std::to_string(starts) + " starts in one message; the limit is " +
                   std::to_string(kMost) + ", of all its reports together"};
}

Extended ExtendAs(Engine& engine, const Caller& caller, const Result<ExtendCommand>& extend,
                  SessionId session) {
  auto allowed = extend ? caller.MayReport(engine, extend->ns, extend->instance, extend->claim)
                        : Result<Ok>(extend.error());
  if (!allowed) {
    Extended refused;
    refused.error = allowed.error();
    return refused;
  }
  ExtendArgs args = extend->args;
  args.session = session;
  return engine.Extend(extend->ns, extend->instance, extend->claim, extend->by, std::move(args));
}

Result<std::string> RelinquishAs(Engine& engine, const Caller& caller,
                                 RelinquishCommand& relinquish) {
  const auto& [ns, instance, claim, args] = relinquish;
  auto allowed = caller.MayReport(engine, ns, instance, claim);
  if (!allowed) return allowed.error();
  return engine.Relinquish(ns, instance, claim, args);
}

}  // namespace dfsmr
