#include "dcli/commands/follow.h"

namespace dfsmr::cli {

Result<Ok> Follow(Context& context, v1::ChangesRequest request, Canceller* cancel,
                  std::string* cursor,
                  const std::function<bool(const v1::ChangesResponse&)>& visit) {
  Backoff backoff;
  bool lost = false;
  bool enough = false;
  bool resumable = false;
  *cursor = request.after();
  const auto message = [&](const v1::ChangesResponse& response) {
    if (lost) context.Note("connected again");
    lost = false;
    backoff.Reset();
    if (!response.cursor().empty()) {
      *cursor = response.cursor();
      resumable = true;
    }
    enough = !visit(response);
    return !enough;
  };
  for (;;) {
    auto ended = context.client->Changes(request, cancel, message);
    if (enough) return Ok{};
    if (cancel->cancelled()) return Error{Code::kCancelled, Reason::kNone, "interrupted"};
    if (ended.has_value() && !request.follow()) return ended;
    if (!ended && !(resumable && Passing(ended.error()))) return ended;
    if (!lost) {
      context.Note("the connection was lost" + (ended ? "" : ": " + Cause(ended.error())) +
                   "; trying again");
    }
    lost = true;
    request.set_after(*cursor);
    if (cancel->SleepFor(backoff.Next()))
      return Error{Code::kCancelled, Reason::kNone, "interrupted"};
  }
}

}  // namespace dfsmr::cli
