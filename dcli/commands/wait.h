// Following instances to their end, for `start --wait`.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dcli/call/context.h"

namespace dfsmr::cli {

class EndOfInstances {
 public:
  explicit EndOfInstances(Context& context) : context_(context) {}

  // Remembers where the feed stands. Call it before the instances are started, so that no change of
  // them is missed.
  Result<Ok> Begin(const std::string& machine);
  // The changes of a single instance are printed on standard error as they happen. After this call,
  // which is for plans, only its progress is.
  void ShowProgress() { progress_ = true; }
  // Waits for the instances that were started, and returns them as they ended, in the order given.
  // kCancelled after Ctrl-C.
  Result<std::vector<v1::Instance>> Await(const std::vector<v1::StartResponse>& started,
                                          Canceller* cancel);

 private:
  Result<Ok> FollowFeed(std::set<std::string> open, bool alone, Canceller* cancel);
  Result<v1::Instance> PollToEnd(const std::string& id, Canceller* cancel);

  Context& context_;
  std::string machine_;
  std::string cursor_;
  bool progress_ = false;
};

}  // namespace dfsmr::cli
