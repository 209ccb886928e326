#include "dcli/commands/bulks.h"

#include <unistd.h>

#include <iostream>
#include <map>

#include "dcli/call/pages.h"
#include "dcli/call/views.h"
#include "dcli/system/signals.h"
#include "dcli/text/text.h"

namespace dfsmr::cli {
namespace bulks {

constexpr auto kLook = std::chrono::milliseconds(300);

std::string ActionText(const v1::StartBulkRequest& request) {
  std::string text = v1::StartBulkRequest::Action_Name(request.action());
  for (char& c : text) c = static_cast<char>(c - 'A' + 'a');
  if (!request.transition().empty()) text += " " + request.transition();
  if (!request.node().empty()) text += " at " + request.node();
  return text;
}

// "12 refused: 9 INSTANCE_STOPPED, 3 NOT_HELD".
std::string RefusedText(const v1::Bulk& bulk) {
  std::string text = std::to_string(bulk.refused()) + " refused";
  const std::map<std::string, uint64_t> reasons(bulk.reasons().begin(), bulk.reasons().end());
  std::string list;
  for (const auto& [reason, count] : reasons) {
    list += (list.empty() ? ": " : ", ") + std::to_string(count) + " " + reason;
  }
  return text + list;
}

void PrintCounts(Context& context, const v1::Bulk& bulk) {
  const bool preview = bulk.state() == v1::Bulk::PREVIEW;
  context.out << ActionText(bulk.request()) << ": " << bulk.changed()
              << (preview ? " would be changed" : " changed")
              << (bulk.at_least() ? " at least" : "") << ", " << bulk.unchanged()
              << (preview ? " are" : " were") << " so already, " << RefusedText(bulk) << '\n';
  for (const std::string& id : bulk.sample()) context.out << "  " << Escaped(id) << '\n';
}

int PrintWhole(Context& context, const v1::Bulk& bulk) {
  if (context.Print(bulk)) return kSucceeded;
  if (context.names()) {
    context.out << bulk.request().id() << '\n';
    return kSucceeded;
  }
  Description lines;
  lines.Add("Bulk", bulk.request().id());
  lines.Add("State", v1::Bulk::State_Name(bulk.state()));
  lines.Add("Does", ActionText(bulk.request()));
  lines.Add("Filter", bulk.request().filter());
  if (bulk.request().instances_size() > 0) {
    lines.Add("Instances", std::to_string(bulk.request().instances_size()));
  }
  lines.Add("Reason", bulk.request().reason());
  lines.Add("By", bulk.created_by());
  lines.Add("Started", When(bulk.start_time(), context.look));
  lines.Add("Ended", When(bulk.end_time(), context.look));
  lines.Add("Looked at", std::to_string(bulk.looked_at()));
  lines.Print(context.out, context.look);
  PrintCounts(context, bulk);
  return kSucceeded;
}

// False: it is not to be done; `status` says how dcli ends.
bool Confirmed(Context& context, const v1::Bulk& preview, const BulkOptions& options, int* status) {
  if (options.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    *status = context.Fail(
        kBadUsage, context.command + " --filter asks first on a terminal; elsewhere say --yes");
    return false;
  }
  context.err << "Go on with " << preview.changed() << "? [y/N] " << std::flush;
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == "y" || typed == "yes") return true;
  *status = context.Fail(kRefused, "nothing is changed");
  return false;
}

// Follows it to its end; Ctrl-C leaves it running.
int Follow(Context& context, v1::Bulk bulk) {
  v1::GetBulkRequest request;
  request.set_namespace_(context.name_space);
  request.set_id(bulk.request().id());
  Canceller canceller;
  const Interrupts interrupts([&canceller](int) { canceller.Cancel(); });
  while (bulk.state() == v1::Bulk::RUNNING) {
    context.Status("bulk " + bulk.request().id() + ": " + std::to_string(bulk.changed()) +
                   " changed, " + std::to_string(bulk.refused()) + " refused");
    if (canceller.SleepFor(kLook)) {
      context.Status("");
      context.Note("bulk " + bulk.request().id() + " goes on; dcli bulk stop ends it");
      return kInterrupted;
    }
    auto now = context.client->views().GetBulk(request);
    if (!now) return context.Fail(now.error());
    bulk = *std::move(now);
  }
  context.Status("");
  const int status = bulk.refused() > 0 ? kRefused : kSucceeded;
  if (context.Print(bulk)) return status;
  if (context.names()) {
    context.out << bulk.request().id() << '\n';
  } else {
    PrintCounts(context, bulk);
  }
  return status;
}

int Do(Context& context, v1::StartBulkRequest request, const BulkOptions& options) {
  request.set_namespace_(context.name_space);
  request.set_filter(options.filter);
  request.set_at_most(options.at_most);
  request.set_reason(options.reason);
  if (options.dry_run || !options.yes) {
    request.set_validate_only(true);
    const auto preview = context.client->views().StartBulk(request);
    if (!preview) return context.Fail(preview.error());
    if (options.dry_run && context.Print(*preview)) return kSucceeded;
    if (options.dry_run || isatty(STDIN_FILENO) == 1) PrintCounts(context, *preview);
    if (options.dry_run) return kSucceeded;
    context.out.flush();
    int status = kSucceeded;
    if (!Confirmed(context, *preview, options, &status)) return status;
    request.set_validate_only(false);
  }
  const auto bulk = context.client->views().StartBulk(request);
  if (!bulk) return context.Fail(bulk.error());
  return options.no_wait ? PrintWhole(context, *bulk) : Follow(context, *bulk);
}

}  // namespace bulks

namespace {

// What only makes sense with --filter, or only without it.
std::optional<int> OneInstance(Context& context, const std::string& instance,
                               const BulkOptions& options) {
  if (instance.empty()) {
    return context.Fail(kBadUsage, context.command + ": name an instance, or say --filter");
  }
  if (options.yes || options.dry_run || options.at_most > 0) {
    return context.Fail(kBadUsage,
                        context.command + ": --yes, --dry-run and --at-most go with --filter");
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> InBulk(Context& context, v1::StartBulkRequest::Action action,
                          const ControlOptions& options) {
  if (options.bulk.filter.empty()) return OneInstance(context, options.instance, options.bulk);
  if (!options.instance.empty()) {
    return context.Fail(kBadUsage, context.command + ": an instance and --filter are two choices");
  }
  v1::StartBulkRequest request;
  request.set_action(action);
  request.set_node(options.step.empty() ? options.node : options.step);
  if (action == v1::StartBulkRequest::CANCEL) {
    request.set_mode(options.kill    ? v1::CancelRequest::KILL
                     : options.force ? v1::CancelRequest::FORCE
                                     : v1::CancelRequest::CANCEL);
  } else {
    request.set_force(options.force);
  }
  return bulks::Do(context, std::move(request), options.bulk);
}

std::optional<int> InBulk(Context& context, const TransitionOptions& options) {
  if (options.bulk.filter.empty()) {
    if (options.transition.empty()) {
      return context.Fail(kBadUsage,
                          "transition: name an instance and a transition, or say --filter");
    }
    return OneInstance(context, options.instance, options.bulk);
  }
  // With --filter no instance stands in front of the transition.
  std::vector<std::string> pairs = options.pairs;
  if (!options.transition.empty()) pairs.insert(pairs.begin(), options.transition);
  const auto params = ParseParams(options.params, pairs);
  if (!params) return context.FailUsage(params.error());
  v1::StartBulkRequest request;
  request.set_action(v1::StartBulkRequest::TRANSITION);
  request.set_transition(options.instance);
  request.set_node(options.node);
  request.set_node_params(*params);
  return bulks::Do(context, std::move(request), options.bulk);
}

int Bulks(Context& context, const BulksOptions& options) {
  if (options.action == "stop" && options.id.empty()) {
    return context.Fail(kBadUsage, "bulk stop: which one? ID is required");
  }
  if (options.action == "stop") {
    v1::StopBulkRequest request;
    request.set_namespace_(context.name_space);
    request.set_id(options.id);
    const auto bulk = context.client->views().StopBulk(request);
    return bulk ? bulks::PrintWhole(context, *bulk) : context.Fail(bulk.error());
  }
  if (!options.id.empty()) {
    return context.Fail(kBadUsage, "bulk takes an id, or stop and an id");
  }
  if (!options.action.empty()) {
    v1::GetBulkRequest request;
    request.set_namespace_(context.name_space);
    request.set_id(options.action);
    const auto bulk = context.client->views().GetBulk(request);
    return bulk ? bulks::PrintWhole(context, *bulk) : context.Fail(bulk.error());
  }
  v1::ListBulksRequest request;
  request.set_namespace_(context.name_space);
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->views().ListBulks(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  Table table({"BULK", "STATE", "DOES", "CHANGED", "UNCHANGED", "REFUSED", "STARTED", "FILTER"});
  for (const v1::Bulk& bulk : all->bulks()) {
    if (context.names()) {
      context.out << bulk.request().id() << '\n';
      continue;
    }
    table.Add({bulk.request().id(), v1::Bulk::State_Name(bulk.state()),
               bulks::ActionText(bulk.request()), std::to_string(bulk.changed()),
               std::to_string(bulk.unchanged()), std::to_string(bulk.refused()),
               When(bulk.start_time(), context.look), bulk.request().filter()});
  }
  if (!table.empty()) {
    table.Print(context.out, context.look);
  } else if (!context.names()) {
    context.Note("no bulks");
  }
  return kSucceeded;
}

}  // namespace dfsmr::cli
