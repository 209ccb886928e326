#include "dsrv/calls/limits.h"

#include "dsrv/engine/limits.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/limits.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {
namespace {

// What a request changes, for the audit.
std::string LimitDetail(const v1::SetLimitRequest& request) {
  if (request.reset()) return "reset";
  std::string detail;
  if (request.has_max()) detail += " max " + std::to_string(request.max());
  if (request.no_max()) detail += " no max";
  if (request.has_rate() && request.rate().count() == 0) detail += " no rate";
  if (request.has_rate() && request.rate().count() > 0) {
    detail += " rate " + std::to_string(request.rate().count()) + " in " +
              std::to_string(request.rate().per().seconds()) + "s";
  }
  return detail.empty() ? "" : detail.substr(1);
}

}  // namespace

Result<ListLimitsCommand> ParseListLimits(const v1::ListLimitsRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  const std::string filters = FiltersOf(request);
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  return ListLimitsCommand{{*ns, request.prefix(), request.waited_for(), *last, *limit + 1},
                           filters};
}

Result<std::vector<LimitView>> RunListLimits(Engine& engine, const Caller&,
                                             ListLimitsCommand& command) {
  return engine.limits().Look().List(command.query);
}

void ReplyListLimits(const std::vector<LimitView>& views, const ListLimitsCommand& command,
                     v1::ListLimitsResponse* reply) {
  const size_t page = command.query.limit - 1;  // one more was asked for, to know whether there is
  for (size_t i = 0; i < views.size() && i < page; ++i) ToProto(views[i], reply->add_limits());
  if (views.size() > page) {
    reply->set_next_page_token(PageToken(command.filters, views[page - 1].key));
  }
}

Result<GetLimitCommand> ParseGetLimit(const v1::GetLimitRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto key = CheckLimitKey(request.key());
  if (!key) return key.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  const std::string filters = FiltersOf(request);
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  return GetLimitCommand{*ns, request.key(), *last, filters, *limit};
}

Result<LimitView> RunGetLimit(Engine& engine, const Caller&, GetLimitCommand& command) {
  return engine.limits().Look().Get(command.ns, command.key, command.after, command.limit);
}

void ReplyGetLimit(const LimitView& view, const GetLimitCommand& command, v1::Limit* reply) {
  ToProto(view, reply);
  if (view.more && !view.waiters.empty()) {
    reply->set_next_page_token(PageToken(command.filters, view.waiters.back().place));
  }
}

Result<SetLimitCommand> ParseSetLimit(const v1::SetLimitRequest& request, const Call& call) {
  call.caller().On(request.key(), LimitDetail(request));
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto change = ToLimitChange(request);
  if (!change) return change.error();
  change->client = call.Peer();
  return SetLimitCommand{*ns, request.key(), *std::move(change)};
}

Result<LimitView> RunSetLimit(Engine& engine, const Caller&, SetLimitCommand& command) {
  // A limit of a namespace that is not there would bind whoever makes it later.
  const bool reset = command.change.reset;
  auto may = reset ? Result<Ok>(Ok{}) : engine.namespaces().MayUse(command.ns);
  if (!may) return may.error();
  auto done = engine.limits().Override(command.ns, command.key, command.change);
  if (!done) return done.error();
  if (!reset) (void)engine.namespaces().Use(command.ns);
  return engine.limits().reader().Standing(command.ns, command.key);
}

void ReplySetLimit(const LimitView& view, const SetLimitCommand&, v1::Limit* reply) {
  ToProto(view, reply);
}

}  // namespace dfsmr
