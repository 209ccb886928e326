// A scan in two threads: one reads the rows while the other, the caller's, visits them.
#pragma once

#include <functional>

#include "storage/view.h"

namespace dfsmr {

// Calls `visit` on this thread for each row that `read` gives on another, in order, until one of
// them has enough. `read` runs ahead by a few MiB at most, and has returned when this does. Returns
// what `read` did; when `visit` had enough, what lies ahead of it does not matter.
Result<Ok> ReadAhead(const std::function<Result<Ok>(const View::Visit&)>& read,
                     const View::Visit& visit);

}  // namespace dfsmr
