// What the first messages of an agent's stream say besides Work: its name, what it stops, that it
// leaves. For Attach, and for the streams that fronts open on behalf of an agent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dfsmr/v1/agent.pb.h"
#include "dsrv/calls/backend.h"
#include "dsrv/engine/agents.h"
#include "dsrv/wire/requests.h"

namespace dfsmr {

class Attaching {
 public:
  // Fills in what `register` says in `work.open`. Any error ends the stream. Of later messages:
  // refuses another `register`.
  Result<Ok> Register(const v1::AgentMessage& message, v1::WorkRequest* work,
                      const std::string& address);
  bool registered() const { return !name_.empty(); }
  const std::string& name() const { return name_; }

  // What a message says of stops, for the loop.
  using Told = std::function<void(Engine& engine, SessionId stream)>;
  static Result<Told> Take(const v1::AgentMessage& message);

  // In the loop. `welcome` is called once that is durable.
  Result<SessionId> Open(Engine& engine, const PollArgs& poll, int32_t capacity, SessionSink sink,
                         std::function<void(const Agents::Attached& attached)> welcome) const;

 private:
  rows::AgentRow row_;
  std::string name_;
};

v1::Welcome ToWelcome(const Agents::Attached& attached, const Backend& backend);

}  // namespace dfsmr
