// CountInstances over all partitions. Each counts for a while; who asks goes on with those that
// have not come to their ends.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/cluster/parted.h"

namespace dfsmr {

// What is counted so far, and where each partition goes on that has more.
struct CountSoFar {
  v1::CountInstancesResponse sum;
  std::map<PartitionId, std::string> left = {};  // the last ids that were looked at
  friend bool operator==(const CountSoFar& a, const CountSoFar& b) {
    return a.sum.SerializeAsString() == b.sum.SerializeAsString() && a.left == b.left;
  }
};
std::string TextOf(const CountSoFar& count);
// nullopt: it is no such text.
std::optional<CountSoFar> CountIn(const std::string& text);
void Add(const v1::CountInstancesResponse& part, v1::CountInstancesResponse* sum);

std::unique_ptr<PartedCall> MakeCount(const std::string& request, const Parting& parting);

}  // namespace dfsmr
