#include "dcli/call/agents.h"

#include "dcli/call/calling.h"

namespace dfsmr::cli {

AgentCalls Client::agents() { return AgentCalls(*this); }

Result<v1::ListAgentsResponse> AgentCalls::ListAgents(const v1::ListAgentsRequest& request) {
  return client_.Call<v1::ListAgentsResponse>(&AgentStub::ListAgents, request, true);
}
Result<v1::Agent> AgentCalls::GetAgent(const v1::GetAgentRequest& request) {
  return client_.Call<v1::Agent>(&AgentStub::GetAgent, request, true);
}
Result<v1::Agent> AgentCalls::DrainAgent(const v1::DrainAgentRequest& request) {
  return client_.Call<v1::Agent>(&AgentStub::DrainAgent, request, true);
}
Result<v1::EvictAgentResponse> AgentCalls::EvictAgent(const v1::EvictAgentRequest& request) {
  return client_.Call<v1::EvictAgentResponse>(&AgentStub::EvictAgent, request, false);
}
Result<v1::ListOperationsResponse> AgentCalls::ListOperations(
    const v1::ListOperationsRequest& request) {
  return client_.Call<v1::ListOperationsResponse>(&AgentStub::ListOperations, request, true);
}

template <typename Out, typename In>
class AgentCalls::Stream : public TwoWay<Out, In> {
 public:
  using Calls = grpc::ClientReaderWriter<Out, In>;

  // `open` begins the call on a stub.
  template <typename Open>
  Stream(Client& client, Open open) : client_(client), connection_(client.Connected()) {
    SendToken(client.credentials_, &context_);
    stream_ = open(*connection_->agents, &context_);
  }
  ~Stream() override {
    if (finished_) return;
    context_.TryCancel();
    In ignored;
    while (stream_->Read(&ignored)) continue;
    stream_->Finish();
  }

  bool Write(const Out& message) override { return stream_->Write(message); }
  bool Read(In* message) override { return stream_->Read(message); }
  void WritesDone() override { stream_->WritesDone(); }
  void Cancel() override { context_.TryCancel(); }
  Result<Ok> Finish() override {
    finished_ = true;
    const grpc::Status status = stream_->Finish();
    if (status.ok()) return Ok{};
    const Error error = ErrorOf(status, context_);
    client_.Lost(connection_, error);
    return error;
  }

 private:
  Client& client_;
  std::shared_ptr<Client::Connection> connection_;
  grpc::ClientContext context_;
  std::unique_ptr<Calls> stream_;
  bool finished_ = false;
};

std::unique_ptr<AppendStream> AgentCalls::AppendLogs() {
  return std::make_unique<Stream<v1::AppendLogsRequest, v1::AppendLogsResponse>>(
      client_,
      [](AgentStub& stub, grpc::ClientContext* context) { return stub.AppendLogs(context); });
}

}  // namespace dfsmr::cli
