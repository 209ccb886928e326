#include "dsrv/calls/definitions.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "dsrv/calls/method.h"
#include "dsrv/calls/counting.h"
#include "dsrv/engine/compile.h"
#include "dsrv/wire/checks.h"
#include "dsrv/wire/pages.h"
#include "dsrv/wire/replies.h"
#include "fsm/base/limits.h"
#include "fsm/yaml/definitions.h"
#include "fsm/yaml/places.h"

namespace dfsmr {
namespace {

// A status and its trailer travel in headers, which hold little. What does not fit is counted.
constexpr size_t kStatusBytes = 4'000;
constexpr size_t kTrailerBytes = 3'000;

// Names and references in it may be as long as a source.
Diagnostic Told(Diagnostic diagnostic) {
  diagnostic.source_name = Cut(diagnostic.source_name, 200);
  diagnostic.path = Cut(diagnostic.path, 200);
  diagnostic.message = Cut(diagnostic.message, 600);
  return diagnostic;
}

// As gRPC sends a message: what is no printable ASCII takes three bytes, and so does '%'.
size_t SentBytes(std::string_view message) {
  const auto escaped = [](char c) { return c < ' ' || c > '~' || c == '%'; };
  return message.size() + 2 * static_cast<size_t>(std::ranges::count_if(message, escaped));
}

std::string MoreProblems(size_t untold) {
  return "… and " + std::to_string(untold) + " more, told once these are mended";
}

}  // namespace

Error BadSource(const std::vector<Diagnostic>& diagnostics, Reason reason) {
  Error error{Code::kInvalidArgument, reason, ""};
  size_t untold = 0;
  size_t sent = 0;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!diagnostic.error) continue;
    const std::string text = (sent == 0 ? "" : "\n") + Format(Told(diagnostic));
    const size_t bytes = SentBytes(text);
    if (untold > 0 || sent + bytes > kStatusBytes) {
      ++untold;
      continue;
    }
    sent += bytes;
    error.message += text;
  }
  if (untold > 0) error.message += '\n' + MoreProblems(untold);
  return error;
}

// The diagnostics as a serialised DefineResponse.
std::string DiagnosticsTrailer(const std::vector<Diagnostic>& diagnostics) {
  v1::DefineResponse response;
  size_t told = 0;
  for (; told < diagnostics.size(); ++told) {
    ToProto(Told(diagnostics[told]), response.add_diagnostics());
    if (response.ByteSizeLong() <= kTrailerBytes) continue;
    response.mutable_diagnostics()->RemoveLast();
    break;
  }
  if (told < diagnostics.size()) {
    const auto untold = std::span(diagnostics).subspan(told);
    v1::Diagnostic* last = response.add_diagnostics();
    last->set_severity(std::ranges::any_of(untold, &Diagnostic::error) ? v1::Diagnostic::ERROR
                                                                       : v1::Diagnostic::WARNING);
    last->set_message(MoreProblems(diagnostics.size() - told));
  }
  return response.SerializeAsString();
}

namespace {

// What reading has found, and what compiling has, in the order of the source.
std::vector<Diagnostic> AllOf(std::vector<Diagnostic> found,
                              const std::vector<DefineProblem>& problems, const YamlTree& tree,
                              const std::string& source_name) {
  if (problems.empty()) return found;
  Reporter reporter(source_name);
  for (const auto& [definition, problem] : problems) {
    Written written = PlaceOf(problem, tree);
    if (problem.warning) {
      reporter.Warning(written.at, std::move(written.path), problem.message);
    } else {
      reporter.Error(written.at, std::move(written.path), problem.message);
    }
  }
  std::ranges::move(std::move(reporter).Take(), std::back_inserter(found));
  std::ranges::stable_sort(found, {},
                           [](const Diagnostic& one) { return std::pair(one.line, one.column); });
  return found;
}

std::string IdsOf(const Sources& sources) {
  std::string ids;
  for (const Machine& one : sources.machines) ids += (ids.empty() ? "" : " ") + one.id;
  for (const Document& one : sources.documents) ids += (ids.empty() ? "" : " ") + one.name;
  return ids;
}

}  // namespace

void RefuseSource(Call& call, const std::vector<Diagnostic>& wrong, Reason reason) {
  call.AddTrailer("dfsmr-diagnostics-bin", DiagnosticsTrailer(wrong));
  call.Fail(BadSource(wrong, reason));
}

namespace {

// After so many it is compiled in the loop, so that a Define does not wait for ever.
constexpr int kOvertakenMax = 3;

// One Define on its way. The loop tells what is defined, the pool compiles the source under that,
// and the loop decides, since only there nothing else is defined meanwhile; when something was, the
// pool compiles again.
class DefineCall : public std::enable_shared_from_this<DefineCall> {
 public:
  DefineCall(Call& call, const v1::DefineRequest& request, v1::DefineResponse* reply,
             std::string ns)
      : call_(call),
        request_(request),
        reply_(reply),
        ns_(std::move(ns)),
        name_(request.source_name().empty() ? "source" : request.source_name()) {}

  void Parse() {
    parsed_ = ParseDefinitions(request_.source(), name_, call_.backend().zones);
    sources_ = {std::move(parsed_.definitions), std::move(parsed_.documents)};
    call_.caller().On(IdsOf(sources_), request_.validate_only() ? "validate only" : "");
    GatherLive(call_.backend(), ns_, Counting::kShown, /*settle=*/false,
               [self = shared_from_this()](const Result<LiveCounts>& elsewhere) {
                 if (elsewhere) self->elsewhere_ = *elsewhere;
                 self->Look(self->request_.source().size());
               });
  }

 private:
  void Look(size_t bytes) {
    PostFor(call_, bytes,
            [self = shared_from_this()](Engine& engine) { self->CompileUnder(engine); });
  }

  // In the loop: has the pool compile the source under what is defined now.
  void CompileUnder(Engine& engine) {
    call_.backend().pool.Post(
        [self = shared_from_this(), now = engine.now(), under = engine.DefinitionsOf(ns_)] {
          self->compiled_ = CompileAll(under, self->sources_, self->parsed_.unsound, now);
          if (self->Previews()) self->ShowSound();
          PostFor(self->call_, 0, [self](Engine& deciding) { self->Decide(deciding); });
        });
  }

  void Decide(Engine& engine) {
    if (parsed_.ok()) {
      const bool validate_only = request_.validate_only();
      const CountsElsewhere counted(engine, ns_, elsewhere_);
      auto defined = engine.Define(ns_, &sources_, &compiled_, validate_only);
      if (!defined && ++overtaken_ <= kOvertakenMax) return CompileUnder(engine);
      defined_ = defined ? *std::move(defined)
                         : DefineAtOnce(engine, ns_, std::move(sources_), validate_only,
                                        &compiled_.problems);
    }
    engine.AfterHeard([self = shared_from_this()] { self->Answer(); });
  }

  bool Previews() const { return request_.validate_only() && request_.preview(); }

  // The machines, plans and actions of the source that have no errors, as GetMachine would show
  // them, but for their sources and counts.
  void ShowSound() {
    reply_->clear_machines();
    for (size_t i = 0; i < sources_.machines.size(); ++i) {
      const bool wrong = std::ranges::any_of(compiled_.problems, [i](const DefineProblem& one) {
        return one.definition == i && !one.problem.warning;
      });
      if (wrong) continue;
      const auto definition = std::make_shared<const MachineVersion>(
          MachineVersion{.ns = ns_, .machine = sources_.machines[i]});
      MachineView view{.definition = definition};
      view.machine = compiled_.shown[i]
                         ? compiled_.shown[i]
                         : std::shared_ptr<const Machine>(definition, &definition->machine);
      view.nodes.resize(view.machine->nodes.size());
      v1::Machine* to = reply_->add_machines();
      ToProto(view, to);
      to->clear_source();
      to->clear_stats();
      to->clear_define_time();
      for (v1::Node& node : *to->mutable_nodes()) node.clear_stats();
    }
  }

  // Whatever is wrong is in the reply.
  void AnswerPreview() {
    if (parsed_.ok() && compiled_.Sound() && defined_) {
      for (const Defined& one : *defined_) ToProto(one, reply_->add_defined());
    }
    for (const Diagnostic& one :
         AllOf(parsed_.diagnostics, compiled_.problems, *parsed_.tree, name_)) {
      ToProto(one, reply_->add_diagnostics());
    }
    // What reading and compiling refuse has been told with its place.
    if (!defined_ && parsed_.ok() && compiled_.Sound()) {
      v1::Diagnostic* refused = reply_->add_diagnostics();
      refused->set_severity(v1::Diagnostic::ERROR);
      refused->set_source_name(name_);
      refused->set_message(defined_.error().message);
    }
    call_.Succeed();
  }

  void Answer() {
    if (Previews()) {
      return call_.backend().pool.Post([self = shared_from_this()] { self->AnswerPreview(); });
    }
    if (!parsed_.ok() || !compiled_.Sound()) {
      // Their places are looked for in the source, and other answers wait for this thread.
      return call_.backend().pool.Post([self = shared_from_this()] { self->AnswerProblems(); });
    }
    if (!defined_) return call_.Fail(defined_.error());
    for (const Defined& one : *defined_) ToProto(one, reply_->add_defined());
    const auto warnings = AllOf(parsed_.diagnostics, compiled_.problems, *parsed_.tree, name_);
    for (const Diagnostic& one : warnings) ToProto(one, reply_->add_diagnostics());
    call_.Succeed();
  }

  void AnswerProblems() {
    const auto wrong = AllOf(parsed_.ok() ? std::vector<Diagnostic>() : parsed_.diagnostics,
                             compiled_.problems, *parsed_.tree, name_);
    RefuseSource(call_, wrong);
  }

  Call& call_;
  const v1::DefineRequest& request_;
  v1::DefineResponse* const reply_;
  const std::string ns_;
  const std::string name_;  // of the source
  Parsed parsed_;           // except for what it defines
  Sources sources_;         // what it defines
  Compiled compiled_;
  LiveCounts elsewhere_;
  int overtaken_ = 0;  // how often something else was defined while this was compiled
  Result<std::vector<Defined>> defined_ = std::vector<Defined>();
};

}  // namespace

void ServeDefine(Call& call, const v1::DefineRequest& request, v1::DefineResponse* reply) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return call.Refuse(ns.error());
  if (request.source().size() > limits::kSource) {
    return call.Refuse({Code::kInvalidArgument, Reason::kTooLarge,
                        "the source is " + std::to_string(request.source().size()) +
                            " bytes long; the limit is " + std::to_string(limits::kSource)});
  }
  if (!call.Enter()) return;
  if (call.backend().pool.Behind(limits::kMailboxWait)) return call.Fail(Overloaded());
  auto define = std::make_shared<DefineCall>(call, request, reply, *std::move(ns));
  call.backend().pool.Post([define] { define->Parse(); });
}

Result<ListMachinesCommand> ParseListMachines(const v1::ListMachinesRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  auto limit = ToPageSize(request.page_size());
  if (!limit) return limit.error();
  const std::string filters = FiltersOf(request);
  auto last = ParsePageToken(filters, request.page_token());
  if (!last) return last.error();
  ListMachinesCommand command{*ns, request.all_versions(), *limit, filters, {}};
  if (!last->empty()) {
    const size_t end = last->find('\n');
    const auto version = std::strtoul(last->c_str() + end + 1, nullptr, 10);
    command.after = {last->substr(0, end), static_cast<uint32_t>(version)};
  }
  return command;
}

Result<std::vector<MachineView>> RunListMachines(Engine& engine, const Caller&,
                                                 ListMachinesCommand& command) {
  return engine.ListMachines(command.ns, command.all_versions, command.after, command.limit + 1);
}

void ReplyListMachines(const std::vector<MachineView>& views, const ListMachinesCommand& command,
                       v1::ListMachinesResponse* reply) {
  size_t bytes = 0;
  for (const MachineView& view : views) {
    v1::Machine machine;
    ToProto(view, &machine);
    if (machine.ByteSizeLong() > kReplyBytes) machine.clear_nodes();  // GetMachine shows them
    bytes += machine.ByteSizeLong();
    const bool full =
        reply->machines_size() == static_cast<int>(command.limit) || bytes > kReplyBytes;
    if (full && reply->machines_size() > 0) {
      reply->set_next_page_token(PageToken(command.filters, PlaceOf(*reply->machines().rbegin())));
      break;
    }
    *reply->add_machines() = std::move(machine);
  }
}

Result<GetMachineCommand> ParseGetMachine(const v1::GetMachineRequest& request, const Call&) {
  auto ns = ToNamespace(request.namespace_());
  if (!ns) return ns.error();
  return GetMachineCommand{*std::move(ns), request.id(), request.version()};
}

Result<MachineView> RunGetMachine(Engine& engine, const Caller&, GetMachineCommand& command) {
  return engine.GetMachine(command.ns, command.id, command.version);
}

void ReplyGetMachine(const MachineView& view, const GetMachineCommand&, v1::Machine* reply) {
  ToProto(view, reply);
}

}  // namespace dfsmr
