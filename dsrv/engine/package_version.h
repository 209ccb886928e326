// A version of a package as the engine keeps it in memory: what its machines are pinned to. It
// never changes, and is never forgotten, because machines refer to it after it was removed.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dsrv/engine/registry.h"
#include "fsm/base/time.h"

namespace dfsmr {

struct PackageVersion {
  std::string ns;
  std::string package;
  std::string version;
  std::string digest;
  struct Document {
    std::string kind;
    std::string id;  // as it is written, without the package's name
  };
  std::vector<Document> documents;
  struct Worker {
    std::string name;
    std::vector<std::string> serves;
    std::vector<std::string> secrets;  // names and patterns that it may ask for
    std::vector<std::string> required = {};  // capabilities of agents that run it; sorted
    bool dry_run = false;                    // it heeds dry runs
  };
  std::vector<Worker> workers;
  std::vector<std::string> nodes;  // MACHINE.NODE of its machines, as they are written
  // The names that mean the package's own actions: of documents, of `nodes`, and of what `serves`
  // names without a *.
  std::set<std::string, std::less<>> actions;

  // "NAME" of "P.NAME"; the name itself when it is not of this package.
  std::string_view Bare(std::string_view name) const;
  // Whether an action, by its full name, is the package's own.
  bool Owns(std::string_view action) const;
  // The worker that serves an action, by its full name; null: none does.
  const Worker* Serving(std::string_view action) const;
  // Its name; empty: there is none.
  std::string WorkerOf(std::string_view action) const;
};

// Makes `actions` of the rest.
void IndexActions(PackageVersion* version);

}  // namespace dfsmr
