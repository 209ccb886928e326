// A package as it is named on a command line: a folder, or an archive. (P@V, of a server, joins
// them with the registry: it is fetched to a file first.)
#pragma once

#include <optional>
#include <string>

#include "dcli/call/context.h"
#include "fsm/package/check.h"
#include "fsm/package/manifest.h"

namespace dfsmr::cli {

struct Subject {
  std::string name;  // as it was given
  bool folder = false;
  std::string manifest;  // package.yaml
  PackageFiles files;

  // The bytes of one of its files.
  Result<std::string> Read(const std::string& path) const;
  // For CheckPackage; borrows this.
  PackageContents Contents() const;
};

// Whether a folder or a file of this machine is meant, and not P@V of a server.
bool IsHere(const std::string& place);

// kUnavailable and kNotFound: it cannot be read. BAD_ARCHIVE and TOO_LARGE: it holds what no
// archive may hold. The manifest may be wrong all the same.
Result<Subject> OpenSubject(const std::string& place);
// Fails with the status that fits the error of OpenSubject.
int FailToOpen(Context& context, const std::string& place, const Error& error);

// All that CheckPackage finds without a server.
Result<CheckedPackage> CheckSubject(const Subject& subject);
// One line for each, for standard error.
std::string LinesOf(const std::vector<Diagnostic>& diagnostics);

}  // namespace dfsmr::cli
