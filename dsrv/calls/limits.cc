#include "dsrv/calls/limits.h"

#include "dsrv/engine/limits.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/limits.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {

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
  return engine.limits().List(command.query);
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
  return engine.limits().Get(command.ns, command.key, command.after, command.limit);
}

void ReplyGetLimit(const LimitView& view, const GetLimitCommand& command, v1::Limit* reply) {
  ToProto(view, reply);
  if (view.more && !view.waiters.empty()) {
    reply->set_next_page_token(PageToken(command.filters, view.waiters.back().place));
  }
}

Result<SetLimitCommand> ParseSetLimit(const v1::SetLimitRequest& request, const Call& call) {
  call.caller().On(request.key(), request.reset() ? "reset" : "");
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto change = ToLimitChange(request);
  if (!change) return change.error();
  change->client = call.Peer();
  return SetLimitCommand{*ns, request.key(), *std::move(change)};
}

Result<LimitView> RunSetLimit(Engine& engine, const Caller&, SetLimitCommand& command) {
  auto done = engine.limits().Override(command.ns, command.key, command.change);
  if (!done) return done.error();
  return engine.limits().Standing(command.ns, command.key);
}

void ReplySetLimit(const LimitView& view, const SetLimitCommand&, v1::Limit* reply) {
  ToProto(view, reply);
}

}  // namespace dfsmr
