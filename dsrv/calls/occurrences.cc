#include "dsrv/calls/occurrences.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "dsrv/calls/triggers.h"
#include "dsrv/engine/documents.h"
#include "dsrv/engine/launcher.h"
#include "dsrv/engine/occurrences.h"
#include "dsrv/engine/schedules.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/base/names.h"
#include "storage/rows/occurrence.h"

namespace dfsmr {
namespace {

constexpr size_t kNoteMax = 1'024;
constexpr size_t kRetries = 1'000;  // of one call

// The one document that a request names, of two or three fields.
Result<NamedDocument> ToNamed(
    const std::string& given_ns,
    const std::vector<std::pair<DocumentKind, const std::string*>>& names) {
  auto ns = ToNamespace(given_ns);
  if (!ns) return ns.error();
  NamedDocument named{.ns = *std::move(ns)};
  size_t given = 0;
  std::string all;
  for (const auto& [kind, name] : names) {
    all += (all.empty() ? "" : ", ") + std::string(Name(kind));
    if (name->empty()) continue;
    ++given;
    named.kind = kind;
    named.name = *name;
  }
  if (given != 1) return Bad("exactly one of these is to be given: " + all);
  return named;
}
template <typename Request>
Result<NamedDocument> ToNamed(const Request& request) {
  return ToNamed(request.namespace_(), {{DocumentKind::kSchedule, &request.schedule()},
                                        {DocumentKind::kTrigger, &request.trigger()}});
}

Result<Ok> Pause(Engine& engine, const SetPausedCommand& command) {
  const NamedDocument& named = command.named;
  if (named.kind == DocumentKind::kSchedule) {
    return engine.schedules().SetPaused(named.ns, named.name, command.paused, command.note,
                                        command.client);
  }
  auto paused = command.paused
                    ? engine.triggers().Pause(named.ns, named.name, command.note, command.client)
                    : engine.triggers().Resume(named.ns, named.name, command.skip_missed);
  if (!paused) return paused;
  auto view = engine.triggers().Get(named.ns, named.name, 0);
  if (!view) return view.error();
  *command.trigger = *std::move(view);
  return Ok{};
}

Result<Occurrence> Retry(Engine& engine, const RetryCommand& command, const std::string& id) {
  const NamedDocument& named = command.named;
  if (named.kind == DocumentKind::kSchedule) {
    return engine.schedules().Retry(named.ns, named.name, id, command.trace);
  }
  return engine.triggers().Retry(named.ns, named.name, id, command.trace);
}

}  // namespace

// SetPaused ---------------------------------------------------------------------------------------

Result<SetPausedCommand> ParseSetPaused(const v1::SetPausedRequest& request, const Call& call) {
  auto named = ToNamed(request);
  if (!named) return named.error();
  call.caller().On(named->name, request.paused() ? "pause" : "resume");
  if (Characters(request.note()) > kNoteMax) {
    return TooLarge("the note", Characters(request.note()), kNoteMax);
  }
  if (request.skip_missed() && (request.paused() || named->kind == DocumentKind::kSchedule)) {
    return Bad("skip_missed is for resuming a trigger");
  }
  return SetPausedCommand{*std::move(named),     request.paused(), request.note(),
                          request.skip_missed(), call.Peer(),      call.backend().zones,
                          CursorsOf(call)};
}

Result<Ok> SettleSetPaused(Engine& engine, const Caller&, const SetPausedCommand& command) {
  if (auto may = engine.MayChange(command.named.ns); !may) return may;
  auto paused = Pause(engine, command);
  if (!paused) return paused;
  command.seen->now = engine.now();
  command.seen->counts = engine.launcher().CountsIn(command.named.ns);
  return Ok{};
}

Result<Ok> ReadSetPaused(const Reader& reader, const SetPausedCommand& command,
                         v1::SetPausedResponse* reply) {
  if (command.named.kind == DocumentKind::kTrigger) {
    return ShowTrigger(Moment(reader), *command.trigger, command.cursor, reply->mutable_trigger());
  }
  return ShowSchedule(Moment(reader), command.zones, *command.seen, command.named.of(), 0, 5,
                      reply->mutable_schedule());
}

// ListOccurrences ---------------------------------------------------------------------------------

Result<ListOccurrencesCommand> ParseListOccurrences(const v1::ListOccurrencesRequest& request,
                                                    const Call&) {
  ListOccurrencesCommand command;
  auto named = ToNamed(request);
  if (!named) return named.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  std::string& filters = command.filters;
  filters = named->ns + '\n' + std::string(Name(named->kind)) + '\n' + named->name;
  for (int outcome : request.outcomes()) {
    if (!v1::Occurrence::Outcome_IsValid(outcome)) {
      return Bad("outcome " + std::to_string(outcome) + " is not one of Occurrence.Outcome");
    }
    command.outcomes.insert(static_cast<OccurrenceOutcome>(outcome));
  }
  for (OccurrenceOutcome one : command.outcomes) filters += ' ' + std::string(Name(one));
  auto time = [&filters](std::string_view what, bool given, const google::protobuf::Timestamp& from,
                         std::optional<Timestamp>* out) -> Result<Ok> {
    filters += '\n';
    if (!given) return Ok{};
    auto read = ToTimestamp(what, from);
    if (!read) return read.error();
    *out = *read;
    filters += std::to_string(Micros(*read));
    return Ok{};
  };
  auto times = All(
      [&] {
        return time("from_time", request.has_from_time(), request.from_time(), &command.from);
      },
      [&] { return time("to_time", request.has_to_time(), request.to_time(), &command.to); });
  if (!times) return times.error();
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  if (!last->empty()) command.before = std::strtoull(last->c_str(), nullptr, 10);
  command.named = *std::move(named);
  command.with_items = request.with_items();
  command.limit = *limit;
  return command;
}

Result<Ok> SettleListOccurrences(Engine& engine, const Caller&,
                                 const ListOccurrencesCommand& command) {
  return engine.Settle(command.named.ns, "");
}

Result<Ok> ReadListOccurrences(const Reader& reader, const ListOccurrencesCommand& command,
                               v1::ListOccurrencesResponse* reply) {
  const Moment moment(reader);
  const rows::DocumentName of = command.named.of();
  auto defined = rows::GetDocumentHead(moment.rows, of);
  if (!defined) return defined.error();
  if (!*defined) return NoSuchDocument(of);
  Result<Ok> outcome = Ok{};
  size_t bytes = 0;
  uint64_t last = 0;  // the number of the last one that was looked at
  bool more = false;
  auto show = [&](const Occurrence& one) {
    const bool wanted = (command.outcomes.empty() || command.outcomes.contains(one.outcome)) &&
                        (!command.from || one.time >= *command.from) &&
                        (!command.to || one.time <= *command.to);
    if (!wanted) {
      last = one.number;
      return true;
    }
    v1::Occurrence shown;
    outcome = ShowOccurrence(moment, of, one, &shown);
    if (!outcome) return false;
    if (command.with_items) shown.set_item(one.item);
    bytes += shown.ByteSizeLong();
    const size_t size = static_cast<size_t>(reply->occurrences_size());
    more = size == command.limit || (size > 0 && bytes > kReplyBytes);
    if (more) return false;
    *reply->add_occurrences() = std::move(shown);
    last = one.number;
    return true;
  };
  auto scanned = rows::ScanOccurrences(moment.rows, of, command.before, show);
  if (!scanned || !outcome) return scanned ? outcome : scanned;
  if (more) reply->set_next_page_token(PageToken(command.filters, std::to_string(last)));
  return Ok{};
}

// RetryOccurrences --------------------------------------------------------------------------------

Result<RetryCommand> ParseRetryOccurrences(const v1::RetryOccurrencesRequest& request,
                                           const Call& call) {
  auto named = ToNamed(request);
  if (!named) return named.error();
  call.caller().On(named->name, request.drop() ? "drop" : "retry");
  if (request.all() != request.ids().empty()) {
    return Bad("give the ids of occurrences, or 'all'");
  }
  if (auto few = CheckBatch(request.ids_size(), "ids"); !few) return few.error();
  return RetryCommand{*std::move(named),
                      {request.ids().begin(), request.ids().end()},
                      request.all(),
                      request.drop(),
                      ReadTraceparent(call.Traceparent())};
}

Result<Retried> RunRetryOccurrences(Engine& engine, const Caller&, RetryCommand& command) {
  const rows::DocumentName of = command.named.of();
  auto stands = engine.documents().Stands(of);
  if (!stands) return stands.error();
  if (!*stands) return NoSuchDocument(of);
  Retried retried;
  if (command.all) {
    auto failed = engine.occurrences().Failed(of, kRetries + 1);
    if (!failed) return failed.error();
    command.ids = *std::move(failed);
    retried.more = command.ids.size() > kRetries;
    command.ids.resize(std::min(command.ids.size(), kRetries));
  }
  for (const std::string& id : command.ids) {
    auto one = command.drop ? engine.occurrences().Drop(of, id) : Retry(engine, command, id);
    const auto standing = one ? engine.StandingOf(command.named.ns, one->instance) : std::nullopt;
    retried.results.push_back({std::move(one), standing});
  }
  return retried;
}

void ReplyRetryOccurrences(const Retried& retried, const RetryCommand& command,
                           v1::RetryOccurrencesResponse* reply) {
  for (const Retried::One& one : retried.results) {
    v1::RetryOccurrencesResponse::Result* out = reply->add_results();
    if (!one.result) {
      ToProto(one.result.error(), out->mutable_error());
      continue;
    }
    ToProto(command.named.of(), *one.result, out->mutable_occurrence());
    if (one.standing) {
      ShowStanding(one.standing->first, one.standing->second, out->mutable_occurrence());
    }
  }
  reply->set_more(retried.more);
}

// DeleteDefinition --------------------------------------------------------------------------------

Result<DeleteCommand> ParseDeleteDefinition(const v1::DeleteDefinitionRequest& request,
                                            const Call& call) {
  auto named = ToNamed(request.namespace_(), {{DocumentKind::kSchedule, &request.schedule()},
                                              {DocumentKind::kTrigger, &request.trigger()},
                                              {DocumentKind::kLimit, &request.limit()}});
  if (!named) return named.error();
  call.caller().On(named->name, "delete " + std::string(Name(named->kind)));
  return DeleteCommand{*std::move(named), call.Peer()};
}

Result<Ok> RunDeleteDefinition(Engine& engine, const Caller&, DeleteCommand& command) {
  return engine.documents().Delete(command.named.of(), command.client);
}

void ReplyDeleteDefinition(const Ok&, const DeleteCommand&, v1::DeleteDefinitionResponse*) {}

}  // namespace dfsmr
