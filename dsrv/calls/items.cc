#include "dsrv/calls/items.h"

namespace dfsmr {

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

Extended ExtendAs(const Caller& caller, Engine& engine, const std::string& ns,
                  const v1::ExtendRequest::Item& item) {
  auto extend = ToExtend(item);
  if (extend) {
    auto allowed = caller.MayReport(engine, ns, extend->instance, extend->claim);
    if (!allowed) extend = allowed.error();
  }
  if (!extend) {
    Extended refused;
    refused.error = extend.error();
    return refused;
  }
  return engine.Extend(ns, extend->instance, extend->claim, extend->by, extend->progress);
}

Result<std::string> RelinquishAs(const Caller& caller, Engine& engine, const std::string& ns,
                                 const std::string& instance, const std::string& claim,
                                 const std::string& client) {
  auto allowed = caller.MayReport(engine, ns, instance, claim);
  if (!allowed) return allowed.error();
  return engine.Relinquish(ns, instance, claim, client);
}

}  // namespace dfsmr
