#include "dsrv/calls/service.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include "dsrv/calls/polls.h"
#include "dsrv/calls/streams.h"
#include "dsrv/wire/lists.h"
#include "dsrv/wire/plan_view.h"
#include "fsm/base/limits.h"
#include "fsm/yaml/definitions.h"
#include "fsm/yaml/places.h"
#include "storage/rows/feed.h"

namespace dfsmr {
namespace {

void ToReply(const Started& started, v1::StartResponse* out) {
  ToProto(started.view, out->mutable_instance());
  out->set_created(started.created);
}

constexpr size_t kReplyBytes = limits::kMessage - (64 << 10);  // for what else is in the message

// To what the instance is, and how it stands.
void Shorten(v1::StartResponse* started) {
  v1::Instance whole = std::move(*started->mutable_instance());
  v1::Instance* instance = started->mutable_instance();
  instance->Clear();
  instance->set_namespace_(whole.namespace_());
  instance->set_id(whole.id());
  instance->set_machine(whole.machine());
  instance->set_version(whole.version());
  instance->set_state(whole.state());
  instance->set_result(whole.result());
}

// A status and its trailer travel in headers, which hold little: what does not fit is counted.
constexpr size_t kStatusBytes = 4'000;
constexpr size_t kTrailerBytes = 3'000;

std::string MoreProblems(size_t untold) {
  return "… and " + std::to_string(untold) + " more, told once these are mended";
}

Error BadMachine(const std::vector<Diagnostic>& diagnostics) {
  Error error{Code::kInvalidArgument, Reason::kBadMachine, ""};
  size_t untold = 0;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!diagnostic.error) continue;
    if (error.message.size() > kStatusBytes) {
      ++untold;
      continue;
    }
    if (!error.message.empty()) error.message += '\n';
    error.message += Format(diagnostic);
  }
  if (untold > 0) error.message += '\n' + MoreProblems(untold);
  return error;
}

// The diagnostics as a serialised DefineResponse.
std::string DiagnosticsTrailer(const std::vector<Diagnostic>& diagnostics) {
  v1::DefineResponse response;
  size_t told = 0;
  for (; told < diagnostics.size() && response.ByteSizeLong() <= kTrailerBytes; ++told) {
    ToProto(diagnostics[told], response.add_diagnostics());
  }
  if (told < diagnostics.size()) {
    const auto untold = std::ranges::subrange(diagnostics.begin() + told, diagnostics.end());
    v1::Diagnostic* last = response.add_diagnostics();
    last->set_severity(std::ranges::any_of(untold, &Diagnostic::error) ? v1::Diagnostic::ERROR
                                                                       : v1::Diagnostic::WARNING);
    last->set_message(MoreProblems(diagnostics.size() - told));
  }
  return response.SerializeAsString();
}

// What reading has found, and what compiling has, in the order of the source.
std::vector<Diagnostic> AllOf(std::vector<Diagnostic> found,
                              const std::vector<Engine::DefineProblem>& problems,
                              const YamlTree& tree, const std::string& source_name) {
  if (problems.empty()) return found;
  Reporter reporter(source_name);
  for (const auto& [machine, problem] : problems) {
    Written written = PlaceOf(problem, tree);
    if (problem.warning) {
      reporter.Warning(written.at, std::move(written.path), problem.message);
    } else {
      reporter.Error(written.at, std::move(written.path), problem.message);
    }
  }
  std::ranges::move(std::move(reporter).Take(), std::back_inserter(found));
  std::ranges::stable_sort(found, {}, [](const Diagnostic& one) {
    return std::pair(one.line, one.column);
  });
  return found;
}

void AppendField(uint32_t number, std::string_view bytes, std::string* out) {
  *out += static_cast<char>(number << 3 | 2);
  size_t size = bytes.size();
  for (; size >= 128; size >>= 7) *out += static_cast<char>(size | 128);
  *out += static_cast<char>(size);
  *out += bytes;
}

// A ChangesResponse from changes that are serialised already. All whom it goes to share its bytes.
void EncodeResponse(const Changes::PortionPtr& portion, const std::string& cursor,
                    std::deque<grpc::ByteBuffer>* out) {
  const std::string& message = portion->Message([&] {
    std::string made;
    for (const auto& change : portion->changes) AppendField(1, *change, &made);
    AppendField(2, cursor, &made);
    return made;
  });
  auto release = [](void* held) { delete static_cast<Changes::PortionPtr*>(held); };
  const grpc::Slice slice(const_cast<char*>(message.data()), message.size(), release,
                          new Changes::PortionPtr(portion));
  out->emplace_back(&slice, 1);
}

Result<ChangesStream::Open> ToOpen(const Backend& backend, const v1::ChangesRequest& request) {
  ChangesStream::Open open;
  auto filter = ToChangeFilter(request);
  if (!filter) return filter.error();
  open.filter = *std::move(filter);
  const uint64_t head = backend.changes.head();
  if (!request.follow()) open.until = head;
  if (request.after().empty()) {
    open.after = head;
  } else if (request.after() == "0") {
    auto first = rows::FirstSeq({backend.engine.store(), backend.engine.partition()});
    if (!first) return first.error();
    open.after = *first - 1;
  } else {
    auto cursor = ParseCursor(request.after());
    if (!cursor) return cursor.error();
    const Cursor end = backend.changes.CursorAt(head);
    if (cursor->life != end.life) {
      return Error{
          Code::kOutOfRange, Reason::kCursorExpired,
          "the cursor is from before this store was restored, or from another server: what "
          "it had read may never have happened here; read on from '0'"};
    }
    if (cursor->partition != end.partition || cursor->seq > head) {
      return Error{Code::kOutOfRange, Reason::kCursorAhead,
                   "the cursor is ahead of the feed, which ends at " + CursorText(end)};
    }
    open.after = cursor->seq;
  }
  return open;
}

// Admits a call of which each item names its namespace, and perhaps `next` one, too.
template <typename Items>
Result<Caller> AdmitItems(const Backend& backend, const grpc::CallbackServerContext& context,
                          const Method& method, const Items& items,
                          const v1::ReadyRequest* next = nullptr) {
  std::string first;
  if (!items.empty()) {
    first = items.begin()->namespace_();
  } else if (next) {
    first = next->namespace_();
  }
  auto caller = backend.access.Admit(context, method, first);
  if (!caller || !caller->principal()) return caller;
  auto entered = next ? caller->MayEnter(next->namespace_()) : Result<Ok>(Ok{});
  for (const auto& item : items) {
    if (entered) entered = caller->MayEnter(item.namespace_());
  }
  return entered ? caller : Result<Caller>(entered.error());
}

std::string IdsOf(const std::vector<Machine>& definitions) {
  std::string ids;
  for (const Machine& one : definitions) ids += (ids.empty() ? "" : " ") + one.id;
  return ids;
}

std::string IdsOf(const google::protobuf::RepeatedPtrField<v1::StartRequest>& starts) {
  std::string ids;
  for (const v1::StartRequest& start : starts) {
    ids += (ids.empty() ? "" : " ") + (start.id().empty() ? start.machine() : start.id());
  }
  return ids;
}

}  // namespace

std::string SerialiseChange(const Event& event, PartitionId partition) {
  v1::Change change;
  ToProto(event, partition, &change);
  return change.SerializeAsString();
}

grpc::ServerUnaryReactor* RunnerService::Define(Context* context, const v1::DefineRequest* request,
                                                v1::DefineResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/Define"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  if (request->source().size() > limits::kSource) {
    return Refused(context, {Code::kInvalidArgument, Reason::kTooLarge,
                             "the source is " + std::to_string(request->source().size()) +
                                 " bytes long; the limit is " + std::to_string(limits::kSource)});
  }
  // Reading a megabyte of YAML takes a while: not on one of gRPC's two threads.
  auto* reactor = new UnaryCall(backend_, context, *caller);
  if (!reactor->admitted()) return reactor;
  if (backend_.pool.Behind(limits::kMailboxWait)) {
    reactor->FinishWith(Overloaded());
    return reactor;
  }
  backend_.pool.Post([this, caller = *caller, context, request, reply, reactor, ns = *ns] {
    const std::string name = request->source_name().empty() ? "source" : request->source_name();
    auto parsed = std::make_shared<Parsed>(ParseDefinitions(request->source(), name));
    caller.On(IdsOf(parsed->definitions), request->validate_only() ? "validate only" : "");
    Mailbox::Mail mail;
    mail.bytes = request->source().size();
    mail.run = [=, this, validate_only = request->validate_only()](Engine& engine) {
      std::vector<Machine> machines;
      for (Machine& definition : parsed->definitions) {
        machines.push_back(std::move(definition));
      }
      std::vector<Engine::DefineProblem> problems;
      Result<std::vector<Defined>> defined = std::vector<Defined>();
      if (parsed->ok()) {
        defined = engine.Define(ns, std::move(machines), validate_only, &problems);
      } else {
        (void)engine.CompileAll(ns, machines, parsed->unsound, &problems);
      }
      engine.AfterCommit([=, this, problems = std::move(problems), defined = std::move(defined)] {
        if (!parsed->ok() || Engine::HasErrors(problems)) {
          // Where they are is looked for in the source, and other answers wait here.
          return backend_.pool.Post([=] {
            const bool sound = parsed->ok();
            const auto wrong = AllOf(sound ? std::vector<Diagnostic>() : parsed->diagnostics,
                                     problems, *parsed->tree, name);
            context->AddTrailingMetadata("dfsmr-diagnostics-bin", DiagnosticsTrailer(wrong));
            reactor->FinishWith(BadMachine(wrong));
          });
        }
        if (!defined) return reactor->FinishWith(defined.error());
        for (const Defined& one : *defined) ToProto(one, reply->add_defined());
        for (const Diagnostic& one : AllOf(parsed->diagnostics, problems, *parsed->tree, name)) {
          ToProto(one, reply->add_diagnostics());
        }
        reactor->FinishWell();
      });
    };
    mail.drop = [=] { reactor->FinishWith(Dropped()); };
    if (!backend_.loop.Post(std::move(mail))) reactor->FinishWith(Overloaded());
  });
  return reactor;
}

grpc::ServerUnaryReactor* RunnerService::ListMachines(Context* context,
                                                      const v1::ListMachinesRequest* request,
                                                      v1::ListMachinesResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/ListMachines"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto limit = ToPageSize(request->page_size());
  if (!limit) return Refused(context, limit.error());
  const std::string filters = *ns + (request->all_versions() ? "*" : "");
  auto last = ParsePageToken(filters, request->page_token());
  if (!last) return Refused(context, last.error());
  std::pair<std::string, uint32_t> after;
  if (!last->empty()) {
    after = {
        last->substr(0, last->find('\n')),
        static_cast<uint32_t>(std::strtoul(last->c_str() + last->find('\n') + 1, nullptr, 10))};
  }
  return Decided(
      backend_, context, *caller, 0, reply,
      [=, all = request->all_versions()](Engine& engine) {
        return Result<std::vector<MachineView>>(engine.ListMachines(*ns, all, after, *limit + 1));
      },
      [=](const std::vector<MachineView>& views, v1::ListMachinesResponse* out) {
        size_t bytes = 0;
        for (const MachineView& view : views) {
          v1::Machine machine;
          ToProto(view, &machine);
          if (machine.ByteSizeLong() > kReplyBytes) machine.clear_nodes();  // GetMachine tells them
          bytes += machine.ByteSizeLong();
          const bool full = out->machines_size() == static_cast<int>(*limit) || bytes > kReplyBytes;
          if (full && out->machines_size() > 0) {
            const v1::Machine& previous = *out->machines().rbegin();
            out->set_next_page_token(PageToken(
                filters, previous.id() + '\n' + std::to_string(previous.version())));
            break;
          }
          *out->add_machines() = std::move(machine);
        }
      });
}

grpc::ServerUnaryReactor* RunnerService::GetMachine(Context* context,
                                                    const v1::GetMachineRequest* request,
                                                    v1::Machine* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/GetMachine"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  return Decided(
      backend_, context, *caller, 0, reply,
      [=](Engine& engine) { return engine.GetMachine(*ns, request->id(), request->version()); },
      [](const MachineView& view, v1::Machine* out) { ToProto(view, out); });
}

grpc::ServerUnaryReactor* RunnerService::Start(Context* context, const v1::StartRequest* request,
                                               v1::StartResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/Start"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  caller->On(request->id().empty() ? request->machine() : request->id(), request->machine());
  auto allowed = caller->MayStart(request->machine(), !request->flow().empty());
  if (!allowed) return Refused(context, allowed.error());
  auto start = ToStart(*request);
  if (!start) return Refused(context, start.error());
  start->spec.client = context->peer();
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [start = *std::move(start)](Engine& engine) mutable {
        return engine.Start(std::move(start));
      },
      ToReply);
}

grpc::ServerUnaryReactor* RunnerService::StartBatch(Context* context,
                                                    const v1::StartBatchRequest* request,
                                                    v1::StartBatchResponse* reply) {
  auto caller = AdmitItems(backend_, *context, RuleOf("dfsmr.v1.RunnerService/StartBatch"),
                           request->starts());
  if (!caller) return Refused(context, caller.error());
  if (caller->Audited()) caller->On(IdsOf(request->starts()));
  if (backend_.loop.Overloaded()) return Refused(context, Overloaded());
  auto checked = CheckBatch(request->starts_size(), "starts");
  if (!checked) return Refused(context, checked.error());
  auto starts = std::make_shared<std::vector<Result<StartArgs>>>();
  for (const auto& start : request->starts()) {
    auto allowed = caller->MayStart(start.machine(), !start.flow().empty());
    starts->push_back(allowed ? ToStart(start) : Result<StartArgs>(allowed.error()));
    if (starts->back()) (*starts->back()).spec.client = context->peer();
  }
  using Results = std::vector<Result<Started>>;
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [starts](Engine& engine) {
        Results results;
        for (auto& start : *starts) {
          results.push_back(start ? engine.Start(*std::move(start))
                                  : Result<Started>(start.error()));
        }
        return Result<Results>(std::move(results));
      },
      [](const Results& results, v1::StartBatchResponse* out) {
        size_t bytes = 0;
        for (const auto& result : results) {
          v1::StartResult* to = out->add_results();
          if (!result) {
            ToProto(result.error(), to->mutable_error());
            continue;
          }
          v1::StartResponse* started = to->mutable_started();
          ToReply(*result, started);
          // A reply must fit a message. The caller has what it sent; GetInstance tells the rest.
          if (bytes + started->ByteSizeLong() > limits::kMessage - limits::kJson) Shorten(started);
          bytes += started->ByteSizeLong();
        }
      });
}

grpc::ServerUnaryReactor* RunnerService::ListInstances(Context* context,
                                                       const v1::ListInstancesRequest* request,
                                                       v1::ListInstancesResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/ListInstances"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto query = ToQuery(*request);
  if (!query) return Refused(context, query.error());
  return SettledRead(
      backend_, context, *caller, reply,
      [ns = query->ns](Engine& engine) { return engine.Settle(ns, ""); },
      [this, request, query = *query](v1::ListInstancesResponse* out) -> Result<Ok> {
        auto page = ReadInstances(Moment(backend_.engine), query);
        if (!page) return page.error();
        for (const InstanceView& view : page->instances) ToProto(view, out->add_instances());
        if (!page->last.empty())
          out->set_next_page_token(PageToken(FiltersOf(*request), page->last));
        return Ok{};
      });
}

grpc::ServerUnaryReactor* RunnerService::GetInstance(Context* context,
                                                     const v1::GetInstanceRequest* request,
                                                     v1::Instance* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/GetInstance"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto checked = CheckInstanceId(request->id());
  if (!checked) return Refused(context, checked.error());
  return SettledRead(
      backend_, context, *caller, reply,
      [caller = *caller, ns = *ns, id = request->id()](Engine& engine) {
        auto allowed = caller.MaySee(engine, ns, id);
        return allowed ? engine.Settle(ns, id) : allowed;
      },
      [this, request, ns = *ns](v1::Instance* out) -> Result<Ok> {
        const Moment moment(backend_.engine);
        auto view = ReadInstance(moment, ns, request->id());
        if (!view) return view.error();
        ToProto(*view, out);
        if (!request->with_nodes()) return Ok{};
        return ShowNodes(moment, view->instance, out);
      });
}

grpc::ServerUnaryReactor* RunnerService::GetHistory(Context* context,
                                                    const v1::GetHistoryRequest* request,
                                                    v1::GetHistoryResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/GetHistory"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto checked = CheckInstanceId(request->id());
  if (!checked) return Refused(context, checked.error());
  auto limit = ToPageSize(request->page_size());
  if (!limit) return Refused(context, limit.error());
  const std::string filters = *ns + '\n' + request->id();
  auto last = ParsePageToken(filters, request->page_token());
  if (!last) return Refused(context, last.error());
  const uint64_t after = last->empty() ? 0 : std::strtoull(last->c_str(), nullptr, 10);
  return SettledRead(
      backend_, context, *caller, reply,
      [ns = *ns, id = request->id()](Engine& engine) { return engine.Settle(ns, id); },
      [this, request, ns = *ns, filters, after, limit = *limit](
          v1::GetHistoryResponse* out) -> Result<Ok> {
        auto page = ReadHistory(Moment(backend_.engine), ns, request->id(), after, limit);
        if (!page) return page.error();
        for (const Event& event : page->events) {
          ToProto(event, backend_.engine.partition(), out->add_changes());
        }
        if (page->last) out->set_next_page_token(PageToken(filters, std::to_string(page->last)));
        return Ok{};
      });
}

grpc::ServerUnaryReactor* RunnerService::Ready(Context* context, const v1::ReadyRequest* request,
                                               v1::ReadyResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/Ready"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto poll = ToPoll(*request, context->peer(), backend_.clock());
  if (!poll) return Refused(context, poll.error());
  auto allowed = caller->Narrow(&poll->filter);
  if (!allowed) return Refused(context, allowed.error());
  poll->max_tasks = std::min(poll->max_tasks, limits::kTasks);
  auto* call = new PollCall(backend_, context, *std::move(caller));
  call->Ready(*std::move(poll), Into(reply->mutable_tasks()));
  return call;
}

grpc::ServerUnaryReactor* RunnerService::Transition(Context* context,
                                                    const v1::TransitionRequest* request,
                                                    v1::TransitionResponse* reply) {
  constexpr const Method& kReport = RuleOf("dfsmr.v1.RunnerService/Transition");
  auto caller = backend_.access.Admit(*context, request->claim().empty() ? kOutside : kReport,
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  caller->On(request->instance(), request->transition());
  auto report = ToReport(*request);
  if (!report) return Refused(context, report.error());
  if (report->args.client.empty() && report->args.claim.empty()) {
    report->args.client = context->peer();
  }
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [caller = *caller, report = *std::move(report)](Engine& engine) mutable {
        return ReportAs(caller, engine, &report);
      },
      [request](const Answer& answer, v1::TransitionResponse* out) {
        ToProto(request->instance(), answer, out);
      });
}

grpc::ServerUnaryReactor* RunnerService::Report(Context* context, const v1::ReportRequest* request,
                                                v1::ReportResponse* reply) {
  auto caller = AdmitItems(backend_, *context, RuleOf("dfsmr.v1.RunnerService/Report"),
                           request->transitions(),
                           request->has_next() ? &request->next() : nullptr);
  if (!caller) return Refused(context, caller.error());
  if (backend_.loop.Overloaded()) return Refused(context, Overloaded());
  auto checked = CheckBatch(request->transitions_size(), "transitions");
  if (!checked) return Refused(context, checked.error());
  std::optional<PollArgs> next;
  if (request->has_next()) {
    auto poll = ToPoll(request->next(), context->peer(), backend_.clock());
    if (!poll) return Refused(context, poll.error());
    auto allowed = caller->Narrow(&poll->filter);
    if (!allowed) return Refused(context, allowed.error());
    next = *std::move(poll);
    next->max_tasks = std::min(next->max_tasks, limits::kTasks);
  }
  std::vector<Result<ReportCommand>> reports;
  reports.reserve(static_cast<size_t>(request->transitions_size()));
  for (const auto& transition : request->transitions()) reports.push_back(ToReport(transition));
  auto* call = new PollCall(backend_, context, *std::move(caller));
  call->Report(std::move(reports), std::move(next), reply, request->ByteSizeLong());
  return call;
}

grpc::ServerUnaryReactor* RunnerService::Relinquish(Context* context,
                                                    const v1::RelinquishRequest* request,
                                                    v1::RelinquishResponse* reply) {
  constexpr const Method& kClaim = RuleOf("dfsmr.v1.RunnerService/Relinquish");
  constexpr const Method& kAll = RuleOf("dfsmr.v1.RunnerService/Relinquish without a claim");
  auto caller = backend_.access.Admit(*context, request->claim().empty() ? kAll : kClaim,
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  caller->On(request->instance());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto checked = CheckInstanceId(request->instance());
  if (!checked) return Refused(context, checked.error());
  return Decided(
      backend_, context, *caller, 0, reply,
      [=, peer = context->peer()](Engine& engine) -> Result<std::string> {
        auto allowed = caller->MayReport(engine, *ns, request->instance(), request->claim());
        if (!allowed) return allowed.error();
        return engine.Relinquish(*ns, request->instance(), request->claim(),
                                 request->claim().empty() ? peer : "");
      },
      [request](const std::string& node, v1::RelinquishResponse* out) {
        out->set_instance(request->instance());
        out->set_node(node);
      });
}

grpc::ServerUnaryReactor* RunnerService::Extend(Context* context, const v1::ExtendRequest* request,
                                                v1::ExtendResponse* reply) {
  auto caller = backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/Extend"),
                                      request->namespace_());
  if (!caller) return Refused(context, caller.error());
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto checked = CheckBatch(request->items_size(), "items");
  if (!checked) return Refused(context, checked.error());
  using Items = std::vector<Engine::Extended>;
  return Decided(
      backend_, context, *caller, request->ByteSizeLong(), reply,
      [=](Engine& engine) {
        Items items;
        for (const auto& item : request->items()) {
          auto extend = ToExtend(item);
          if (extend) {
            auto allowed = caller->MayReport(engine, *ns, extend->instance, extend->claim);
            if (!allowed) extend = allowed.error();
          }
          if (extend) {
            items.push_back(engine.Extend(*ns, extend->instance, extend->claim, extend->by,
                                          extend->progress));
          } else {
            items.emplace_back().error = extend.error();
          }
        }
        return Result<Items>(std::move(items));
      },
      [](const Items& items, v1::ExtendResponse* out) {
        for (const Engine::Extended& item : items) ToProto(item, out->add_items());
      });
}

grpc::ServerBidiReactor<v1::WorkRequest, v1::WorkResponse>* RunnerService::Work(Context* context) {
  // What it takes work from is in its first message: its namespace is looked at then.
  return WorkStream::Begin(backend_, context, RuleOf("dfsmr.v1.RunnerService/Work"));
}

template <typename Request, typename Control>
grpc::ServerUnaryReactor* RunnerService::Controlled(Context* context, const Method& method,
                                                    const Request* request, v1::Instance* reply,
                                                    std::string_view detail, Control control) {
  auto caller = backend_.access.Admit(*context, method, request->namespace_());
  if (!caller) return Refused(context, caller.error());
  caller->On(request->instance(), detail);
  auto ns = ToNamespace(request->namespace_());
  if (!ns) return Refused(context, ns.error());
  auto checked = CheckInstanceId(request->instance());
  if (!checked) return Refused(context, checked.error());
  return SettledRead(
      backend_, context, *std::move(caller), reply,
      [ns = *ns, request, control](Engine& engine) {
        Result<Ok> outcome = control(engine, ns);
        return outcome ? engine.Settle(ns, request->instance()) : outcome;
      },
      [this, ns = *ns, request](v1::Instance* out) -> Result<Ok> {
        auto view = ReadInstance(Moment(backend_.engine), ns, request->instance());
        if (!view) return view.error();
        ToProto(*view, out);
        return Ok{};
      });
}

grpc::ServerUnaryReactor* RunnerService::Pause(Context* context, const v1::PauseRequest* request,
                                               v1::Instance* reply) {
  return Controlled(context, RuleOf("dfsmr.v1.RunnerService/Pause"), request, reply, "",
                    [request](Engine& engine, const std::string& ns) {
                      return engine.Pause(ns, request->instance());
                    });
}

grpc::ServerUnaryReactor* RunnerService::Resume(Context* context, const v1::ResumeRequest* request,
                                                v1::Instance* reply) {
  return Controlled(context, RuleOf("dfsmr.v1.RunnerService/Resume"), request, reply,
                    request->node() + (request->force() ? " force" : ""),
                    [request](Engine& engine, const std::string& ns) {
                      return engine.Resume(ns, request->instance(), request->node(),
                                           request->force());
                    });
}

grpc::ServerUnaryReactor* RunnerService::Skip(Context* context, const v1::SkipRequest* request,
                                              v1::Instance* reply) {
  return Controlled(context, RuleOf("dfsmr.v1.RunnerService/Skip"), request, reply,
                    request->node(), [request](Engine& engine, const std::string& ns) {
                      return engine.Skip(ns, request->instance(), request->node());
                    });
}

grpc::ServerUnaryReactor* RunnerService::Cancel(Context* context, const v1::CancelRequest* request,
                                                v1::Instance* reply) {
  const std::string mode = v1::CancelRequest::Mode_IsValid(request->mode())
                               ? v1::CancelRequest::Mode_Name(request->mode())
                               : "";
  return Controlled(context, RuleOf("dfsmr.v1.RunnerService/Cancel"), request, reply, mode,
                    [request](Engine& engine, const std::string& ns) -> Result<Ok> {
                      auto how = ToCancelMode(request->mode());
                      if (!how) return how.error();
                      return engine.Cancel(ns, request->instance(), *how);
                    });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* RunnerService::Changes(
    Context* context, const grpc::ByteBuffer* buffer) {
  v1::ChangesRequest request;
  grpc::ByteBuffer copy(*buffer);
  grpc::ProtoBufferReader reader(&copy);
  const bool read = request.ParseFromZeroCopyStream(&reader);
  return ChangesStream::Begin(
      backend_, context,
      backend_.access.Admit(*context, RuleOf("dfsmr.v1.RunnerService/Changes"),
                            request.namespace_()),
      [&]() -> Result<ChangesStream::Open> {
        if (read) return ToOpen(backend_, request);
        return Error{Code::kInternal, Reason::kNone, "the request could not be read"};
      },
      EncodeResponse);
}

}  // namespace dfsmr
