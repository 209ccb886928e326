// What in a package's documents is work for somebody, and what its workers have to bring for it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fsm/package/check.h"

namespace dfsmr {

// All work in a source whose names are in full.
void CollectWork(const OwnNames& names, const PackageSource& source,
                 std::vector<PackageWork>* work);

struct UsedMiddleware {
  std::string name;
  Written written;
};
std::vector<UsedMiddleware> MiddlewareOf(const PackageSource& source);

}  // namespace dfsmr
