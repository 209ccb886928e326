// `dcli package`: folders and archives of packages. Each of its words is a function in a file of
// its own; package.cc has the table of them.
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

  // Of the words that ask a server.
  bool activate = false;
  std::string sign_with;
  std::string percent;
  std::string if_active;
  bool adopt = false;
  bool force = false;
  std::string note;
  bool dry_run = false;
  bool files = false;
  bool history = false;
  std::string keep;
  std::string unpack;
  bool poll = false;
  bool no_agent = false;
  std::string env_file;
};
int Package(Context& context, const PackageOptions& options);

// The words without a server.
int NewPackage(Context& context, const PackageOptions& options);     // create.cc
int CheckPackages(Context& context, const PackageOptions& options);  // check.cc
int BuildPackage(Context& context, const PackageOptions& options);   // build.cc
int DiffPackages(Context& context, const PackageOptions& options);   // diff.cc

// Of a file, or of a version that a server has: sign.cc.
int SignPackage(Context& context, const PackageOptions& options);
int VerifyPackage(Context& context, const PackageOptions& options);

// Builds an archive without a word, unless something is wrong.
int BuildFolder(Context& context, const std::string& folder, const std::string& path);

// Brings folders in line with a server as they change: dev.cc.
int DevelopPackages(Context& context, const PackageOptions& options);

// The words with a server: registry.cc.
int PushPackages(Context& context, const PackageOptions& options);
int ActivatePackage(Context& context, const PackageOptions& options);
int RollbackPackage(Context& context, const PackageOptions& options);
int DeactivatePackage(Context& context, const PackageOptions& options);
int ListPackages(Context& context, const PackageOptions& options);
int ShowPackage(Context& context, const PackageOptions& options);
int CatPackage(Context& context, const PackageOptions& options);
int PullPackage(Context& context, const PackageOptions& options);
int RemovePackage(Context& context, const PackageOptions& options);

// `dcli trust`: the keys whose signatures count. trust.cc
struct TrustOptions {
  std::string action;  // add, list, revoke
  std::string name;    // revoke: or a fingerprint
  std::string file;    // add: with the public key; "-": standard input
  bool allowed_signers = false;
};
int Trust(Context& context, const TrustOptions& options);

// `dcli export` and `dcli import`: a namespace as files, in a tar. export.cc, import.cc
struct ExportOptions {
  std::string name;  // of the namespace; empty: --namespace
  std::string out;   // empty: standard output
  bool instances = false;
  bool all_versions = false;
};
int Export(Context& context, const ExportOptions& options);

struct ImportOptions {
  std::string place;  // a tar, a folder with its files, or "-": standard input
  bool dry_run = false;
};
int Import(Context& context, const ImportOptions& options);

}  // namespace dfsmr::cli
