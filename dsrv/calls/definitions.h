// Define, ListMachines and GetMachine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dfsmr/v1/runner.pb.h"
#include "dsrv/calls/call.h"
#include "fsm/base/diagnostic.h"

namespace dfsmr {

// Parses in the pool, since a megabyte of YAML takes a while. When the source is refused, the
// trailer holds its diagnostics.
void ServeDefine(Call& call, const v1::DefineRequest& request, v1::DefineResponse* reply);

// Fails a call because of what is wrong with its source, with the diagnostics in the trailer.
void RefuseSource(Call& call, const std::vector<Diagnostic>& wrong,
                  Reason reason = Reason::kBadMachine);
// The same as an error, and the diagnostics as a trailer holds them.
Error BadSource(const std::vector<Diagnostic>& diagnostics, Reason reason);
std::string DiagnosticsTrailer(const std::vector<Diagnostic>& diagnostics);

struct ListMachinesCommand {
  std::string ns;
  bool all_versions = false;
  size_t limit = 0;
  std::string filters;                     // the filters that the page token is valid for
  std::pair<std::string, uint32_t> after;  // id and version
};
Result<ListMachinesCommand> ParseListMachines(const v1::ListMachinesRequest& request, const Call&);
Result<std::vector<MachineView>> RunListMachines(Engine& engine, const Caller&,
                                                 ListMachinesCommand& command);
void ReplyListMachines(const std::vector<MachineView>& views, const ListMachinesCommand& command,
                       v1::ListMachinesResponse* reply);

struct GetMachineCommand {
  std::string ns;
  std::string id;
  uint32_t version = 0;
};
Result<GetMachineCommand> ParseGetMachine(const v1::GetMachineRequest& request, const Call&);
Result<MachineView> RunGetMachine(Engine& engine, const Caller&, GetMachineCommand& command);
void ReplyGetMachine(const MachineView& view, const GetMachineCommand&, v1::Machine* reply);

}  // namespace dfsmr
