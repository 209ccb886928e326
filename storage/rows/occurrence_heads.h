// The counts of occurrences of all schedules and triggers that ever had one.
#pragma once

#include <functional>
#include <string>

#include "storage/rows/occurrence.h"

namespace dfsmr::rows {

// In order of namespace, kind and name. `cause`: "schedule:NAME" or "trigger:NAME".
Result<Ok> ScanOccurrenceHeads(
    const Reader& reader, const std::function<void(const std::string& ns, const std::string& cause,
                                                   const OccurrenceHead& head)>& visit);

}  // namespace dfsmr::rows
