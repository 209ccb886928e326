// The service of the original dfsmr, on the same engine, in namespace "default".
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dfsmr.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/calls/changes_stream.h"
#include "dsrv/calls/polls.h"
#include "dsrv/wire/requests.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr::original {

inline const std::string kNamespace = "default";
struct InDefault {  // the namespaces
  template <typename Request, typename Enter>
  void operator()(const Request&, Enter enter) const {
    enter(kNamespace);
  }
};

struct DefineCommand {
  ::DefineRequest request;
  Machine machine;
};
Result<DefineCommand> ParseDefine(const ::DefineRequest& request, const Call& call);
Result<bool> RunDefine(Engine& engine, const Caller&, DefineCommand& command);
void ReplyDefine(const bool& changed, const DefineCommand& command, ::DefineReply* reply);

Result<StartArgs> ParseStart(const ::TaskMessage& request, const Call& call);
void ReplyStart(const Started& started, const StartArgs&, ::TaskMessage* reply);

Result<PollCommand> ParseReady(const ::ReadyRequest& request, const Call& call);
std::optional<Error> HandReady(const std::vector<Task>& tasks, const PollCommand::Asked& asked,
                               ::TaskMessage* reply);

Result<Ok> ParseMachines(const ::MachinesRequest&, const Call&);
Result<std::vector<MachineView>> RunMachines(Engine& engine, const Caller&, Ok&);
void ReplyMachines(const std::vector<MachineView>& views, const Ok&, ::MachinesReply* reply);

Result<Ok> ParseInstances(const ::InstancesRequest&, const Call&);
Result<Ok> SettleInstances(Engine& engine, const Caller&, const Ok&);
Result<Ok> ReadInstances(const Reader& reader, const Ok&, ::InstancesReply* reply);

Result<ReportCommand> ParseTransition(const ::TransitionRequest& request, const Call& call);
Result<Answer> RunTransition(Engine& engine, const Caller&, ReportCommand& command);
void ReplyTransition(const Answer& answer, const ReportCommand& command,
                     ::TransitionReply* reply);

struct RelinquishCommand {
  std::string instance;
  std::string client;
};
Result<RelinquishCommand> ParseRelinquish(const ::RelinquishRequest& request, const Call& call);
Result<Ok> SettleRelinquish(Engine& engine, const Caller&, const RelinquishCommand& command);
Result<Ok> ReadRelinquished(const Reader& reader, const RelinquishCommand& command,
                            ::RelinquishReply* reply);

// Changes: one line for each change from now on.
ChangesStream::Open OpenChanges(const Backend& backend);
void EncodeLines(const Changes::PortionPtr& portion, const std::string& cursor,
                 std::deque<grpc::ByteBuffer>* out);

}  // namespace dfsmr::original
