// A plan's steps by level, many taken together: "a.3.b" lies under "a.3", which lies under "a".
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "dfsmr/v1/view.pb.h"

namespace dfsmr {

// The rows right under the path `under` (empty: the top), in which a step stands as `state` says
// (unspecified: whatever). What failed comes first, then in the order of the steps.
class StepLevel {
 public:
  StepLevel(std::string under, v1::Step::State state);
  ~StepLevel();

  void Add(const v1::Step& step);
  // Hands out the rows from the `first` on, as long as `take` wants them, and makes no others: of
  // 100,000 a page has 200. Answers whether there are more. Call it once.
  bool Take(size_t first, const std::function<bool(v1::StepRow* row)>& take);

 private:
  struct Summing;

  const std::string under_;
  const v1::Step::State state_;
  std::deque<Summing> sums_;                            // adding one moves no other
  std::unordered_map<std::string_view, Summing*> rows_;  // by path
};

}  // namespace dfsmr
