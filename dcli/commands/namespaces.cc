#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "dcli/call/pages.h"
#include "dcli/commands/commands.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"
#include "fsm/base/duration.h"

namespace dfsmr::cli {
namespace namespace_command {

constexpr double kNear = 0.8;  // of a quota, from where on it is marked
constexpr auto kLook = std::chrono::milliseconds(200);

std::string StateText(const v1::Namespace& space) {
  return v1::Namespace::State_Name(space.state());
}

std::string RateText(double rate) {
  std::string text = std::to_string(std::round(rate * 100) / 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

struct QuotaLine {
  std::string name;
  std::string use;
  std::string limit;
  bool near;
};

QuotaLine LineOf(const std::string& name, double use, double limit, bool number) {
  const auto text = [number](double n) {
    return number ? RateText(n) : std::to_string(static_cast<uint64_t>(n));
  };
  return {name, text(use), limit > 0 ? text(limit) : "none", limit > 0 && use >= kNear * limit};
}

std::vector<QuotaLine> LinesOf(const v1::Namespace& space) {
  const v1::NamespaceUsage& use = space.usage();
  const v1::Quotas& quotas = space.effective();
  const auto whole = [](const char* name, uint64_t used, uint64_t limit) {
    return LineOf(name, static_cast<double>(used), static_cast<double>(limit), false);
  };
  std::vector<QuotaLine> lines = {
      whole("live-instances", use.live_instances(), quotas.live_instances()),
      whole("ready-tasks", use.ready_tasks(), quotas.ready_tasks()),
      LineOf("starts-per-second", use.starts_per_second(), quotas.starts_per_second(), true),
      whole("definitions", use.definitions(), quotas.definitions()),
      whole("package-bytes", use.package_bytes(), quotas.package_bytes())};
  const Duration retention = FromProto(quotas.retention());
  lines.push_back({"retention", "",
                   retention > Duration() ? FormatDuration(retention) : std::string("none"),
                   false});
  return lines;
}

Table TableOf(const Context& context) {
  std::vector<std::string> header = {"NAMESPACE", "STATE",       "LIVE",    "READY",
                                     "CLAIMED",   "DEFINITIONS", "STOPPED", "DESCRIPTION"};
  if (context.wide()) header.insert(header.end(), {"SECRETS", "PACKAGE BYTES", "CREATED", "BY"});
  return Table(header);
}

void AddTo(Table* table, const Context& context, const v1::Namespace& space) {
  const v1::NamespaceUsage& use = space.usage();
  const auto near = std::ranges::any_of(LinesOf(space), &QuotaLine::near);
  std::vector<std::string> row = {
      space.name() + (near ? " !" : ""),       StateText(space),
      std::to_string(use.live_instances()),    std::to_string(use.ready_tasks()),
      std::to_string(use.claimed_tasks()),     std::to_string(use.definitions()),
      std::to_string(use.stopped_instances()), space.settings().description()};
  if (context.wide()) {
    row.push_back(std::to_string(use.secrets()));
    row.push_back(std::to_string(use.package_bytes()));
    row.push_back(space.has_create_time() ? When(space.create_time(), context.look) : "");
    row.push_back(space.created_by());
  }
  table->Add(std::move(row));
}

void PrintFacts(Context& context, const v1::Namespace& space) {
  const v1::NamespaceSettings& settings = space.settings();
  context.out << space.name() << "  " << StateText(space);
  if (space.has_drain_until()) {
    context.out << " until " << When(space.drain_until(), context.look);
  }
  context.out << '\n';
  if (!settings.description().empty()) context.out << Escaped(settings.description()) << '\n';
  std::map<std::string, std::string> labels(settings.labels().begin(), settings.labels().end());
  for (const auto& [key, value] : labels) {
    context.out << "label " << key << '=' << Escaped(value) << '\n';
  }
  if (settings.require_signatures()) context.out << "require-signatures\n";
  if (space.has_create_time()) {
    context.out << "created " << When(space.create_time(), context.look)
                << (space.created_by().empty() ? "" : " by " + space.created_by()) << '\n';
  }
}

int PrintOne(Context& context, const v1::Namespace& space) {
  if (context.Print(space)) return kSucceeded;
  if (context.names()) {
    context.out << space.name() << '\n';
    return kSucceeded;
  }
  PrintFacts(context, space);
  if (space.state() == v1::Namespace::DELETED) return kSucceeded;
  context.out << '\n';
  Table table({"QUOTA", "USE", "LIMIT", ""});
  for (const QuotaLine& line : LinesOf(space)) {
    table.Add({line.name, line.use, line.limit, line.near ? "!" : ""});
  }
  const v1::NamespaceUsage& use = space.usage();
  table.Add({"claimed tasks", std::to_string(use.claimed_tasks()), "", ""});
  table.Add({"stopped instances", std::to_string(use.stopped_instances()), "", ""});
  table.Add({"secrets", std::to_string(use.secrets()), "", ""});
  table.Print(context.out, context.look);
  return kSucceeded;
}

int Answer(Context& context, const Result<v1::Namespace>& space) {
  return space ? PrintOne(context, *space) : context.Fail(space.error());
}

int List(Context& context) {
  const auto all = AllPages(v1::ListNamespacesRequest(), [&context](const auto& one) {
    return context.client->namespaces().ListNamespaces(one);
  });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Namespace& one : all->namespaces()) context.out << one.name() << '\n';
    return kSucceeded;
  }
  Table table = TableOf(context);
  for (const v1::Namespace& one : all->namespaces()) AddTo(&table, context, one);
  table.Print(context.out, context.look);
  return kSucceeded;
}

Result<v1::Namespace> Get(Context& context, const std::string& name) {
  v1::GetNamespaceRequest request;
  request.set_name(name);
  return context.client->namespaces().GetNamespace(request);
}

// Of several partitions one answers a change; what is used all of them tell.
int AnswerChanged(Context& context, const Result<v1::Namespace>& space) {
  if (!space || space->state() == v1::Namespace::DELETED) return Answer(context, space);
  const auto whole = Get(context, space->name());
  return Answer(context, whole ? whole : space);
}

// Settings of a command line --------------------------------------------------------------------

Result<Ok> SetLabels(const std::string& text, v1::NamespaceSettings* settings) {
  if (text.empty()) return Ok{};
  return ParseLabels(Split(text, ','), settings->mutable_labels());
}

Result<uint64_t> WholeNumber(const std::string& key, const std::string& text) {
  const bool digits = !text.empty() && text.size() <= 18 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return std::stoull(text);
  return BadUsage(key + " takes a number from 0, which is no limit; and not \"" + text + "\"");
}

Result<Ok> SetQuota(const std::string& key, const std::string& value, v1::Quotas* quotas,
                    std::string* field) {
  field->clear();
  *field = "quotas." + key;
  std::ranges::replace(*field, '-', '_');
  if (value.empty()) return Ok{};  // absent: the default
  if (key == "retention") {
    const auto retention = ParseDuration(value);
    if (!retention) return BadUsage("retention: " + retention.error().message);
    *quotas->mutable_retention() = ToProto(*retention);
    return Ok{};
  }
  if (key == "starts-per-second") {
    char* end = nullptr;
    const double rate = std::strtod(value.c_str(), &end);
    if (*end != '\0' || !std::isfinite(rate) || rate < 0) {
      return BadUsage(key + " takes a number from 0, which is no limit; and not \"" + value + "\"");
    }
    quotas->set_starts_per_second(rate);
    return Ok{};
  }
  const auto number = WholeNumber(key, value);
  if (!number) return number.error();
  if (key == "live-instances") quotas->set_live_instances(*number);
  if (key == "ready-tasks") quotas->set_ready_tasks(*number);
  if (key == "definitions") quotas->set_definitions(*number);
  if (key == "package-bytes") quotas->set_package_bytes(*number);
  return Ok{};
}

Result<bool> ParseSwitch(const std::string& key, const std::string& value) {
  if (value == "true" || value == "yes" || value == "on") return true;
  if (value.empty() || value == "false" || value == "no" || value == "off") return false;
  return BadUsage(key + " is true or false, and not \"" + value + "\"");
}

// One KEY=VALUE, and the field that it names.
Result<Ok> SetOne(const std::string& pair, v1::NamespaceSettings* settings, std::string* field) {
  static const std::vector<std::string> kQuotas = {"live-instances",    "ready-tasks",
                                                   "starts-per-second", "definitions",
                                                   "package-bytes",     "retention"};
  const size_t equals = pair.find('=');
  if (equals == std::string::npos) {
    return BadUsage("a setting is KEY=VALUE, such as live-instances=1000; and not \"" + pair +
                    "\"");
  }
  std::string key = pair.substr(0, equals);
  std::ranges::replace(key, '_', '-');
  const std::string value = pair.substr(equals + 1);
  if (std::ranges::find(kQuotas, key) != kQuotas.end()) {
    return SetQuota(key, value, settings->mutable_quotas(), field);
  }
  *field = key;
  std::ranges::replace(*field, '-', '_');
  if (key == "description") {
    settings->set_description(value);
    return Ok{};
  }
  if (key == "labels") return SetLabels(value, settings);
  if (key == "require-signatures") {
    const auto on = ParseSwitch(key, value);
    if (!on) return on.error();
    settings->set_require_signatures(*on);
    return Ok{};
  }
  std::vector<std::string> known = kQuotas;
  known.insert(known.end(), {"description", "labels", "require-signatures"});
  return BadUsage("namespaces have no setting \"" + key + "\"" + DidYouMean(key, known));
}

Result<v1::UpdateNamespaceRequest> SettingsOf(const NamespaceOptions& options) {
  v1::UpdateNamespaceRequest request;
  request.set_name(options.name);
  request.set_force(options.force);
  for (const std::string& pair : options.settings) {
    std::string field;
    const auto set = SetOne(pair, request.mutable_settings(), &field);
    if (!set) return set.error();
    request.mutable_fields()->add_paths(field);
  }
  return request;
}

int Set(Context& context, const NamespaceOptions& options) {
  if (options.settings.empty()) {
    return context.Fail(kBadUsage, "namespace set needs settings, KEY=VALUE");
  }
  const auto request = SettingsOf(options);
  if (!request) return context.FailUsage(request.error());
  return AnswerChanged(context, context.client->namespaces().UpdateNamespace(*request));
}

int Create(Context& context, const NamespaceOptions& options) {
  auto given = SettingsOf(options);
  if (!given) return context.FailUsage(given.error());
  v1::CreateNamespaceRequest request;
  request.set_name(options.name);
  *request.mutable_settings() = std::move(*given->mutable_settings());
  return Answer(context, context.client->namespaces().CreateNamespace(request));
}

// States ------------------------------------------------------------------------------------------

// Asks now and then until `done` is true of the namespace.
template <typename Done>
int WaitUntil(Context& context, const std::string& name, Done done) {
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  for (;;) {
    auto space = Get(context, name);
    if (!space && space.error().reason == Reason::kNoSuchNamespace) {
      space = v1::Namespace();
      space->set_name(name);
      space->set_state(v1::Namespace::DELETED);
    }
    if (!space) return context.Fail(space.error());
    if (done(*space)) return PrintOne(context, *space);
    if (canceller.SleepFor(kLook)) return kInterrupted;
  }
}

int Freeze(Context& context, const NamespaceOptions& options, bool thaw) {
  v1::FreezeNamespaceRequest request;
  request.set_name(options.name);
  request.set_thaw(thaw);
  const auto space = context.client->namespaces().FreezeNamespace(request);
  if (!space || !options.wait) return AnswerChanged(context, space);
  return WaitUntil(context, options.name,
                   [](const v1::Namespace& one) { return one.usage().claimed_tasks() == 0; });
}

// What is deleted is gone: its name is typed again.
bool Confirmed(Context& context, const NamespaceOptions& options, int* status) {
  if (options.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    *status = context.Fail(kBadUsage,
                           "namespace delete asks for the name again on a terminal; "
                           "elsewhere say --yes");
    return false;
  }
  context.err << "This deletes namespace " << options.name
              << " with all its instances, definitions and tokens.\nType its name again: "
              << std::flush;
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == options.name) return true;
  *status = context.Fail(kRefused, "that is not its name; nothing is deleted");
  return false;
}

int Delete(Context& context, const NamespaceOptions& options) {
  v1::DeleteNamespaceRequest request;
  request.set_name(options.name);
  request.set_validate_only(options.dry_run);
  if (!options.drain.empty()) {
    const auto drain = ParseDuration(options.drain);
    if (!drain) return context.FailUsage(drain.error());
    *request.mutable_drain() = ToProto(*drain);
  }
  int status = kSucceeded;
  if (!options.dry_run && !Confirmed(context, options, &status)) return status;
  const auto space = context.client->namespaces().DeleteNamespace(request);
  if (!space || !options.wait) return AnswerChanged(context, space);
  return WaitUntil(context, options.name,
                   [](const v1::Namespace& one) { return one.state() == v1::Namespace::DELETED; });
}

Result<Ok> CheckUsage(const NamespaceOptions& options) {
  const std::string& action = options.action;
  const bool ends = action == "delete";
  const auto only = [&](bool given, const char* flag, bool may) -> Result<Ok> {
    if (!given || may) return Ok{};
    return BadUsage(std::string(flag) + " does not go with namespace " + action);
  };
  for (const auto& checked :
       {only(!options.settings.empty(), "KEY=VALUE", action == "set" || action == "create"),
        only(options.wait, "--wait", action == "freeze" || ends),
        only(!options.drain.empty(), "--drain", ends), only(options.yes, "--yes", ends),
        only(options.dry_run, "--dry-run", ends),
        only(options.force, "--force", action == "set")}) {
    if (!checked) return checked;
  }
  return Ok{};
}

}  // namespace namespace_command

int Namespace(Context& context, const NamespaceOptions& given) {
  using namespace namespace_command;  // NOLINT: its own
  static const std::vector<std::string> kActions = {"list",   "show", "create", "set",
                                                    "freeze", "thaw", "delete"};
  NamespaceOptions options = given;
  if (std::ranges::find(kActions, options.action) == kActions.end()) {
    return context.Fail(kBadUsage, "namespace does not know \"" + options.action + "\"" +
                                       DidYouMean(options.action, kActions));
  }
  if (const auto usable = CheckUsage(options); !usable) return context.FailUsage(usable.error());
  if (options.action == "list") {
    if (options.name.empty()) return List(context);
    return context.Fail(kBadUsage, "namespace list takes no NAME; namespace show does");
  }
  if (options.name.empty()) {
    if (options.action != "show") {
      return context.Fail(kBadUsage, "namespace " + options.action + " needs the NAME");
    }
    options.name = context.name_space;
  }
  if (options.action == "show") return Answer(context, Get(context, options.name));
  if (options.action == "create") return Create(context, options);
  if (options.action == "set") return Set(context, options);
  if (options.action == "delete") return Delete(context, options);
  return Freeze(context, options, options.action == "thaw");
}

}  // namespace dfsmr::cli
