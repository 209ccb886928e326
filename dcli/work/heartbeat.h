// Keeps a claim alive while its task is worked on, and hears when it is not wanted any more.
#pragma once

#include <chrono>

#include "dcli/call/client.h"

namespace dfsmr::cli {

// One thread uses it.
class Heartbeat {
 public:
  enum class News { kNone, kCancel, kKill, kLost };

  // Asks `client` in the name of the task's claim.
  Heartbeat(Client& client, const v1::Task& task, Canceller* cancel);

  // How long the next beat can wait.
  std::chrono::milliseconds Left() const;
  // Extends the claim. `why` says what happened when it is lost.
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
