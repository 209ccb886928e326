#include "dsrv/calls/items.h"

namespace dfsmr {

Result<Answer> ReportAs(Engine& engine, const Caller& caller, ReportCommand& report) {
  auto allowed = caller.MayReport(engine, report.ns, report.instance, report.args.claim);
  for (const rows::ChildStart& child : report.children) {
    if (allowed) allowed = caller.MayStart(child.machine, !child.spec.flow.empty());
  }
  if (!allowed) return allowed.error();
  const bool outside = !report.args.claim.given() && caller.AuditedOutside() && !caller.Audited();
  const std::string transition = outside ? report.args.transition : "";
  auto answer = engine.Report(report.ns, report.instance, std::move(report.args), report.children);
  if (!outside) return answer;
  std::optional<Error> error;
  if (!answer) error = answer.error();
  engine.AfterCommit([caller, instance = report.instance, transition, error] {
    caller.NoteOutside(instance, transition, error ? &*error : nullptr);
  });
  return answer;
}

Extended ExtendAs(Engine& engine, const Caller& caller, const Result<ExtendCommand>& extend) {
  auto allowed = extend ? caller.MayReport(engine, extend->ns, extend->instance, extend->claim)
                        : Result<Ok>(extend.error());
  if (!allowed) {
    Extended refused;
    refused.error = allowed.error();
    return refused;
  }
  return engine.Extend(extend->ns, extend->instance, extend->claim, extend->by, extend->progress);
}

Result<std::string> RelinquishAs(Engine& engine, const Caller& caller,
                                 RelinquishCommand& relinquish) {
  const auto& [ns, instance, claim, client] = relinquish;
  auto allowed = caller.MayReport(engine, ns, instance, claim);
  if (!allowed) return allowed.error();
  return engine.Relinquish(ns, instance, claim, client);
}

}  // namespace dfsmr
