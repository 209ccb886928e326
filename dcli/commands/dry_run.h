// Following a dry run to its end, or to where it waits for somebody, for `start --dry-run`.
#pragma once

#include <string>

#include "dcli/call/context.h"

namespace dfsmr::cli {

class EndOfDryRun {
 public:
  explicit EndOfDryRun(Context& context) : context_(context) {}

  // Remembers where the feed stands. Call it before the dry run is started, so that no change of it
  // is missed.
  Result<Ok> Begin();
  // Prints its changes on standard error as they happen. Returns it as it ended, or as it stands
  // when nothing goes on any more without somebody. kCancelled after Ctrl-C.
  Result<v1::Instance> Await(const std::string& id, Canceller* cancel);

 private:
  struct Standing {
    bool still = true;        // it and its children go on with somebody's help only
    bool for_worker = false;  // some of it is ready, and no worker fits
  };

  Result<Ok> PrintChanges(const std::string& id, Canceller* cancel);
  // What stands where, as text.
  Result<std::string> Look(const v1::Instance& instance, Standing* to);

  Context& context_;
  std::string cursor_;
};

}  // namespace dfsmr::cli
