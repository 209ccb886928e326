// What a loop of a test has around it: the system's clock, and nobody who listens.
#pragma once

#include <doctest/doctest.h>

#include <chrono>

#include "dsrv/loop/loop.h"

namespace dfsmr {

inline Loop::Outside QuietOutside() {
  return {.clock =
              [] {
                return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
              },
          .entropy = [] { return uint64_t{1}; },
          .room = nullptr,
          .publish = [](auto) {},
          .trimmed = [](uint64_t) {},
          .fail = [](const Error& error) { FAIL(error.message); }};
}

}  // namespace dfsmr
