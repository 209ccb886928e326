// How messages between partitions reach the one that they are for: in memory, where this server
// serves it, else by the server that does.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "dsrv/cluster/front.h"
#include "dsrv/loop/carrier.h"
#include "dsrv/partitions.h"

namespace dfsmr {

// Any thread.
class Delivery {
 public:
  // Both outlive it.
  Delivery(const Front& front, const Partitions& partitions)
      : front_(front), partitions_(partitions) {}

  // As Carrier::Deliver.
  void Deliver(Carrier::Portion portion, Carrier::Told told) const;
  // A portion that another server brings, as Front::Deliver.
  void Take(const std::string& bytes,
            std::function<void(std::optional<std::string> reply)> done) const;

 private:
  const Front& front_;
  const Partitions& partitions_;
};

}  // namespace dfsmr
