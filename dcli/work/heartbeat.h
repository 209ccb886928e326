// Extends a claim while its command runs, and learns from the answers when the task is cancelled.
#pragma once

#include <chrono>

#include "dcli/call/client.h"

namespace dfsmr::cli {

// One thread uses it.
class Heartbeat {
 public:
  // What the answer to a heartbeat says: nothing new; stop in good order; stop at once; the claim
  // is somebody else's.
  enum class News { kNone, kCancel, kKill, kLost };

  // Extends the claim of `task`. Calls end early when `cancel` is cancelled.
  Heartbeat(Client& client, const v1::Task& task, Canceller* cancel);

  // How long until the next beat is due.
  std::chrono::milliseconds Left() const;
  // Extends the claim. For kLost, `why` is set to the reason.
  News Beat(std::string* why);

 private:
  void Schedule(const google::protobuf::Timestamp* deadline);

  Client& client_;
  v1::ExtendRequest request_;
  Canceller* cancel_;
  Backoff backoff_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace dfsmr::cli
