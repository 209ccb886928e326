// The packages of the partition, by namespace and name: their versions, and which are in force.
// Memory only, rebuilt from the rows at start; `packages` changes it. One thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsrv/engine/package_version.h"
#include "storage/rows/package.h"

namespace dfsmr {

struct PackageState {
  struct Known {
    PackageVersionPtr version;
    uint64_t size = 0;
    Timestamp put_time;
    rows::UploadId upload;
    bool removed = false;
  };
  std::map<std::string, Known, std::less<>> versions;  // by version as text; removed ones, too
  rows::PackageRow force;                              // which of them are in force

  const Known* Find(std::string_view version) const {
    const auto found = versions.find(version);
    return found == versions.end() || found->second.removed ? nullptr : &found->second;
  }
};

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
  PackageState& StateOf(const std::string& ns, const std::string& package);
  // Those of a namespace that goes.
  void Forget(const std::string& ns);
  // Reads what the store holds.
  Result<Ok> Recover(const rows::Reader& reader);
  const std::map<Name, PackageState>& all() const { return packages_; }

 private:
  std::map<Name, PackageState> packages_;
};

// What is kept in memory of a row.
PackageState::Known KnownOf(const rows::PackageVersionRow& row);

}  // namespace dfsmr
