// A plan's steps by level, many taken together: "a.3.b" lies under "a.3", which lies under "a".
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dfsmr/v1/view.pb.h"
#include "dsrv/wire/steps.h"

namespace dfsmr {

// The rows right under the path `under` (empty: the top), in which a step stands as `state` says
// (unspecified: whatever). What failed comes first, then in the order of the steps.
class StepLevel {
 public:
  // `steps` must outlive it.
  StepLevel(Steps& steps, std::string under, v1::Step::State state);
  ~StepLevel();

  // Looks at how all steps stand, and hands out the rows from the `first` on, as long as `take`
  // wants them. Makes no others: of 100,000 a page has 200. Answers whether there are more. Call it
  // once.
  Result<bool> Take(size_t first, const std::function<bool(v1::StepRow* row)>& take);

 private:
  struct Sum;

  Result<Ok> Look();
  Sum& SumOf(std::string_view path);
  Result<Ok> Show(const Sum& sum, v1::StepRow* row);
  void ShowAfter(const Sum& sum, v1::StepRow* row);

  Steps& steps_;
  const std::string under_;
  const v1::Step::State state_;
  std::deque<Sum> sums_;                               // in the order of their first steps
  std::unordered_map<std::string_view, size_t> rows_;  // by path, where in sums_
  std::vector<size_t> next_;                           // by step, the next of its row
};

}  // namespace dfsmr
