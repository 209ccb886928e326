// A scan in two threads: a new thread reads the rows while the calling thread visits them.
#pragma once

#include <functional>

#include "storage/view.h"

namespace dfsmr {

// Runs `read` on another thread, and calls `visit` on this one for each row that `read` passes on,
// in order, until `read` ends or `visit` returns false. `read` is ahead by a few MiB at most, and
// has ended when this returns. Returns the result of `read`; Ok when `visit` returned false, since
// a failure to read later rows does not matter then.
Result<Ok> ReadAhead(const std::function<Result<Ok>(const View::Visit&)>& read,
                     const View::Visit& visit);

}  // namespace dfsmr
