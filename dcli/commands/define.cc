#include <algorithm>
#include <deque>
#include <set>

#include "dcli/commands/commands.h"
#include "dcli/commands/sources.h"
#include "dcli/text/text.h"
#include "fsm/base/limits.h"
#include "fsm/plan/graph.h"
#include "fsm/when/schedule.h"
#include "fsm/yaml/definitions.h"

namespace dfsmr::cli {
namespace {

Timestamp Now() {
  return std::chrono::floor<Duration>(std::chrono::system_clock::now());
}

std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string LineOf(const Diagnostic& diagnostic) { return Escaped(Format(diagnostic)) + '\n'; }

// The errors of several files, printed together below the sentence that counts the files.
struct Refusals {
  size_t files = 0;
  std::string lines;
};

Diagnostic FromWire(const v1::Diagnostic& wire) {
  return {.error = wire.severity() == v1::Diagnostic::ERROR,
          .source_name = wire.source_name(),
          .line = wire.line(),
          .column = wire.column(),
          .path = wire.path(),
          .message = wire.message()};
}

v1::Diagnostic ToWire(const Diagnostic& diagnostic) {
  v1::Diagnostic wire;
  wire.set_severity(diagnostic.error ? v1::Diagnostic::ERROR : v1::Diagnostic::WARNING);
  wire.set_source_name(diagnostic.source_name);
  wire.set_line(diagnostic.line);
  wire.set_column(diagnostic.column);
  wire.set_path(diagnostic.path);
  wire.set_message(diagnostic.message);
  return wire;
}

std::string EffectText(const v1::Defined& defined) {
  if (!defined.changed() || defined.version() < 2) return "";
  if (defined.upgrade_strategy().empty()) return "";
  if (defined.upgrade_strategy() == "continue") return "  (continue: old instances go on)";
  return "  (" + Escaped(defined.upgrade_strategy()) + ": " +
         Plural(defined.affected_instances(), "instance") + ")";
}

// "new" for the first version of an id, else whether this is another version than the one before.
std::string_view ChangeText(const v1::Defined& defined) {
  if (!defined.changed()) return "unchanged";
  return defined.version() == 1 ? "new" : "changed";
}

// "plan site  v2  changed".
void PrintDefined(Context& context, const v1::Defined& defined) {
  if (context.names()) {
    context.out << Escaped(defined.id()) << '\n';
    return;
  }
  context.out << Escaped(defined.kind()) << ' ' << Escaped(defined.id()) << "  v" << defined.version() << "  "
              << Painted(ChangeText(defined), context.look) << EffectText(defined) << '\n';
}

void PrintWarnings(Context& context, const v1::DefineResponse& reply) {
  context.out.flush();
  for (const auto& wire : reply.diagnostics()) context.err << LineOf(FromWire(wire));
}

v1::DefineRequest RequestOf(const Context& context, const Source& source, bool validate_only) {
  v1::DefineRequest request;
  request.set_namespace_(context.name_space);
  request.set_source(source.text);
  request.set_source_name(source.name);
  request.set_validate_only(validate_only);
  return request;
}

// What Define would answer, as far as it can be known without a server.
v1::DefineResponse ReplyOf(const Parsed& parsed) {
  v1::DefineResponse reply;
  if (parsed.ok()) {
    for (const Machine& definition : parsed.definitions) {
      v1::Defined* defined = reply.add_defined();
      defined->set_kind(std::string(KindName(definition.defined_as)));
      defined->set_id(definition.id);
      defined->set_upgrade_strategy(std::string(Name(definition.upgrade_strategy)));
    }
    for (const Document& document : parsed.documents) {
      v1::Defined* defined = reply.add_defined();
      defined->set_kind(std::string(Name(document.kind())));
      defined->set_id(document.name);
    }
  }
  for (const Diagnostic& diagnostic : parsed.diagnostics) {
    *reply.add_diagnostics() = ToWire(diagnostic);
  }
  return reply;
}

// "3 nodes" for a machine, where `compiled` is null, "4 steps" for a plan, "" for an action.
std::string SizeText(const Machine& machine, const Machine* compiled) {
  if (machine.IsPlain()) return Plural(machine.nodes.size(), "node") + "  ";
  if (machine.action() != nullptr || compiled == nullptr || !compiled->graph) return "";
  return Plural(compiled->graph->steps.size(), "step") + "  ";
}

void PrintChecked(Context& context, const Source& source, const Machine& machine,
                  const Machine* compiled) {
  if (context.names()) {
    context.out << Escaped(machine.id) << '\n';
    return;
  }
  if (!machine.IsPlain()) context.out << KindName(machine.defined_as) << ' ';
  context.out << Escaped(machine.id) << "  " << Painted("ok", context.look) << "  "
              << SizeText(machine, compiled) << Escaped(source.name) << '\n';
}

constexpr int kTimesShown = 3;

// One of a schedule's next times, below its line.
void PrintTime(Context& context, const v1::PlannedTime& time) {
  context.out << "  " << TimeText(FromProto(time.time())) << "  " << time.local();
  if (!time.note().empty()) context.out << "  " << Escaped(time.note());
  context.out << '\n';
}

void PrintChecked(Context& context, const Source& source, const Document& document) {
  if (context.names()) {
    context.out << Escaped(document.name) << '\n';
    return;
  }
  context.out << Name(document.kind()) << ' ' << Escaped(document.name) << "  "
              << Painted("ok", context.look) << "  " << Escaped(source.name) << '\n';
  if (document.kind() != DocumentKind::kSchedule) return;
  const ScheduleSource& schedule = *std::get<0>(document.body);
  const ScheduleTimes times(*schedule.calendar, context.name_space, document.name,
                            schedule.calendar->LastOfCount(Now()));
  for (const PlannedTime& one : times.Plan(Now(), kTimesShown)) {
    v1::PlannedTime shown;
    *shown.mutable_time() = ToProto(one.time);
    shown.set_local(one.local);
    shown.set_note(one.note);
    PrintTime(context, shown);
  }
}

// The next times of a schedule that was defined.
void PrintNext(Context& context, const v1::Defined& defined) {
  if (defined.kind() != Name(DocumentKind::kSchedule) || context.names()) return;
  v1::PreviewScheduleRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(defined.id());
  request.set_count(kTimesShown);
  const auto preview = context.client->schedules().PreviewSchedule(request);
  if (!preview) return;  // it is defined all the same
  for (const v1::PlannedTime& one : preview->times()) PrintTime(context, one);
}

// The reply to one source: one line for each definition, or the reply as it is where a program
// reads. `only` says that it is the only source, `times` that schedules show their next ones.
void PrintReply(Context& context, const v1::DefineResponse& reply, bool only, bool times) {
  if (only ? context.Print(reply) : context.PrintOne(reply)) return;
  for (const v1::Defined& defined : reply.defined()) {
    PrintDefined(context, defined);
    if (times) PrintNext(context, defined);
  }
}

// The server's message: one diagnostic a line.
void Add(const Error& error, Refusals* refusals) {
  ++refusals->files;
  for (const std::string& line : Split(error.message, '\n')) {
    if (!line.empty()) refusals->lines += Escaped(line) + '\n';
  }
}

int Summary(Context& context, const Refusals& refusals, size_t all, const char* what) {
  if (refusals.files == 0) return kSucceeded;
  const std::string count = Plural(refusals.files, "file") + " of " + std::to_string(all);
  return context.Fail(kRefused, count + " " + what, "each line says where, and what would be right",
                      refusals.lines);
}

void TellLeftOut(Context& context, const std::vector<std::string>& left_out) {
  for (const std::string& one : left_out) context.Note("left out " + one);
}

// Machines, plans and actions share one set of names, each other kind has its own.
std::string NameOfDefined(std::string_view kind, const std::string& id) {
  const bool definition = kind == "machine" || kind == "plan" || kind == "action";
  return (definition ? "" : std::string(kind)) + " " + id;
}

// What a source would define, by those names.
std::set<std::string> NamesOf(const Source& source) {
  std::set<std::string> names;
  const std::vector<Source> alone = {source};
  const std::vector<Compiled> compiled = CompileSources(alone, Now());
  for (const Machine& machine : compiled[0].definitions) {
    names.insert(NameOfDefined(KindName(machine.defined_as), machine.id));
  }
  for (const Document& document : compiled[0].documents) {
    names.insert(NameOfDefined(Name(document.kind()), document.name));
  }
  return names;
}

bool Overlap(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&b](const std::string& name) { return b.contains(name); });
}

// The part of a reply that is about `source`, which was sent with others behind it.
v1::DefineResponse PartOf(const v1::DefineResponse& reply, const Source& source,
                          const std::set<std::string>& names) {
  const auto lines = std::ranges::count(source.text, '\n') + 1;
  v1::DefineResponse part;
  for (const v1::Defined& defined : reply.defined()) {
    if (names.contains(NameOfDefined(defined.kind(), defined.id()))) *part.add_defined() = defined;
  }
  for (const v1::Diagnostic& diagnostic : reply.diagnostics()) {
    if (diagnostic.line() <= lines) *part.add_diagnostics() = diagnostic;
  }
  return part;
}

// A text that may follow another document.
std::string Following(const std::string& text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const size_t begin = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  return "\n---\n" + text.substr(begin);
}

// Defines the sources of one call, in any order: a file may extend or plan what a later file
// defines. So a refused file goes to the end of the line, and is tried again for as long as another
// file has been accepted since. A dry run, in which nothing is defined, sends those that were
// accepted along.
class Definer {
 public:
  Definer(Context& context, const std::vector<Source>& sources, bool dry_run)
      : context_(context), only_(sources.size() == 1), dry_run_(dry_run), all_(sources.size()) {
    const std::vector<std::vector<Diagnostic>> twice = DefinedTwice(sources);
    for (size_t i = 0; i < sources.size(); ++i) {
      const Source& source = sources[i];
      std::vector<Diagnostic> wrong = Unsendable(source);
      if (wrong.empty()) wrong = twice[i];
      if (wrong.empty()) open_.push_back(&source);
      if (!wrong.empty()) ++unsendable_.files;
      for (const Diagnostic& diagnostic : wrong) unsendable_.lines += LineOf(diagnostic);
    }
    refusals_ = unsendable_;
  }

  int Run() {
    size_t refused = 0;  // files at the end of the line, refused since the last one was accepted
    while (open_.size() > refused) {
      const Source& source = *open_.front();
      open_.pop_front();
      const auto reply = Send(source);
      if (reply) {
        refused = 0;
        refusals_ = unsendable_;
        Accept(source, *reply);
      } else if (reply.error().code == Code::kInvalidArgument) {
        Add(reply.error(), &refusals_);
        open_.push_back(&source);
        ++refused;
      } else {
        return Stop(reply.error());
      }
    }
    for (const Source* source : warned_) {
      auto reply = Beside(*source);
      if (!reply) reply = context_.client->Define(RequestOf(context_, *source, true));
      if (!reply) return Stop(reply.error());
      PrintWarnings(context_, *reply);
    }
    if (dry_run_) context_.Note("a dry run: nothing was defined");
    return Summary(context_, refusals_, all_, "refused");
  }

 private:
  struct Accepted {
    const Source* source;
    std::set<std::string> names;
  };

  Result<v1::DefineResponse> Send(const Source& source) {
    auto alone = context_.client->Define(RequestOf(context_, source, dry_run_));
    const bool refused = !alone && alone.error().code == Code::kInvalidArgument;
    if (!refused || accepted_.empty()) return alone;
    auto beside = Beside(source);
    return beside ? beside : alone;
  }

  // What would be said of a source with all others defined.
  Result<v1::DefineResponse> Beside(const Source& source) {
    const std::set<std::string> names = NamesOf(source);
    Source joined = source;
    for (const Accepted& other : accepted_) {
      const bool own = other.source == &source || Overlap(other.names, names);
      if (!own) joined.text += Following(other.source->text);
    }
    const bool fits = joined.text.size() <= limits::kSource;
    const auto reply =
        context_.client->Define(RequestOf(context_, fits ? joined : source, true));
    if (!reply) return reply.error();
    return PartOf(*reply, source, names);
  }

  void Accept(const Source& source, const v1::DefineResponse& reply) {
    if (dry_run_ && !only_) {
      Accepted accepted{&source, NamesOf(source)};
      std::erase_if(accepted_, [&accepted](const Accepted& other) {
        return Overlap(other.names, accepted.names);
      });
      accepted_.push_back(std::move(accepted));
    }
    // A warning may be gone once a later file is defined: warnings are asked for again at the end.
    if (only_) PrintWarnings(context_, reply);
    if (!only_ && reply.diagnostics_size() > 0) warned_.push_back(&source);
    PrintReply(context_, reply, only_, !dry_run_);
  }

  int Stop(const Error& error) {
    context_.out.flush();
    context_.err << refusals_.lines;
    return context_.Fail(error);
  }

  Context& context_;
  const bool only_;
  const bool dry_run_;
  const size_t all_;
  std::deque<const Source*> open_;
  std::vector<const Source*> warned_;
  std::vector<Accepted> accepted_;  // of a dry run
  Refusals unsendable_;
  Refusals refusals_;  // with those
};

}  // namespace

int Define(Context& context, const DefineOptions& options) {
  std::vector<std::string> left_out;
  const auto sources = ReadSources(options.sources, &left_out);
  if (!sources) return context.FailUsage(sources.error());
  TellLeftOut(context, left_out);
  return Definer(context, *sources, options.dry_run).Run();
}

int CheckSources(Context& context, const DefineOptions& options) {
  std::vector<std::string> left_out;
  const auto sources = ReadSources(options.sources, &left_out);
  if (!sources) return context.FailUsage(sources.error());
  TellLeftOut(context, left_out);
  Refusals refusals;
  const std::vector<Compiled> compiled = CompileSources(*sources, Now());
  for (size_t i = 0; i < sources->size(); ++i) {
    const Source& source = (*sources)[i];
    const Compiled* parsed = &compiled[i];
    if (!parsed->ok()) ++refusals.files;
    context.out.flush();
    for (const Diagnostic& diagnostic : parsed->diagnostics) {
      if (parsed->ok()) context.err << LineOf(diagnostic);
      if (!parsed->ok()) refusals.lines += LineOf(diagnostic);
    }
    const v1::DefineResponse reply = ReplyOf(*parsed);
    if (sources->size() == 1 ? context.Print(reply) : context.PrintOne(reply)) continue;
    if (!parsed->ok()) continue;
    for (size_t d = 0; d < parsed->definitions.size(); ++d) {
      PrintChecked(context, source, parsed->definitions[d], parsed->compiled[d].get());
    }
    for (const Document& document : parsed->documents) PrintChecked(context, source, document);
  }
  return Summary(context, refusals, sources->size(),
                 refusals.files == 1 ? "has errors" : "have errors");
}

}  // namespace dfsmr::cli
