// An instance without its steps: where there are 100,000 of them, reading those takes its time.
#pragma once

#include "storage/rows/instance.h"

namespace dfsmr::rows {

// As GetInstance, without what has rows of its own: the tokens of a plan, and all else of its steps.
// kNotFound when there is no such instance.
Result<Instance> GetBareInstance(const Reader& reader, InstanceName name, const Resolve& resolve);

}  // namespace dfsmr::rows
