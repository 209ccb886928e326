// The packages of the partition, by namespace and name: their versions, and which are in force.
// Memory only, rebuilt from the rows at start; `packages` changes it. One thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/registry.h"
#include "fsm/base/result.h"
#include "fsm/derived/agenda.h"
#include "storage/rows/package.h"

namespace dfsmr {

struct PackageState {
  struct Known {
    PackageVersionPtr version;
    uint64_t size = 0;
    Timestamp put_time;
    rows::UploadId upload;
    bool removed = false;
    std::vector<std::string> signers = {};            // fingerprints, one for each signature
    std::map<std::string, uint32_t> defined_as = {};  // its schedules, triggers and limits
  };
  std::map<std::string, Known, std::less<>> versions;  // by version as text; removed ones, too
  rows::PackageRow force;                              // which of them are in force

  const Known* Find(std::string_view version) const {
    const auto found = versions.find(version);
    return found == versions.end() || found->second.removed ? nullptr : &found->second;
  }
};

// A machine or document ("kind") that the package in its name no longer has.
Error RetiredByPackage(std::string_view kind, std::string_view name);

class PackageTable {
 public:
  using Name = std::pair<std::string, std::string>;  // namespace and package

  bool empty() const { return packages_.empty(); }
  // Null: there is no such package.
  const PackageState* Find(std::string_view ns, std::string_view package) const;
  // The version, removed or not. Null: there never was such a one.
  PackageVersionPtr Version(std::string_view ns, std::string_view package,
                            std::string_view version) const;
  // The version that is active. Null: none is.
  PackageVersionPtr Active(std::string_view ns, std::string_view package) const;
  // The version whose task an action is, to an instance of `own` (null: of no package): for own
  // actions that one, else the active version of the package that the action is named after, if it
  // serves it. Null: it is no package's.
  PackageVersionPtr ServerOf(const PackageVersionPtr& own, std::string_view ns,
                             std::string_view action) const;
  // Fills in what of a queue follows from the packages in force. `own`: of the queue's machine.
  void Derive(const PackageVersionPtr& own, QueueKey* key) const;
  PackageState& StateOf(const std::string& ns, const std::string& package);
  // Those of a namespace that goes.
  void Forget(const std::string& ns);
  // Reads what the store holds.
  Result<Ok> Recover(const rows::Reader& reader);
  // Takes over what was read later; what it knows of versions keeps its place in memory.
  void Adopt(const PackageTable& later);
  const std::map<Name, PackageState>& all() const { return packages_; }

 private:
  std::map<Name, PackageState> packages_;
};

// What is kept in memory of a row.
PackageState::Known KnownOf(const rows::PackageVersionRow& row);

}  // namespace dfsmr
