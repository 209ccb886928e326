#include "dcli/commands/occurrences.h"

#include <algorithm>
#include <set>

#include "dcli/text/text.h"
#include "dcli/view/describe.h"

namespace dfsmr::cli {
namespace {

template <typename Request>
void SetName(const Context& context, const OccurrencesOf& of, Request* request) {
  request->set_namespace_(context.name_space);
  of.trigger ? request->set_trigger(of.name) : request->set_schedule(of.name);
}

std::string NoteOf(const v1::Occurrence& one) {
  if (one.outcome() != v1::Occurrence::MISSED) return one.error();
  return std::to_string(one.count()) + (one.count() == 1 ? " time" : " times") + ", up to " +
         TimeText(FromProto(one.until_time()));
}

}  // namespace

std::string OutcomeText(const v1::Occurrence& occurrence) {
  return v1::Occurrence::Outcome_Name(occurrence.outcome());
}

void PrintOccurrences(Context& context,
                      const google::protobuf::RepeatedPtrField<v1::Occurrence>& occurrences) {
  if (context.names()) {
    for (const v1::Occurrence& one : occurrences) context.out << Escaped(one.id()) << '\n';
    return;
  }
  std::vector<std::string> header = {"TIME", "KIND", "OUTCOME", "INSTANCE", "RESULT", "NOTE"};
  if (context.wide()) header.insert(header.begin(), "ID");
  Table table(std::move(header));
  for (const v1::Occurrence& one : occurrences) {
    std::vector<std::string> cells = {TimeText(FromProto(one.time())),
                                      v1::Occurrence::Kind_Name(one.kind()), OutcomeText(one),
                                      one.instance(), NameOf(one.result()), NoteOf(one)};
    if (context.wide()) cells.insert(cells.begin(), one.id());
    table.Add(std::move(cells));
  }
  table.Print(context.out, context.look);
}

static Result<Outcomes> ReadOutcomes(const std::vector<std::string>& words) {
  Outcomes outcomes;
  for (const std::string& word : words) {
    const auto outcome = ParseEnum(v1::Occurrence::Outcome_descriptor(), word, "outcome");
    if (!outcome) return outcome.error();
    outcomes.push_back(static_cast<v1::Occurrence::Outcome>(*outcome));
  }
  return outcomes;
}

Result<v1::ListOccurrencesResponse> ListOccurrences(Context& context, const OccurrencesOf& of,
                                                    const Outcomes& outcomes, int limit) {
  v1::ListOccurrencesRequest request;
  SetName(context, of, &request);
  for (const v1::Occurrence::Outcome outcome : outcomes) request.add_outcomes(outcome);
  v1::ListOccurrencesResponse all;
  do {
    request.set_page_size(limit == 0 ? 1'000 : std::min(1'000, limit - all.occurrences_size()));
    auto page = context.client->schedules().ListOccurrences(request);
    if (!page) return page;
    all.mutable_occurrences()->MergeFrom(page->occurrences());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || all.occurrences_size() < limit));
  all.set_next_page_token(request.page_token());
  return all;
}

int PrintHistory(Context& context, const OccurrencesOf& of,
                 const std::vector<std::string>& outcomes, int limit) {
  const auto wanted = ReadOutcomes(outcomes);
  if (!wanted) return context.FailUsage(wanted.error());
  const auto list = ListOccurrences(context, of, *wanted, limit);
  if (!list) return context.Fail(list.error());
  if (context.Print(*list)) return kSucceeded;
  PrintOccurrences(context, list->occurrences());
  if (list->occurrences_size() == 0) context.Note("there is no occurrence");
  if (!list->next_page_token().empty()) context.Note("there are more: --limit 0 shows all");
  return kSucceeded;
}

int RetryOccurrences(Context& context, const OccurrencesOf& of,
                     const std::vector<std::string>& ids, bool all, bool drop) {
  v1::RetryOccurrencesRequest request;
  SetName(context, of, &request);
  request.set_all(all);
  request.set_drop(drop);
  for (const std::string& id : ids) request.add_ids(id);
  v1::RetryOccurrencesResponse done;
  std::set<std::string> seen;
  for (bool more = true; more;) {
    auto reply = context.client->schedules().RetryOccurrences(request);
    if (!reply) return context.Fail(reply.error());
    more = reply->more();
    for (const auto& result : reply->results()) {
      // What failed again comes again, behind all others: then each has been tried.
      if (all && result.has_error()) more = false;
      if (all && !seen.insert(result.occurrence().id()).second) {
        more = false;
        continue;
      }
      *done.add_results() = result;
    }
  }
  bool well = true;
  google::protobuf::RepeatedPtrField<v1::Occurrence> occurrences;
  for (const auto& result : done.results()) {
    well = well && !result.has_error() && result.occurrence().outcome() != v1::Occurrence::FAILED;
    if (!result.has_error()) *occurrences.Add() = result.occurrence();
  }
  if (!context.Print(done)) {
    if (!occurrences.empty()) PrintOccurrences(context, occurrences);
    if (done.results_size() == 0) context.Note("there is no FAILED occurrence");
  }
  context.out.flush();
  for (const auto& result : done.results()) {
    if (!result.has_error()) continue;
    const Error error = FromProto(result.error());
    const std::string kind = of.trigger ? "triggers" : "schedules";
    const bool listed = error.reason == Reason::kNotHeld;
    context.Fail(error, listed ? "dcli " + kind + " history " + of.name +
                                     " --outcome failed lists those that can be"
                               : "");
  }
  return well ? kSucceeded : kRefused;
}

Result<v1::SetPausedResponse> SetPaused(Context& context, const OccurrencesOf& of, bool paused,
                                        const std::string& note, bool skip_missed) {
  v1::SetPausedRequest request;
  SetName(context, of, &request);
  request.set_paused(paused);
  request.set_note(note);
  request.set_skip_missed(skip_missed);
  return context.client->schedules().SetPaused(request);
}

}  // namespace dfsmr::cli
