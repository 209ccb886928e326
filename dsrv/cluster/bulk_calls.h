// Bulks over all partitions: each has a bulk of the same id for what lives there, and what one asks
// about is their sum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/cluster/parted.h"

namespace dfsmr {

// What partitions have done is added up; it goes on as long as it does in one of them.
void Add(const v1::Bulk& part, v1::Bulk* sum);
// How many each may change, of `at_most` together, where so many would be changed: in proportion,
// and all of it is given away.
std::vector<uint64_t> ShareOut(uint64_t at_most, const std::vector<uint64_t>& would);

std::unique_ptr<PartedCall> MakeStartBulk(const std::string& request, const Parting& parting);
std::unique_ptr<PartedCall> MakeGetBulk(const std::string& request, const Parting& parting);
std::unique_ptr<PartedCall> MakeStopBulk(const std::string& request, const Parting& parting);
std::unique_ptr<PartedCall> MakeBulkList(const std::string& request, const Parting& parting);

}  // namespace dfsmr
