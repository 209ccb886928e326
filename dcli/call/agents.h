// The calls of AgentService: those of people, and the two streams of an agent.
#pragma once

#include <memory>
#include <string>

#include "dcli/call/attach.h"
#include "dcli/call/client.h"
#include "dfsmr/v1/agent.pb.h"

namespace dfsmr::cli {

// A stream on which both sides send. One thread writes, another one reads; Cancel: any thread.
template <typename Out, typename In>
class TwoWay {
 public:
  virtual ~TwoWay() = default;
  virtual bool Write(const Out& message) = 0;  // false: the stream is over
  virtual bool Read(In* message) = 0;          // false: the stream is over
  virtual void WritesDone() = 0;
  virtual void Cancel() = 0;
  // Why it is over. After Read has returned false, and no Write is under way.
  virtual Result<Ok> Finish() = 0;
};
using AppendStream = TwoWay<v1::AppendLogsRequest, v1::AppendLogsResponse>;

// Valid as long as their client.
class AgentCalls {
 public:
  explicit AgentCalls(Client& client) : client_(client) {}

  Result<v1::ListAgentsResponse> ListAgents(const v1::ListAgentsRequest& request);
  Result<v1::Agent> GetAgent(const v1::GetAgentRequest& request);
  Result<v1::Agent> DrainAgent(const v1::DrainAgentRequest& request);
  Result<v1::EvictAgentResponse> EvictAgent(const v1::EvictAgentRequest& request);
  Result<v1::ListOperationsResponse> ListOperations(const v1::ListOperationsRequest& request);

  std::unique_ptr<AttachStream> Attach();
  std::unique_ptr<AppendStream> AppendLogs();

 private:
  template <typename Out, typename In>
  class Stream;
  class Attachment;
  Client& client_;
};

}  // namespace dfsmr::cli
