// Lists that are of several partitions, each of which has items that no other one has: one list, in
// pages. Each partition is asked for its share of a page, and those whose share was too small for
// more.
#pragma once

#include <memory>
#include <string>

#include "dsrv/cluster/parted.h"

namespace dfsmr {

// By id a token is what it is on one server; in order of time it names a place in each partition.
std::unique_ptr<PartedCall> MakeInstanceList(const std::string& request, const Parting& parting);
std::unique_ptr<PartedCall> MakeOperationList(const std::string& request, const Parting& parting);

// How many items to ask of each of so many partitions for a page of `need`: a few more than its
// share, so that seldom one has to be asked again.
int32_t ShareOf(size_t need, size_t partitions);

}  // namespace dfsmr
