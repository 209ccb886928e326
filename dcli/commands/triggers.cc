#include "dcli/commands/triggers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dcli/call/pages.h"
#include "dcli/commands/occurrences.h"
#include "dcli/text/text.h"
#include "dcli/text/values.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

constexpr int kOccurrencesShown = 5;

template <typename Triggers>
void PrintTriggers(Context& context, const Triggers& triggers) {
  Table table({"TRIGGER", "VERSION", "STATE", "ON", "LAST", "OUTCOME", "FAILED", "LAG"});
  for (const v1::Trigger& one : triggers) {
    table.Add({one.name(), std::to_string(one.version()), v1::Schedule::State_Name(one.state()),
               one.summary(), one.has_last() ? When(one.last().time(), context.look) : "",
               one.has_last() ? OutcomeText(one.last()) : "", std::to_string(one.failed()),
               one.cursor().empty() ? "" : std::to_string(one.lag())});
  }
  table.Print(context.out, context.look);
}

int PrintTriggerLine(Context& context, const v1::Trigger& trigger) {
  if (context.Print(trigger)) return kSucceeded;
  if (context.names()) {
    context.out << trigger.name() << '\n';
  } else {
    PrintTriggers(context, std::vector<v1::Trigger>{trigger});
  }
  return kSucceeded;
}

Result<v1::Trigger> GetTrigger(Context& context, const std::string& name) {
  v1::GetTriggerRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(name);
  return context.client->schedules().GetTrigger(request);
}

int ListAll(Context& context, const TriggersOptions& options) {
  v1::ListTriggersRequest request;
  request.set_namespace_(context.name_space);
  request.set_failed(options.failed);
  request.set_page_size(1'000);
  const auto all = AllPages(request, [&context](const auto& one) {
    return context.client->schedules().ListTriggers(one);
  });
  if (!all) return context.Fail(all.error());
  if (context.Print(*all)) return kSucceeded;
  if (context.names()) {
    for (const v1::Trigger& one : all->triggers()) context.out << one.name() << '\n';
  } else if (all->triggers_size() > 0) {
    PrintTriggers(context, all->triggers());
  } else {
    context.Note("there is no trigger");
  }
  return kSucceeded;
}

void DescribePoll(const v1::Trigger& one, Description* lines) {
  if (one.poll_failures() > 0) {
    lines->Add("Polls", std::to_string(one.poll_failures()) + " failed in a row");
  }
  lines->Add("Poll error", one.poll_error());
  lines->Add("Poll cursor", one.poll_cursor());
  lines->Add("Next poll", TimeText(one.next_poll()));
  lines->Add("Last poll", TimeText(one.last_poll()));
}

void DescribeTrigger(Context& context, const v1::Trigger& one) {
  Description lines;
  lines.Add("Trigger", one.name() + " v" + std::to_string(one.version()));
  lines.Add("Description", one.description());
  lines.Add("State", v1::Schedule::State_Name(one.state()));
  lines.Add("Note", one.note());
  lines.Add("Paused by", one.paused_by());
  lines.Add("Paused", TimeText(one.pause_time()));
  lines.Add("On", one.summary());
  lines.Add("Webhook", one.webhook_path());
  lines.Add("Starts", one.machine());
  lines.Add("Overlap", one.overlap());
  lines.Add("Occurrences", std::to_string(one.occurrences()));
  lines.Add("Filtered", std::to_string(one.filtered()));
  lines.Add("Duplicates", std::to_string(one.duplicates()));
  lines.Add("Gathered", std::to_string(one.gathered()));
  lines.Add("Gatherings", std::to_string(one.open_gatherings()) + " open");
  lines.Add("Failed", std::to_string(one.failed()));
  if (one.dead_letters_lost() > 0) lines.Add("Lost", std::to_string(one.dead_letters_lost()));
  lines.Add("Failures", std::to_string(one.failures_in_a_row()) + " in a row");
  lines.Add("Running", std::to_string(one.running()));
  lines.Add("Waiting", std::to_string(one.waiting()));
  lines.Add("Cursor", one.cursor());
  if (!one.cursor().empty()) lines.Add("Lag", std::to_string(one.lag()));
  DescribePoll(one, &lines);
  lines.Add("Defined", TimeText(one.define_time()));
  lines.Print(context.out, context.look);
}

int ShowTrigger(Context& context, const std::string& name) {
  const auto trigger = GetTrigger(context, name);
  if (!trigger) return context.Fail(trigger.error());
  if (context.names() || context.Print(*trigger)) {
    return context.names() ? PrintTriggerLine(context, *trigger) : kSucceeded;
  }
  DescribeTrigger(context, *trigger);
  const auto last = ListOccurrences(context, {.trigger = true, .name = name}, {}, kOccurrencesShown);
  if (!last) return context.Fail(last.error());
  if (last->occurrences_size() == 0) return kSucceeded;
  context.out << '\n';
  PrintOccurrences(context, last->occurrences());
  return kSucceeded;
}

int Fire(Context& context, const TriggersOptions& options) {
  v1::FireTriggerRequest request;
  request.set_namespace_(context.name_space);
  request.set_name(options.words[0]);
  request.set_on(options.on);
  request.set_item(options.item);
  const auto occurrence = context.client->schedules().FireTrigger(request);
  if (!occurrence) return context.Fail(occurrence.error());
  if (!context.Print(*occurrence)) {
    google::protobuf::RepeatedPtrField<v1::Occurrence> one;
    *one.Add() = *occurrence;
    PrintOccurrences(context, one);
  }
  return occurrence->outcome() == v1::Occurrence::FAILED ? kRefused : kSucceeded;
}

int PauseTrigger(Context& context, const TriggersOptions& options, bool paused) {
  const auto reply = SetPaused(context, {.trigger = true, .name = options.words[0]}, paused,
                               options.note, options.skip);
  return reply ? PrintTriggerLine(context, reply->trigger()) : context.Fail(reply.error());
}

int DeleteTrigger(Context& context, const std::string& name) {
  const auto trigger = GetTrigger(context, name);
  if (!trigger) return context.Fail(trigger.error());
  v1::DeleteDefinitionRequest request;
  request.set_namespace_(context.name_space);
  request.set_trigger(name);
  const auto reply = context.client->schedules().DeleteDefinition(request);
  if (!reply) return context.Fail(reply.error());
  context.Note("trigger " + name + " is deleted; what it started goes on");
  return PrintTriggerLine(context, *trigger);
}

int ActOn(Context& context, const TriggersOptions& options) {
  const std::string& action = options.action;
  const OccurrencesOf of{.trigger = true, .name = options.words[0]};
  const std::vector<std::string> ids(options.words.begin() + 1, options.words.end());
  if (action == "fire") return Fire(context, options);
  if (action == "show") return ShowTrigger(context, of.name);
  if (action == "history") return PrintHistory(context, of, options.outcomes, options.limit);
  if (action == "retry" || action == "drop") {
    if (ids.empty() != options.all) {
      return context.FailUsage(BadUsage("say which: ID..., or --all"));
    }
    return RetryOccurrences(context, of, ids, options.all, action == "drop");
  }
  if (action == "pause" || action == "resume") {
    return PauseTrigger(context, options, action == "pause");
  }
  return DeleteTrigger(context, of.name);
}

}  // namespace

int Triggers(Context& context, const TriggersOptions& options) {
  static constexpr std::array<std::string_view, 8> kWords = {"fire", "show",  "history", "retry",
                                                             "drop", "pause", "resume",  "delete"};
  if (options.action.empty()) return ListAll(context, options);
  const bool acts = std::ranges::find(kWords, options.action) != kWords.end();
  if (!acts && options.words.empty()) return ShowTrigger(context, options.action);
  if (!acts) {
    return context.FailUsage(BadUsage("triggers does not know \"" + options.action + "\"" +
                                      DidYouMean(options.action, {kWords.begin(), kWords.end()})));
  }
  if (options.words.empty()) {
    return context.FailUsage(BadUsage("triggers " + options.action +
                                      " needs the NAME of a trigger; one that is called so "
                                      "itself is shown by: triggers show " +
                                      options.action));
  }
  const bool many = options.action == "retry" || options.action == "drop";
  if (!many && options.words.size() > 1) {
    return context.FailUsage(
        BadUsage("triggers " + options.action + " does not take \"" + options.words[1] + "\""));
  }
  return ActOn(context, options);
}

}  // namespace dfsmr::cli
