// What a command may use at most.
#pragma once

#include <cstdint>
#include <optional>

namespace dfsmr {

struct ProcessLimits {
  std::optional<uint64_t> memory;  // bytes, without swap
  std::optional<double> cpu;       // processors
  std::optional<uint32_t> processes;
  bool any() const { return memory || cpu || processes; }
  friend bool operator==(const ProcessLimits&, const ProcessLimits&) = default;
};

}  // namespace dfsmr
