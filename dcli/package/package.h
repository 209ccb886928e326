// `dcli package`: folders and archives of packages. Each of its words is a function in a file of its
// own; package.cc has the table of them.
#pragma once

#include <string>
#include <vector>

#include "dcli/call/context.h"

namespace dfsmr::cli {

struct PackageOptions {
  std::string action;               // new, check, build, …
  std::vector<std::string> places;  // what stands behind it: names, folders, files
  bool plan = false;
  std::string out;
  std::string version;
  std::string key;
  std::string allowed_signers;
};
int Package(Context& context, const PackageOptions& options);

// The words without a server.
int NewPackage(Context& context, const PackageOptions& options);      // create.cc
int CheckPackages(Context& context, const PackageOptions& options);   // check.cc
int BuildPackage(Context& context, const PackageOptions& options);    // build.cc
int DiffPackages(Context& context, const PackageOptions& options);    // diff.cc
int SignPackage(Context& context, const PackageOptions& options);     // sign.cc
int VerifyPackage(Context& context, const PackageOptions& options);   // sign.cc

}  // namespace dfsmr::cli
