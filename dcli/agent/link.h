// The stream to the server: opened, kept awake, and given up when the server is silent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dcli/agent/loop.h"
#include "dcli/call/agents.h"

namespace dfsmr::cli {

// Used in the loop. A thread of its own reads the stream, and does in the loop what is heard.
class Link {
 public:
  struct Events {
    std::function<void(const v1::AgentOrder&, const std::string& life)> heard;
    // The stream is over. Ok: the server has ended it well.
    std::function<void(const Result<Ok>&)> over;
  };

  Link(Client& client, Loop& loop, Events events);
  ~Link();

  // REQUIRES: no stream is open, or the last one is over.
  void Open(v1::AgentMessage first);
  void Send(v1::AgentMessage message);
  // Gives the stream up.
  void Cancel();

 private:
  struct Line;
  void Watch();

  Client& client_;
  Loop& loop_;
  Events events_;
  Timer silence_;
  std::shared_ptr<Line> line_;
};

}  // namespace dfsmr::cli
