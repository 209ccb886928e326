// Steps of a plan, numbered in the order written. Of 100,000 a page has 200, so what all of them
// are asked for costs little.
#pragma once

#include <string_view>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "fsm/base/result.h"

namespace dfsmr {

class Steps {
 public:
  virtual ~Steps() = default;

  virtual size_t size() const = 0;
  virtual std::string_view PathOf(size_t at) const = 0;
  // How it stands: its states, times, progress and error. The rest of `out`, which is empty, may be
  // filled or not.
  virtual Result<Ok> Stand(size_t at, v1::Step* out) = 0;
  // All of it.
  virtual Result<Ok> Show(size_t at, v1::Step* out) = 0;
  // The paths of those right before it, each once, ascending.
  virtual std::vector<std::string_view> Before(size_t at) = 0;
};

}  // namespace dfsmr
