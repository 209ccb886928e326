// Following the feed across restarts of the server.
#pragma once

#include <functional>
#include <string>

#include "dcli/call/context.h"

namespace dfsmr::cli {

// Reads changes from `request.after` on and passes each message to `visit`. Returns when `visit`
// returns false, when the stream ends (without `follow`), when `cancel` was cancelled (kCancelled),
// or with an error that does not pass. Once it has a cursor, it reconnects after a lost connection
// and goes on from there, with a note on standard error. `cursor` is where to resume: up to date at
// each call of `visit`, and on return.
Result<Ok> Follow(Context& context, v1::ChangesRequest request, Canceller* cancel,
                  std::string* cursor,
                  const std::function<bool(const v1::ChangesResponse&)>& visit);

}  // namespace dfsmr::cli
