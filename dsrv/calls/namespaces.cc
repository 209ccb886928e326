#include "dsrv/calls/namespaces.h"

#include "dsrv/engine/deletions.h"
#include "dsrv/engine/namespaces.h"
#include "dsrv/engine/packages.h"
#include "dsrv/engine/trust.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"

namespace dfsmr {
namespace {

std::string ClientOf(const Caller& caller) {
  return caller.principal() ? caller.principal()->row.id : "";
}

// What changes a namespace names it.
Result<Ok> CheckGiven(const std::string& name) {
  auto given = Required("namespace", name);
  return given ? CheckName("namespace", name) : given;
}

}  // namespace

Result<SpaceCommand> ParseCreateNamespace(const v1::CreateNamespaceRequest& request,
                                          const Call& call) {
  call.caller().On(request.name());
  auto checked = CheckGiven(request.name());
  if (!checked) return checked.error();
  auto settings = ToSettings(request.settings());
  if (!settings) return settings.error();
  return SpaceCommand{request.name(), *std::move(settings)};
}

Result<SpaceView> RunCreateNamespace(Engine& engine, const Caller& caller, SpaceCommand& command) {
  return engine.namespaces().Create(command.ns, command.change, ClientOf(caller));
}

Result<SpaceCommand> ParseUpdateNamespace(const v1::UpdateNamespaceRequest& request,
                                          const Call& call) {
  call.caller().On(request.name(), FieldsOf(request));
  auto ns = ToNamespace(request.name());
  if (!ns) return ns.error();
  auto change = ToChange(request);
  if (!change) return change.error();
  if (change->OfQuotas()) {
    auto allowed = call.caller().MayInAll("to set quotas");
    if (!allowed) return allowed.error();
  }
  return SpaceCommand{*std::move(ns), *std::move(change), request.force()};
}

Result<SpaceView> RunUpdateNamespace(Engine& engine, const Caller& caller, SpaceCommand& command) {
  return engine.packages().trust().UpdateNamespace(command.ns, command.change, command.force,
                                                   ClientOf(caller));
}

Result<SpaceCommand> ParseGetNamespace(const v1::GetNamespaceRequest& request, const Call&) {
  auto ns = ToNamespace(request.name());
  if (!ns) return ns.error();
  return SpaceCommand{*std::move(ns), {}};
}

Result<SpaceView> RunGetNamespace(Engine& engine, const Caller&, SpaceCommand& command) {
  return engine.namespaces().Get(command.ns);
}

void ReplyNamespace(const SpaceView& view, const SpaceCommand&, v1::Namespace* reply) {
  ToProto(view, reply);
}

Result<SpaceQuery> ParseListNamespaces(const v1::ListNamespacesRequest& request, const Call&) {
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  auto after = ParsePageToken(kFiltersOfNamespaces, request.page_token());
  if (!after) return after.error();
  return SpaceQuery{*std::move(after), *limit};
}

// One more than a page holds shows whether there is a next page.
Result<std::vector<SpaceView>> RunListNamespaces(Engine& engine, const Caller& caller,
                                                 SpaceQuery& query) {
  const Principal* who = caller.principal();
  return engine.namespaces().List(query.after, query.limit + 1,
                                  [who](const std::string& ns) { return !who || who->In(ns); });
}

void ReplyListNamespaces(const std::vector<SpaceView>& views, const SpaceQuery& query,
                         v1::ListNamespacesResponse* reply) {
  for (const SpaceView& view : views) {
    if (reply->namespaces_size() == static_cast<int>(query.limit)) {
      const std::string& last = reply->namespaces().rbegin()->name();
      reply->set_next_page_token(PageToken(kFiltersOfNamespaces, last));
      return;
    }
    ToProto(view, reply->add_namespaces());
  }
}

Result<FreezeCommand> ParseFreezeNamespace(const v1::FreezeNamespaceRequest& request,
                                           const Call& call) {
  call.caller().On(request.name(), request.thaw() ? "thaw" : "freeze");
  auto ns = ToNamespace(request.name());
  if (!ns) return ns.error();
  return FreezeCommand{*std::move(ns), request.thaw()};
}

Result<SpaceView> RunFreezeNamespace(Engine& engine, const Caller& caller, FreezeCommand& command) {
  auto frozen = engine.Freeze(command.ns, !command.thaw, ClientOf(caller));
  if (!frozen) return frozen.error();
  return engine.namespaces().Get(command.ns);
}

void ReplyFreezeNamespace(const SpaceView& view, const FreezeCommand&, v1::Namespace* reply) {
  ToProto(view, reply);
}

Result<DeleteSpaceCommand> ParseDeleteNamespace(const v1::DeleteNamespaceRequest& request,
                                                const Call& call) {
  call.caller().On(request.name(), request.validate_only() ? "validate only" : "");
  auto checked = CheckGiven(request.name());
  if (!checked) return checked.error();
  auto drain = ToDrain(request);
  if (!drain) return drain.error();
  return DeleteSpaceCommand{request.name(), *drain, request.validate_only()};
}

Result<SpaceView> RunDeleteNamespace(Engine& engine, const Caller& caller,
                                     DeleteSpaceCommand& command) {
  if (!command.validate_only) return engine.Delete(command.ns, command.drain, ClientOf(caller));
  return engine.deletions().Preview(command.ns);
}

void ReplyDeleteNamespace(const SpaceView& view, const DeleteSpaceCommand&, v1::Namespace* reply) {
  ToProto(view, reply);
}

}  // namespace dfsmr
