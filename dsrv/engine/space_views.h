// Namespaces as clients see them, and what they change. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "storage/rows/space.h"

namespace dfsmr {

struct SpaceUsage {
  uint64_t live = 0;  // not stopped, children included; dry runs are none
  uint64_t ready = 0;
  uint64_t claimed = 0;
  uint64_t definitions = 0;
  uint64_t package_bytes = 0;
  double starts_per_second = 0;  // mean of the last 10 s
  uint64_t stopped = 0;
  uint64_t secrets = 0;
};

// A namespace as clients see it.
struct SpaceView {
  std::string ns;
  rows::SpaceRow row;
  rows::Quotas effective;
  SpaceUsage usage;
};

// What a caller changes of a namespace: those that are present.
struct SpaceChange {
  std::optional<std::string> description = {};
  std::optional<std::map<std::string, std::string>> labels = {};
  std::optional<bool> require_signatures = {};
  // Of `quotas` those that are named.
  rows::Quotas quotas = {};
  bool live_instances = false;
  bool ready_tasks = false;
  bool definitions = false;
  bool package_bytes = false;
  bool starts_per_second = false;
  bool retention = false;

  bool OfQuotas() const {
    return live_instances || ready_tasks || definitions || package_bytes || starts_per_second ||
           retention;
  }
};

}  // namespace dfsmr
