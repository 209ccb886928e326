// One text of metrics of those of several partitions of a process. Pure.
#pragma once

#include <string>
#include <vector>

namespace dfsmr::metrics {

// Texts of the same form. What is counted in each partition is added up; of what all of them know
// alike, such as what is of the process, the greatest counts.
std::string Joined(const std::vector<std::string>& texts);

}  // namespace dfsmr::metrics
