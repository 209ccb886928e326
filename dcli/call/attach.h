// The stream of an agent: a message is written by the thread that sends it, and another one reads.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "dfsmr/v1/agent.pb.h"
#include "fsm/base/result.h"

namespace dfsmr::cli {

class AttachStream {
 public:
  using Order = std::shared_ptr<const v1::AgentOrder>;
  // `life`: of the server.
  using Hear = std::function<void(Order order, const std::string& life)>;

  virtual ~AttachStream() = default;
  // All of its life, once: opens it with the first message, which goes alone, and calls `hear` with
  // each one that comes, one at a time and in their order, in this thread or in one that is in
  // Send. Why it is over.
  virtual Result<Ok> Live(const v1::AgentMessage& first, const Hear& hear) = 0;
  // Any thread. Does not wait: what cannot be written at once goes later, with what has come by
  // then. What comes after the stream's end is dropped.
  virtual void Send(v1::AgentMessage message) = 0;
  // Any thread.
  virtual void Cancel() = 0;
  // When it was written to for the last time. Any thread.
  virtual std::chrono::steady_clock::time_point written() const = 0;
};

}  // namespace dfsmr::cli
