// ListPackages, GetPackage, ActivatePackage, DeactivatePackage and RemovePackage.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/package.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/package_views.h"
#include "dsrv/wire/moment.h"

namespace dfsmr {

// A version as the loop knows it; its row is read by the pool.
struct SeenPackage {
  std::string package;
  std::string version;
  PackageStanding standing;
};

SeenPackage See(const Packages& packages, const PackageVersion& version);
// All that is known of it. NO_SUCH_PACKAGE: it was removed meanwhile.
Result<Ok> ShowPackage(const Moment& moment, const std::string& ns, const SeenPackage& seen,
                       v1::PackageVersion* out);
// The token of the caller; empty: none was asked for.
std::string IdOf(const Caller& caller);

struct ListPackagesCommand {
  std::string ns;
  std::string package;
  size_t limit = 0;
  std::string filters;
  std::string after;
  std::shared_ptr<std::vector<SeenPackage>> seen;
};
Result<ListPackagesCommand> ParseListPackages(const v1::ListPackagesRequest& request, const Call&);
Result<Ok> SettleListPackages(Engine& engine, const Caller&, const ListPackagesCommand& command);
Result<Ok> ReadListPackages(const Reader& reader, const ListPackagesCommand& command,
                            v1::ListPackagesResponse* reply);

struct GetPackageCommand {
  std::string ns;
  std::string package;
  std::string version;
  bool with_files = false;
  bool with_activations = false;
  std::shared_ptr<SeenPackage> seen;
};
Result<GetPackageCommand> ParseGetPackage(const v1::GetPackageRequest& request, const Call& call);
Result<Ok> SettleGetPackage(Engine& engine, const Caller& caller, const GetPackageCommand& command);
Result<Ok> ReadGetPackage(const Reader& reader, const GetPackageCommand& command,
                          v1::PackageVersion* reply);
// Whether the caller may have a package: a worker that is limited to machines, those of them.
Result<Ok> MayHave(const Caller& caller, const std::string& package);

void ServeActivatePackage(Call& call, const v1::ActivatePackageRequest& request,
                          v1::ActivatePackageResponse* reply);

Result<ActivateArgs> ParseDeactivatePackage(const v1::DeactivatePackageRequest& request,
                                            const Call& call);
Result<Activated> RunDeactivatePackage(Engine& engine, const Caller&, ActivateArgs& args);
void ReplyDeactivatePackage(const Activated& done, const ActivateArgs&,
                            v1::ActivatePackageResponse* reply);

Result<RemoveArgs> ParseRemovePackage(const v1::RemovePackageRequest& request, const Call& call);
Result<Removed> RunRemovePackage(Engine& engine, const Caller&, RemoveArgs& args);
void ReplyRemovePackage(const Removed& removed, const RemoveArgs&,
                        v1::RemovePackageResponse* reply);

}  // namespace dfsmr
