// A plan's steps by level, many taken together: "a.3.b" lies under "a.3", which lies under "a".
#pragma once

#include <string>
#include <vector>

#include "dfsmr/v1/view.pb.h"

namespace dfsmr {

// The rows right under the path `under` (empty: the top), in which a step stands as `state` says
// (unspecified: whatever). What failed comes first, then in the order of `steps`.
std::vector<v1::StepRow> RowsUnder(const std::vector<v1::Step>& steps, const std::string& under,
                                   v1::Step::State state);

}  // namespace dfsmr
