// Triggers: ListTriggers, GetTrigger and FireTrigger of ScheduleService.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/wire/triggers.h"

namespace dfsmr {

struct ListTriggersCommand {
  std::string ns;
  v1::Schedule::State state = v1::Schedule::STATE_UNSPECIFIED;
  bool failed = false;
  size_t limit = 0;
  std::string filters;  // the filters that the page token is valid for
  std::string after;
  CursorOf cursor;
  struct Seen {
    std::vector<TriggerView> views;
    std::string last;  // the name of the last one that was looked at, when there are more
  };
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
};
Result<ListTriggersCommand> ParseListTriggers(const v1::ListTriggersRequest& request,
                                              const Call& call);
Result<Ok> SettleListTriggers(Engine& engine, const Caller&, const ListTriggersCommand& command);
Result<Ok> ReadListTriggers(const Reader& reader, const ListTriggersCommand& command,
                            v1::ListTriggersResponse* reply);

struct GetTriggerCommand {
  std::string ns;
  std::string name;
  uint32_t version = 0;
  CursorOf cursor;
  std::shared_ptr<TriggerView> seen = std::make_shared<TriggerView>();
};
Result<GetTriggerCommand> ParseGetTrigger(const v1::GetTriggerRequest& request, const Call& call);
Result<Ok> SettleGetTrigger(Engine& engine, const Caller&, const GetTriggerCommand& command);
Result<Ok> ReadGetTrigger(const Reader& reader, const GetTriggerCommand& command,
                          v1::Trigger* reply);

struct FireTriggerCommand {
  std::string ns;
  std::string name;
  std::string on;
  std::string item;
  std::optional<TraceContext> trace;
  std::optional<std::pair<InstanceState, InstanceResult>> standing = {};  // of its instance
};
Result<FireTriggerCommand> ParseFireTrigger(const v1::FireTriggerRequest& request,
                                            const Call& call);
Result<Occurrence> RunFireTrigger(Engine& engine, const Caller&, FireTriggerCommand& command);
void ReplyFireTrigger(const Occurrence& occurrence, const FireTriggerCommand& command,
                      v1::Occurrence* reply);

// Texts of places in the feed of this server.
CursorOf CursorsOf(const Call& call);

}  // namespace dfsmr
