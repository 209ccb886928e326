#include <algorithm>

#include "dcli/call/pages.h"
#include "dcli/commands/commands.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"
#include "fsm/base/duration.h"

namespace dfsmr::cli {
namespace limits_command {

std::string RateText(const v1::Limit& limit) {
  if (!limit.has_rate()) return "none";
  const v1::Rate& rate = limit.rate();
  std::string text = std::to_string(rate.count()) + "/" + FormatDuration(FromProto(rate.per()));
  if (rate.burst() > 1) text += " burst " + std::to_string(rate.burst());
  return text;
}

// Where the number comes from: the document by its name, else "set", "asker" or nothing.
std::string FromText(const v1::Limit& limit) {
  const auto origin = std::max(limit.max_from(), limit.rate_from());
  switch (origin) {
    case v1::Limit::OVERRIDE:
      return "set";
    case v1::Limit::DOCUMENT:
      return limit.document();
    case v1::Limit::ASKER:
      return "asker";
    default:
      return "";
  }
}

Table TableOf(const Context& context) {
  std::vector<std::string> header = {"KEY", "MAX", "HELD", "WAITING", "RATE", "FROM", "NOTE"};
  if (context.wide()) header.insert(header.end(), {"SET BY", "SET"});
  return Table(header);
}

void AddTo(Table* table, const Context& context, const v1::Limit& limit) {
  std::vector<std::string> row = {limit.key(),
                                  limit.has_max() ? std::to_string(limit.max()) : "none",
                                  std::to_string(limit.held()),
                                  std::to_string(limit.waiting()),
                                  RateText(limit),
                                  FromText(limit),
                                  limit.note()};
  if (context.wide()) {
    row.push_back(limit.set_by());
    row.push_back(limit.has_set_time() ? When(limit.set_time(), context.look) : "");
  }
  table->Add(std::move(row));
}

void PrintHolders(Context& context, const v1::Limit& limit) {
  if (limit.holders_size() == 0) return;
  context.out << '\n';
  Table table({"HELD BY", "NODE", "SINCE", "STATE"});
  for (const v1::LimitHolder& holder : limit.holders()) {
    const std::string state = holder.cancelling() ? "to go" : holder.forced() ? "forced" : "";
    table.Add({holder.instance(), holder.node(), When(holder.since(), context.look), state});
  }
  table.Print(context.out, context.look);
}

void PrintWaiters(Context& context, const v1::Limit& limit) {
  if (limit.waiters_size() == 0) return;
  context.out << '\n';
  Table table({"WAITS", "NODE", "SINCE", "PRIORITY", "LACKS", "STATE"});
  for (const v1::LimitWaiter& waiter : limit.waiters()) {
    std::string lacks;
    for (const std::string& key : waiter.lacks()) lacks += (lacks.empty() ? "" : ", ") + key;
    table.Add({waiter.instance(), waiter.node(), When(waiter.since(), context.look),
               std::to_string(waiter.priority()), lacks, waiter.paused() ? "paused" : ""});
  }
  table.Print(context.out, context.look);
}

void PrintLimit(Context& context, const v1::Limit& limit) {
  if (context.Print(limit)) return;
  if (context.names()) {
    context.out << limit.key() << '\n';
    return;
  }
  Table table = TableOf(context);
  AddTo(&table, context, limit);
  table.Print(context.out, context.look);
  PrintHolders(context, limit);
  PrintWaiters(context, limit);
}

int Show(Context& context, const std::string& key) {
  v1::GetLimitRequest request;
  request.set_namespace_(context.name_space);
  request.set_key(key);
  v1::Limit all;
  do {
    auto page = context.client->schedules().GetLimit(request);
    if (!page) return context.Fail(page.error());
    request.set_page_token(page->next_page_token());
    if (all.key().empty()) {
      all = *std::move(page);
    } else {
      all.mutable_waiters()->MergeFrom(page->waiters());
    }
  } while (!request.page_token().empty());
  all.clear_next_page_token();
  PrintLimit(context, all);
  return kSucceeded;
}

int List(Context& context, const LimitsOptions& options) {
  v1::ListLimitsRequest request;
  request.set_namespace_(context.name_space);
  request.set_prefix(options.prefix);
  request.set_waited_for(options.waited_for);
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->schedules().ListLimits(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Limit& limit : all->limits()) context.out << limit.key() << '\n';
  } else if (all->limits_size() == 0) {
    context.Note("no limit is held, waited for or set here");
  } else {
    Table table = TableOf(context);
    for (const v1::Limit& limit : all->limits()) AddTo(&table, context, limit);
    table.Print(context.out, context.look);
  }
  return kSucceeded;
}

Result<Ok> SetRate(const LimitsOptions& options, v1::SetLimitRequest* request) {
  if (options.rate == "none") {
    request->mutable_rate()->set_count(0);
    return Ok{};
  }
  const size_t slash = options.rate.find('/');
  const auto count = ParseCount("--rate", options.rate.substr(0, slash));
  if (slash == std::string::npos || !count || *count == 0) {
    return BadUsage(
        "--rate takes how many may begin in a time, such as 100/1m, or none; and not \"" +
        options.rate + "\"");
  }
  const auto per = ParseDuration(options.rate.substr(slash + 1));
  if (!per) return per.error();
  request->mutable_rate()->set_count(*count);
  *request->mutable_rate()->mutable_per() = ToProto(*per);
  return Ok{};
}

Result<v1::SetLimitRequest> SetRequestOf(const Context& context, const LimitsOptions& options) {
  v1::SetLimitRequest request;
  request.set_namespace_(context.name_space);
  request.set_key(options.key);
  if (options.note) request.set_note(*options.note);
  if (options.max == "none") {
    request.set_no_max(true);
  } else if (!options.max.empty()) {
    const auto max = ParseCount("--max", options.max);
    if (!max) return BadUsage(max.error().message + "; or none");
    request.set_max(*max);
  }
  if (!options.rate.empty()) {
    const auto rate = SetRate(options, &request);
    if (!rate) return rate.error();
  }
  if (options.burst.empty()) return request;
  const auto burst = ParseCount("--burst", options.burst);
  if (!burst) return burst.error();
  if (!request.has_rate()) return BadUsage("--burst stands beside --rate");
  request.mutable_rate()->set_burst(*burst);
  return request;
}

int Answer(Context& context, const Result<v1::Limit>& limit) {
  if (!limit) return context.Fail(limit.error());
  PrintLimit(context, *limit);
  return kSucceeded;
}

int Set(Context& context, const LimitsOptions& options) {
  const auto request = SetRequestOf(context, options);
  if (!request) return context.FailUsage(request.error());
  return Answer(context, context.client->schedules().SetLimit(*request));
}

int Reset(Context& context, const LimitsOptions& options) {
  v1::SetLimitRequest request;
  request.set_namespace_(context.name_space);
  request.set_key(options.key);
  request.set_reset(true);
  return Answer(context, context.client->schedules().SetLimit(request));
}

int Delete(Context& context, const LimitsOptions& options) {
  v1::DeleteDefinitionRequest request;
  request.set_namespace_(context.name_space);
  request.set_limit(options.key);
  const auto deleted = context.client->schedules().DeleteDefinition(request);
  if (!deleted) return context.Fail(deleted.error());
  if (context.names()) {
    context.out << options.key << '\n';
  } else if (!context.Print(*deleted)) {
    context.out << "limit " << options.key << " deleted\n";
  }
  return kSucceeded;
}

}  // namespace limits_command

int Limits(Context& context, const LimitsOptions& given) {
  using namespace limits_command;  // NOLINT: the folder is one unit of compilation
  LimitsOptions options = given;
  const std::string& action = options.action;
  const std::string numbers = options.max + options.rate + options.burst;
  if (action != "set" && (!numbers.empty() || options.note)) {
    return context.FailUsage(
        BadUsage("--max, --rate, --burst and --note go with 'limits set KEY'"));
  }
  if (action.empty()) return List(context, options);
  const bool sets = action == "set" || action == "reset" || action == "delete" || action == "show";
  if (!sets && options.key.empty()) return Show(context, action);
  if (!sets) return context.FailUsage(BadUsage("say set, reset, delete or show before the key"));
  if (options.key.empty()) return context.FailUsage(BadUsage("say which KEY to " + action));
  if (action == "set") return Set(context, options);
  if (action == "reset") return Reset(context, options);
  if (action == "delete") return Delete(context, options);
  return Show(context, options.key);
}

}  // namespace dfsmr::cli
