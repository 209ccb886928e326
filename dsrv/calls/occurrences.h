// What schedules and triggers have in common: SetPaused, ListOccurrences, RetryOccurrences and
// DeleteDefinition of ScheduleService.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dfsmr/v1/schedule.pb.h"
#include "dsrv/calls/call.h"
#include "dsrv/engine/triggers.h"
#include "dsrv/wire/schedules.h"
#include "dsrv/wire/triggers.h"

namespace dfsmr {

// A schedule, trigger or limit that a request names.
struct NamedDocument {
  std::string ns;
  DocumentKind kind = DocumentKind::kSchedule;
  std::string name;
  rows::DocumentName of() const { return {ns, kind, name}; }
};

struct SetPausedCommand {
  NamedDocument named;
  bool paused = false;
  std::string note;
  bool skip_missed = false;
  std::string client;
  FindZone zones;
  CursorOf cursor;
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  std::shared_ptr<TriggerView> trigger = std::make_shared<TriggerView>();  // when it is one
};
Result<SetPausedCommand> ParseSetPaused(const v1::SetPausedRequest& request, const Call& call);
Result<Ok> SettleSetPaused(Engine& engine, const Caller&, const SetPausedCommand& command);
Result<Ok> ReadSetPaused(const Reader& reader, const SetPausedCommand& command,
                         v1::SetPausedResponse* reply);

struct ListOccurrencesCommand {
  NamedDocument named;
  std::set<OccurrenceOutcome> outcomes;  // empty: all
  std::optional<Timestamp> from;
  std::optional<Timestamp> to;
  bool with_items = false;
  size_t limit = 0;
  std::string filters;             // the filters that the page token is valid for
  uint64_t before = UINT64_MAX;    // the number of the last one of the page before
};
Result<ListOccurrencesCommand> ParseListOccurrences(const v1::ListOccurrencesRequest& request,
                                                    const Call&);
Result<Ok> SettleListOccurrences(Engine& engine, const Caller&,
                                 const ListOccurrencesCommand& command);
Result<Ok> ReadListOccurrences(const Reader& reader, const ListOccurrencesCommand& command,
                               v1::ListOccurrencesResponse* reply);

struct RetryCommand {
  NamedDocument named;
  std::vector<std::string> ids;
  bool all = false;
  bool drop = false;
  std::optional<TraceContext> trace = {};
};
struct Retried {
  struct One {
    Result<Occurrence> result;
    std::optional<std::pair<InstanceState, InstanceResult>> standing;  // of its instance
  };
  std::vector<One> results;
  bool more = false;
};
Result<RetryCommand> ParseRetryOccurrences(const v1::RetryOccurrencesRequest& request,
                                           const Call& call);
Result<Retried> RunRetryOccurrences(Engine& engine, const Caller&, RetryCommand& command);
void ReplyRetryOccurrences(const Retried& retried, const RetryCommand& command,
                           v1::RetryOccurrencesResponse* reply);

struct DeleteCommand {
  NamedDocument named;
  std::string client;
};
Result<DeleteCommand> ParseDeleteDefinition(const v1::DeleteDefinitionRequest& request,
                                            const Call& call);
Result<Ok> RunDeleteDefinition(Engine& engine, const Caller&, DeleteCommand& command);
void ReplyDeleteDefinition(const Ok&, const DeleteCommand&, v1::DeleteDefinitionResponse* reply);

}  // namespace dfsmr
