// NamespaceService.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/space_views.h"
#include "dsrv/wire/namespaces.h"

namespace dfsmr {

// The namespace that a request is about is its `name`; empty: "default".
struct ByName {
  template <typename Request, typename Enter>
  void operator()(const Request& request, Enter enter) const {
    enter(request.name());
  }
};

struct SpaceCommand {
  std::string ns;
  SpaceChange change;
  bool force = false;  // require signatures although versions in use have none
};
Result<SpaceCommand> ParseCreateNamespace(const v1::CreateNamespaceRequest& request,
                                          const Call& call);
Result<SpaceView> RunCreateNamespace(Engine& engine, const Caller& caller, SpaceCommand& command);
Result<SpaceCommand> ParseUpdateNamespace(const v1::UpdateNamespaceRequest& request,
                                          const Call& call);
Result<SpaceView> RunUpdateNamespace(Engine& engine, const Caller& caller, SpaceCommand& command);
Result<SpaceCommand> ParseGetNamespace(const v1::GetNamespaceRequest& request, const Call&);
Result<SpaceView> RunGetNamespace(Engine& engine, const Caller&, SpaceCommand& command);
void ReplyNamespace(const SpaceView& view, const SpaceCommand&, v1::Namespace* reply);

struct SpaceQuery {
  std::string after;
  size_t limit = 0;
};
Result<SpaceQuery> ParseListNamespaces(const v1::ListNamespacesRequest& request, const Call&);
Result<std::vector<SpaceView>> RunListNamespaces(Engine& engine, const Caller& caller,
                                                 SpaceQuery& query);
void ReplyListNamespaces(const std::vector<SpaceView>& views, const SpaceQuery& query,
                         v1::ListNamespacesResponse* reply);

struct FreezeCommand {
  std::string ns;
  bool thaw = false;
};
Result<FreezeCommand> ParseFreezeNamespace(const v1::FreezeNamespaceRequest& request,
                                           const Call& call);
Result<SpaceView> RunFreezeNamespace(Engine& engine, const Caller& caller, FreezeCommand& command);
void ReplyFreezeNamespace(const SpaceView& view, const FreezeCommand&, v1::Namespace* reply);

struct DeleteSpaceCommand {
  std::string ns;
  Duration drain{};
  bool validate_only = false;
};
Result<DeleteSpaceCommand> ParseDeleteNamespace(const v1::DeleteNamespaceRequest& request,
                                           const Call& call);
Result<SpaceView> RunDeleteNamespace(Engine& engine, const Caller& caller, DeleteSpaceCommand& command);
void ReplyDeleteNamespace(const SpaceView& view, const DeleteSpaceCommand&, v1::Namespace* reply);

}  // namespace dfsmr
