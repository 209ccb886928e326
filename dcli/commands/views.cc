#include "dcli/commands/views.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "dcli/call/pages.h"
#include "dcli/call/views.h"
#include "dcli/commands/commands.h"
#include "dcli/text/text.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {

namespace {

// Whether the word is several terms, `KEY:VALUE KEY:VALUE`, and no value with spaces.
bool IsTerms(const std::string& word) {
  for (size_t at = word.find(' '); at != word.npos; at = word.find(' ', at + 1)) {
    const std::string_view behind = std::string_view(word).substr(at + 1);
    const std::string_view next = behind.substr(0, behind.find(' '));
    const size_t colon = next.find(':');
    if (colon != next.npos && colon > 0 && colon + 1 < next.size()) return true;
  }
  return false;
}

}  // namespace

std::string FilterOf(const std::vector<std::string>& terms) {
  std::string filter;
  for (const std::string& term : terms) {
    if (!filter.empty()) filter += ' ';
    const bool quotes = term.find(' ') != std::string::npos &&
                        term.find('"') == std::string::npos && !IsTerms(term);
    const size_t colon = term.find(':');
    if (!quotes) {
      filter += term;
    } else if (colon == std::string::npos || term.find(' ') < colon) {
      filter += '"' + term + '"';
    } else {
      filter += term.substr(0, colon + 1) + '"' + term.substr(colon + 1) + '"';
    }
  }
  return filter;
}

namespace {

std::string AgeText(bool has, const google::protobuf::Duration& age) {
  return has ? DurationText(FromProto(age)) : "";
}

}  // namespace

int Count(Context& context, const CountOptions& options) {
  v1::CountInstancesRequest request;
  request.set_namespace_(context.name_space);
  request.set_filter(FilterOf(options.terms));
  if (!options.by.empty()) {
    const auto by = ParseEnum(v1::CountInstancesRequest::By_descriptor(), options.by, "by");
    if (!by) return context.FailUsage(by.error());
    request.set_by(static_cast<v1::CountInstancesRequest::By>(*by));
  }
  v1::CountInstancesResponse counted;
  do {  // each page counts on from the one before
    auto page = context.client->views().CountInstances(request);
    if (!page) return context.Fail(page.error());
    counted = *std::move(page);
    request.set_page_token(counted.next_page_token());
  } while (!counted.next_page_token().empty());
  if (context.Print(counted)) return kSucceeded;
  if (request.by() == v1::CountInstancesRequest::BY_UNSPECIFIED) {
    context.out << counted.total() << '\n';
    return kSucceeded;
  }
  Table table({v1::CountInstancesRequest::By_Name(request.by()), "INSTANCES"});
  const std::map<std::string, uint64_t> groups(counted.groups().begin(), counted.groups().end());
  for (const auto& [group, count] : groups) table.Add({group, std::to_string(count)});
  table.Add({"all", std::to_string(counted.total())});
  table.Print(context.out, context.look);
  return kSucceeded;
}

int Queues(Context& context, const QueuesOptions& options) {
  v1::ListQueuesRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(options.machine);
  request.set_queue(options.queue);
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->views().ListQueues(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  Table table({"QUEUE", "MACHINE", "NODE", "READY", "OLDEST", "CLAIMED", "ASKING", "ASKED", "RATE",
               "ACTION"});
  std::set<std::string> named;  // a queue has a row for each node
  for (const v1::QueueRow& row : all->queues()) {
    if (context.names()) {
      if (named.insert(row.queue()).second) context.out << row.queue() << '\n';
      continue;
    }
    const std::string back =
        row.held_back() > 0 ? " +" + std::to_string(row.held_back()) + " held back" : "";
    table.Add({row.queue(), row.machine(), row.node(), std::to_string(row.ready()) + back,
               AgeText(row.has_oldest_ready(), row.oldest_ready()), std::to_string(row.claimed()),
               std::to_string(row.asking()), When(row.asked_time(), context.look),
               std::to_string(std::lround(row.claims_per_second() * 60)) + "/min", row.action()});
  }
  if (!table.empty()) table.Print(context.out, context.look);
  if (all->queues_size() == 0) context.Note("no work nodes");
  return kSucceeded;
}

int Workers(Context& context, const QueuesOptions& options) {
  v1::ListWorkersRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(options.machine);
  request.set_queue(options.queue);
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->views().ListWorkers(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  Table table({"WORKER", "HOW", "IN HAND", "DONE", "FAILED", "TIMED OUT", "STALE", "SEEN",
               "ADDRESS", "ASKS FOR"});
  for (const v1::WorkerRow& row : all->workers()) {
    if (context.names()) {
      context.out << row.worker() << '\n';
      continue;
    }
    const std::string of = row.capacity() > 0 ? " of " + std::to_string(row.capacity()) : "";
    table.Add({row.worker(), row.how(), std::to_string(row.in_hand()) + of,
               std::to_string(row.done_hour()), std::to_string(row.failed_hour()),
               std::to_string(row.timed_out_hour()), std::to_string(row.stale_hour()),
               When(row.seen_time(), context.look), row.address(), row.asks_for()});
  }
  if (!table.empty()) table.Print(context.out, context.look);
  if (all->workers_size() == 0) context.Note("no worker has asked for work lately");
  return kSucceeded;
}

int ShowSteps(Context& context, const StepsOptions& options) {
  v1::ListStepsRequest request;
  request.set_namespace_(context.name_space);
  request.set_instance(options.instance);
  request.set_under(options.under);
  if (!options.state.empty()) {
    const auto state = ParseEnum(v1::Step::State_descriptor(), options.state, "state");
    if (!state) return context.FailUsage(state.error());
    request.set_state(static_cast<v1::Step::State>(*state));
  }
  const auto all = AllPages(
      request, [&context](const auto& one) { return context.client->views().ListSteps(one); });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  Table table({"STEP", "STATES", "PROGRESS", "STARTED", "ENDED", "AFTER", "ERROR"});
  for (const v1::StepRow& row : all->rows()) {
    if (context.names()) {
      context.out << row.path() << '\n';
      continue;
    }
    const std::map<std::string, uint64_t> states(row.states().begin(), row.states().end());
    std::string text;
    for (const auto& [state, count] : states) {
      text += (text.empty() ? "" : ", ") +
              (row.has_step() && row.steps() == 1 ? "" : std::to_string(count) + " ") + state;
    }
    std::string after;
    for (const std::string& before : row.after()) after += (after.empty() ? "" : ",") + before;
    table.Add({row.path() + (row.has_step() ? "" : ".*"), text, PercentText(row.progress()),
               When(row.start_time(), context.look), When(row.end_time(), context.look), after,
               row.error()});
  }
  if (!table.empty()) table.Print(context.out, context.look);
  if (all->rows_size() == 0) context.Note("no steps");
  return kSucceeded;
}

int Durations(Context& context, const DurationsOptions& options) {
  const auto machine = ParseMachineRef(options.machine);
  if (!machine) return context.FailUsage(machine.error());
  v1::GetDurationsRequest request;
  request.set_namespace_(context.name_space);
  request.set_machine(machine->id);
  request.set_version(machine->version);
  request.set_node(options.node);
  const auto reply = context.client->views().GetDurations(request);
  if (!reply) return context.Fail(reply.error());
  if (context.Print(*reply)) return kSucceeded;
  constexpr uint64_t kWidth = 40;
  uint64_t most = 1;
  for (const auto& bucket : reply->first()) most = std::max<uint64_t>(most, bucket.count());
  Table table({"UP TO", "ATTEMPTS", "TIMED OUT", ""});
  bool shown = !reply->has_timeout_now();
  for (const auto& bucket : reply->first()) {
    const bool here = !shown && FromProto(reply->timeout_now()) <= FromProto(bucket.up_to());
    shown = shown || here;
    table.Add({DurationText(FromProto(bucket.up_to())), std::to_string(bucket.count()),
               std::to_string(bucket.timed_out()),
               std::string(bucket.count() * kWidth / most, '#') + (here ? " <- timeout" : "")});
  }
  if (!table.empty()) table.Print(context.out, context.look);
  Description lines;
  lines.Add("Samples", std::to_string(reply->samples()));
  lines.Add("p50", AgeText(reply->has_p50(), reply->p50()));
  lines.Add("p95", AgeText(reply->has_p95(), reply->p95()));
  lines.Add("Timeout", AgeText(reply->has_timeout_now(), reply->timeout_now()));
  lines.Add("Of retries", AgeText(reply->has_retry_timeout_now(), reply->retry_timeout_now()));
  lines.Add("Rule", reply->rule());
  lines.Add("Timed out", PercentText(reply->seen()));
  lines.Add("Meant to", PercentText(reply->meant()));
  lines.Print(context.out, context.look);
  return kSucceeded;
}

}  // namespace dfsmr::cli
